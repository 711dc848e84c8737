"""`cornn export`: from what `cornn train` and the estimators leave to files."""

import os
import subprocess
import sys

import numpy as np
import pytest
import torch

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from cornn import artifacts
from cornn.estimators import CoRNNClassifier, CoRNNForecaster
from cornn.export import load_model
from cornn.export.check import open_session
from cornn.lab import training
from cornn.lab.config import from_dictionary
from cornn.lab.runs import open_run

SHORT = ["--length", "12", "--hidden-size", "8", "--steps", "4", "--evaluate-every", "4", "--device", "cpu", "--quiet"]


def test_the_help_says_what_timespans_are(cornn):
    text = " ".join(cornn("export", "--help")[1].replace("│", " ").split())
    assert "Add the duration of each step as input, for samples at uneven times: a number of steps, or a factor" in text


@pytest.mark.parametrize("model", [["cornn"], ["lstm"], ["fastgrnn"]], ids=lambda model: model[0])
def test_a_run_to_onnx(cornn, tmp_path, model):
    assert cornn("train", "adding", *SHORT, "--out", "here", "--model", *model)[0] == 0
    code, out, _ = cornn("export", "here", "--to", "onnx")
    assert code == 0
    assert "inputs: input (batch, time, 2)\noutputs: output (batch, 1)\nlargest deviation of onnxruntime" in out
    assert out.strip().endswith("here/model.onnx")
    config = from_dictionary(open_run(tmp_path / "here").config)
    trained = training.build(config, training.load(config))
    trained.load_state_dict(open_run(tmp_path / "here").weights())
    input = torch.rand(5, 3, 2)
    (output,) = open_session((tmp_path / "here/model.onnx").read_bytes()).run(
        None, {"input": input.transpose(0, 1).numpy()}
    )
    torch.testing.assert_close(torch.from_numpy(output), trained(input).detach(), rtol=1e-5, atol=1e-5)


def test_with_state_to_another_place(cornn, tmp_path):
    cornn("train", "adding", *SHORT, "--out", "here")
    code, out, _ = cornn("export", "here", "--to", "onnx", "--state", "--lengths", "--timespans", "-o", "there/it.onnx")
    assert code == 0
    assert "inputs: input (batch, time, 2); lengths (batch); timespans (batch, time); y (1, batch, 8); z (1" in out
    assert "outputs: output (batch, 1); last_y (1, batch, 8); last_z (1, batch, 8)" in out
    assert (tmp_path / "there/it.onnx").exists()
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["it.onnx"]


def test_an_estimator_to_onnx(cornn, tmp_path):
    X = np.random.default_rng(0).normal(size=(20, 9, 2))
    estimator = CoRNNClassifier(method="network", hidden_size=4, epochs=1, random_state=0).fit(X, np.arange(20) % 2)
    # As a file of its own, and as the folder of `cornn fit` has it.
    estimator.save(tmp_path / "mine.safetensors")
    files = {"model.safetensors": (tmp_path / "mine.safetensors").read_bytes(), "config.json": b"{}"}
    artifacts.write_folder(tmp_path / "fitted", "estimator", files)
    for source, target in (("mine.safetensors", "mine-model.onnx"), ("fitted", "fitted/model.onnx")):
        code, out, _ = cornn("export", source, "--to", "onnx")
        assert code == 0
        assert "outputs: probabilities (batch, 2)" in out
        assert (tmp_path / target).exists()
    code, _, _ = cornn("export", "mine.safetensors", "--to", "hub")
    assert code == 0
    assert (tmp_path / "mine-hub" / "estimator.safetensors").exists()


def test_a_pool_of_forecasters_to_the_hub(cornn, tmp_path):
    hub = pytest.importorskip("cornn.export.hub")
    series = np.sin(2 * np.pi * np.arange(60) / 12)
    CoRNNForecaster(period=12).fit(series).save(tmp_path / "pool.safetensors")
    code, out, _ = cornn("export", "pool.safetensors", "--to", "hub")
    assert (code, out) == (0, "wrote CoRNNForecaster to pool-hub\n")
    card = (tmp_path / "pool-hub" / "README.md").read_text()
    assert "- method: pool of simple forecasters\n- seasons: 12 steps\n" in card
    assert hub.load_estimator(tmp_path / "pool-hub").predict(series).shape == (1,)


