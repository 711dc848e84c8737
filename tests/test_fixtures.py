"""Files that version 0.1.0 saved load with today's code and give the predictions of that version."""

import csv
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from cornn import CoRNN, estimators
from cornn.baselines import LAYERS
from cornn.export.load import load_model
from cornn.lab import training
from cornn.layers import INITS

SAVED = Path(__file__).parent / "fixtures" / "0.1.0"
EXPECTED = json.loads((SAVED / "expected.json").read_text())
RUNS = ["run-finished", "run-rival", "run-gru", "run-seeds/seed-0", "run-seeds/seed-1"]

# They have no checksums.
pytestmark = pytest.mark.filterwarnings("ignore:.*has no checksum")

# The files were written with AVX-512; other instruction sets sum in another order.
FLOAT32 = {"rtol": 1e-4, "atol": 1e-5}
# Resuming trains on for hundreds of steps, each of which magnifies that difference.
TRAINED = {"rtol": 1e-2, "atol": 1e-3}
FLOAT64 = {"rtol": 1e-12, "atol": 1e-12}


def sequences() -> torch.Tensor:
    return torch.randn(10, 3, 2, generator=torch.Generator().manual_seed(2))


def waves() -> tuple[np.ndarray, list[str]]:
    with open(SAVED / "waves.csv") as file:
        rows = list(csv.reader(file))[1:]
    return np.array([[float(value) for value in row[:-1]] for row in rows]), [row[-1] for row in rows]


def assert_close(found, expected, **tolerance) -> None:
    np.testing.assert_allclose(np.asarray(found), np.asarray(expected), **tolerance)


@pytest.mark.parametrize("name", json.loads((SAVED / "layers.json").read_text()))
def test_a_layer_state_dict(name):
    kind, arguments = json.loads((SAVED / "layers.json").read_text())[name]
    layer = CoRNN(3, 5, **arguments) if kind == "CoRNN" else LAYERS[kind](3, 6)
    weights = load_file(SAVED / "layers.safetensors")
    layer.load_state_dict({key.split("/")[1]: value for key, value in weights.items() if key.split("/")[0] == name})
    outputs = load_file(SAVED / "layers-output.safetensors")
    with torch.no_grad():
        torch.testing.assert_close(layer(outputs["input"])[0], outputs[name], **FLOAT32)


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
@pytest.mark.parametrize("init", ["paper", "separate", "separate-pair", "memory", "uncoupled"])
def test_weights_outputs_and_gradients_of_an_init(init, damping):
    """The weights to the bit: they are drawn, not computed."""
    assert init in INITS
    saved = load_file(SAVED / "inits.safetensors")
    torch.manual_seed(3)
    layer = CoRNN(
        3,
        5,
        num_layers=2,
        init=init,
        damping=damping,
        dt=0.2,
        gamma=1.5,
        epsilon=2.5,
        dtype=torch.float64,
        backend="portable",
    )
    for name, value in layer.state_dict().items():
        assert torch.equal(value, saved[f"{init}/{damping}/weight/{name}"]) or init == "memory", name
        torch.testing.assert_close(value, saved[f"{init}/{damping}/weight/{name}"], **FLOAT64)
    output = layer(load_file(SAVED / "layers-output.safetensors")["input"].double())[0]
    torch.testing.assert_close(output, saved[f"{init}/{damping}/output"], **FLOAT64)
    output.square().sum().backward()
    for name, parameter in layer.named_parameters():
        torch.testing.assert_close(parameter.grad, saved[f"{init}/{damping}/gradient/{name}"], **FLOAT64)


@pytest.mark.parametrize("name", RUNS)
def test_a_finished_run(name):
    with torch.no_grad():
        assert_close(load_model(SAVED / name).model(sequences()), EXPECTED["outputs"][name], **FLOAT32)


@pytest.mark.parametrize("name", ["run-finished", "run-rival"])
def test_evaluating_a_finished_run(cornn, name):
    code, out, _ = cornn("evaluate", SAVED / name)
    assert code == 0
    assert f"{EXPECTED['test'][name]:.4f}" in out


@pytest.mark.slow
def test_resuming_an_interrupted_run(tmp_path):
    shutil.copytree(SAVED / "run-interrupted", tmp_path / "run")
    training.resume(tmp_path / "run")
    with torch.no_grad():
        found = load_model(tmp_path / "run").model(sequences())
    assert_close(found, EXPECTED["outputs"]["run-interrupted"], **TRAINED)
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    assert_close(result["test"], EXPECTED["test"]["run-interrupted"], **TRAINED)


def test_the_classifier():
    model = estimators.load(SAVED / "classifier.safetensors")
    assert list(model.classes_) == ["fast", "slow"]
    assert_close(model.predict_proba(waves()[0][:5]), EXPECTED["outputs"]["classifier"], **FLOAT32)


@pytest.mark.parametrize("name", ["regressor", "forecaster"])
def test_the_regressor_and_the_forecaster(name):
    model = estimators.load(SAVED / f"{name}.safetensors")
    assert_close(model.predict(waves()[0][:5]), EXPECTED["outputs"][name], **FLOAT32)


def test_the_folder_of_a_fit(cornn, tmp_path):
    code, _, err = cornn("predict", SAVED / "fit", SAVED / "waves.csv", "--out", tmp_path / "found.csv")
    assert code == 0, err
    with open(SAVED / "fit-predictions.csv") as before, open(tmp_path / "found.csv") as after:
        expected, found = list(csv.DictReader(before)), list(csv.DictReader(after))
    assert [row.keys() for row in found] == [row.keys() for row in expected]
    for one, other in zip(found, expected, strict=True):
        for name, value in other.items():
            if name.startswith("chance of"):
                assert_close(float(one[name]), float(value), **FLOAT32)
            else:
                assert one[name] == value


def test_the_hub_folder():
    from cornn.export.hub import HubModel

    model = HubModel.from_pretrained(SAVED / "hub", strict=True)
    with torch.no_grad():
        assert_close(model(sequences()), EXPECTED["outputs"]["hub"], **FLOAT32)


def test_the_storage_of_a_search(cornn, tmp_path):
    """The same command finds both trials done, and adds one."""
    shutil.copytree(SAVED / "search", tmp_path / "search")
    size = ("--length", 10, "--hidden-size", 4, "--batch-size", 8)
    budget = ("--steps", 20, "--evaluate-every", 10, "--trials", 3)
    code, _, err = cornn("search", "adding", *size, *budget, "--quiet", "--out", tmp_path / "search")
    assert code == 0, err
    before = json.loads((SAVED / "search" / "trials.json").read_text())
    after = json.loads((tmp_path / "search" / "trials.json").read_text())
    assert after["trials"][:2] == before["trials"][:2]
    assert len(after["trials"]) == 3