def test_a_run_to_the_hub(cornn, tmp_path):
    hub = pytest.importorskip("cornn.export.hub")
    cornn("train", "adding", *SHORT, "--out", "here")
    code, out, _ = cornn("export", "here", "--to", "hub")
    assert code == 0
    assert out.strip().endswith("wrote adding, cornn to here/hub")
    again = hub.HubModel.from_pretrained(tmp_path / "here/hub", strict=True)
    input = torch.rand(5, 3, 2)
    assert torch.equal(again(input), load_model(tmp_path / "here").model(input))


def test_errors_are_one_line(cornn, tmp_path):
    code, _, err = cornn("export", "nothing", "--to", "onnx")
    assert code == 2
    assert err.startswith(
        "cornn: nothing does not exist: pass a run folder of `cornn train`, a folder of `cornn fit`, or a file"
    )
    cornn("train", "adding", *SHORT, "--model", "lem", "--out", "here")
    code, _, err = cornn("export", "here", "--to", "onnx")
    assert code == 2
    assert "cannot export the layer LEM to ONNX: supported layers are CoRNN, LSTM, GRU, RNN" in err
    code, _, err = cornn("export", "here", "--to", "hub", "--state")
    assert code == 2
    assert "--state is only for --to onnx: omit it" in err
    cornn("train", "adding", *SHORT, "--model", "lstm", "--out", "untimed")
    code, _, err = cornn("export", "untimed", "--to", "onnx", "--timespans")
    assert (code, err) == (2, "cornn: LSTM has no time step: omit --timespans\n")
    (tmp_path / "here/model.safetensors").unlink()
    code, _, err = cornn("export", "here", "--to", "onnx")
    assert code == 2
    assert "has no model.safetensors: its training has not finished" in err
    (tmp_path / "here/model.safetensors").write_bytes(b"no weights")
    code, _, err = cornn("export", "here", "--to", "onnx")
    assert code == 2
    assert "here/model.safetensors is damaged" in err


def test_a_place_that_cannot_be_written(cornn, tmp_path):
    cornn("train", "adding", *SHORT, "--out", "here")
    (tmp_path / "file").write_text("", encoding="utf8")
    code, _, err = cornn("export", "here", "--to", "onnx", "-o", "file/model.onnx")
    assert code == 2
    assert "cannot write file/model.onnx" in err
    assert "choose another path" in err


@pytest.mark.parametrize("target", ["c", "hub"])
def test_a_full_disk_is_said_in_one_sentence(cornn, monkeypatch, target):
    cornn("train", "adding", *SHORT, "--out", "here")

    if target == "hub":
        pytest.importorskip("huggingface_hub")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    code, _, err = cornn("export", "here", "--to", target)
    assert code == 2
    assert err.startswith("cornn: cannot write")
    assert err.endswith("(No space left on device): choose another path\n")


@pytest.mark.slow
def test_the_export_leaves_no_telemetry_of_onnxruntime(tmp_path):
    """onnxruntime 1.31 writes a device identity and events to the user's cache when it is imported."""
    home = tmp_path / "home"
    home.mkdir()
    program = (
        "import sys; from cornn import CoRNN; from cornn.export.onnx import to_onnx; from cornn.models import *;"
        "to_onnx(SequenceModel(CoRNN(2, 3), outputs=1), sys.argv[1])"
    )
    kept = {key: value for key, value in os.environ.items() if key not in ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")}
    command = [sys.executable, "-c", program, str(tmp_path / "model.onnx")]
    subprocess.run(command, env=kept | {"HOME": str(home)}, check=True)
    assert (tmp_path / "model.onnx").stat().st_size > 0
    assert [path for path in home.rglob("*") if path.is_file()] == []
