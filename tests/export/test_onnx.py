"""ONNX files in onnxruntime, compared with their models in PyTorch."""

import json
import sys

import numpy as np
import pytest
import torch
from tolerances import FLOAT32, FLOAT64
from torch import nn
from torch.nn.utils import prune

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from cornn import CoRNN, CustomRNN, engine
from cornn._random import generator
from cornn.baselines import LEM
from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.export import equations
from cornn.export.check import TOLERANCE, open_session
from cornn.export.onnx import OnnxOptions, to_onnx
from cornn.export.recurrent import LAYERS, state_names
from cornn.models import SequenceModel

QUICK = {"hidden_size": 6, "epochs": 2, "random_state": 0, "device": "cpu"}
LAYER = {
    "plain": {},
    "two-layers-both-ways": {"num_layers": 2, "bidirectional": True},
    "implicit-per-neuron": {"damping": "implicit", "gamma": torch.linspace(0.1, 2, 8)},
    "trained-constants": {"trainable": ("dt", "gamma", "epsilon"), "per_neuron": True, "bias": False},
    "duffing": {"activation": "duffing"},
}
ENCODER = {
    "none": (None, (3,)),
    "words": (nn.Embedding(11, 3), ()),
    "map": (nn.Sequential(nn.Linear(5, 3), nn.Dropout(), nn.Tanh()), (5,)),
    "map after dropout": (nn.Sequential(nn.Dropout(), nn.Linear(5, 3)), (5,)),
    "nested words": (nn.Sequential(nn.Sequential(nn.Embedding(11, 3), nn.ReLU())), ()),
}


def model_of(kind=CoRNN, read="last", encoder=None, **options) -> SequenceModel:
    model = SequenceModel(kind(3, 8, **options), 2, read=read, encoder=encoder)
    model.reset_parameters(generator(0, "model"))
    return model.eval()


def values(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator(0, "values"))


def ran(path, **feeds) -> dict:
    running = open_session(path.read_bytes())
    names = [output.name for output in running.get_outputs()]
    return dict(zip(names, running.run(names, {name: np.asarray(value) for name, value in feeds.items()}), strict=True))


def assert_near(found, want) -> None:
    want = np.asarray(want.detach() if isinstance(want, torch.Tensor) else want)
    assert found.shape == want.shape
    assert np.abs(found - want).max() <= TOLERANCE * np.abs(want).max()


@pytest.mark.parametrize("read", ["last", "every", "mean"])
@pytest.mark.parametrize("options", LAYER.values(), ids=LAYER)
def test_any_batch_and_any_length(tmp_path, options, read):
    model = model_of(read=read, **options)
    written = to_onnx(model, tmp_path / "model.onnx")
    assert written.deviation <= TOLERANCE
    assert written.size == (tmp_path / "model.onnx").stat().st_size
    for batch, steps in ((1, 1), (5, 33)):
        input = values(batch, steps, 3)
        want = model(input.transpose(0, 1))
        output = ran(tmp_path / "model.onnx", input=input)["output"]
        assert_near(output, want.transpose(0, 1) if read == "every" else want)


@pytest.mark.parametrize(("encoder", "shape"), ENCODER.values(), ids=ENCODER)
def test_the_encoder_is_included(tmp_path, encoder, shape):
    model = model_of(encoder=encoder)
    to_onnx(model, tmp_path / "model.onnx")
    input = values(2, 9, *shape) if shape else torch.randint(0, 11, (2, 9), generator=generator(0, "words"))
    assert_near(ran(tmp_path / "model.onnx", input=input)["output"], model(input.transpose(0, 1)))


@pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)
def test_every_layer_with_state_and_lengths(tmp_path, kind):
    model = model_of(kind, num_layers=2, bidirectional=True)
    written = to_onnx(model, tmp_path / "model.onnx", OnnxOptions(state=True, lengths=True))
    states = [name for name in written.inputs if name not in ("input", "lengths")]
    assert written.inputs == {"input": ["batch", "time", 3], "lengths": ["batch"]} | {
        n: [4, "batch", 8] for n in states
    }
    assert list(written.outputs) == ["output", *(f"last_{name}" for name in states)]
    input, lengths = values(3, 9, 3), torch.tensor([9, 1, 4])
    feeds = {name: np.zeros((4, 3, 8), np.float32) for name in states}
    found = ran(tmp_path / "model.onnx", input=input, lengths=lengths, **feeds)
    assert_near(found["output"], model(input.transpose(0, 1), lengths))


@pytest.mark.parametrize("kind", [CoRNN, nn.LSTM])
def test_the_mean_over_sequences_of_different_lengths(tmp_path, kind):
    model = model_of(kind, "mean", bidirectional=True)
    to_onnx(model, tmp_path / "model.onnx", OnnxOptions(lengths=True))
    input, lengths = values(3, 9, 3), torch.tensor([9, 1, 4])
    found = ran(tmp_path / "model.onnx", input=input, lengths=lengths)
    assert_near(found["output"], model(input.transpose(0, 1), lengths))


@pytest.mark.parametrize("read", ["last", "every"])
@pytest.mark.parametrize("kind", [CoRNN, nn.GRU])
def test_one_sample_at_a_time(tmp_path, kind, read):
    model = model_of(kind, read, num_layers=2)
    to_onnx(model, tmp_path / "model.onnx", OnnxOptions(state=True))
    running, input = open_session((tmp_path / "model.onnx").read_bytes()), values(2, 12, 3)
    names = state_names(model.layer)
    state = [np.zeros((2, 2, 8), np.float32) for _ in names]
    outputs = []
    for sample in input.split(1, 1):
        output, *state = running.run(None, {"input": sample.numpy(), **dict(zip(names, state, strict=True))})
        outputs.append(output)
    want = model(input.transpose(0, 1))
    assert_near(outputs[-1] if read == "last" else np.concatenate(outputs, 1).swapaxes(0, 1), want)
    end = model.layer(input.transpose(0, 1))[1]
    for part, wanted in zip(state, (end,) if isinstance(end, torch.Tensor) else end, strict=True):
        assert_near(part, wanted)


def test_a_stream_of_python_and_one_of_onnx_agree(tmp_path):
    model = model_of()
    to_onnx(model, tmp_path / "model.onnx", OnnxOptions(state=True))
    running, stream = open_session((tmp_path / "model.onnx").read_bytes()), model.stream()
    y = z = np.zeros((1, 1, 8), np.float32)
    for sample in values(7, 3).numpy():
        output, y, z = running.run(None, {"input": sample[None, None], "y": y, "z": z})
        assert_near(output[0], stream(sample))


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
@pytest.mark.parametrize("init", ["paper", "scaled"])
def test_uneven_times(tmp_path, damping, init):
    model = model_of(damping=damping, bidirectional=True, init=init)
    to_onnx(model, tmp_path / "model.onnx", OnnxOptions(timespans=True))
    input, spans = values(2, 9, 3), values(2, 9).abs()
    y, _ = model.layer.last_state(input.transpose(0, 1), timespans=spans.T)
    found = ran(tmp_path / "model.onnx", input=input, timespans=spans)["output"]
    assert_near(found, model.head(torch.cat(y.unbind(0), -1)))


@pytest.mark.parametrize("lengths", [None, torch.tensor([9, 1, 4])], ids=["equal", "lengths"])
def test_the_mean_at_uneven_times(tmp_path, lengths):
    model = model_of(read="mean", bidirectional=True)
    to_onnx(model, tmp_path / "model.onnx", OnnxOptions(timespans=True, lengths=lengths is not None))
    input, spans = values(3, 9, 3), values(3, 9).abs()
    feeds = {"input": input, "timespans": spans} | ({} if lengths is None else {"lengths": lengths})
    alone = []
    for own, times, length in zip(input, spans, [9, 9, 9] if lengths is None else lengths, strict=True):
        alone.append(model.layer(own[:length], timespans=times[:length])[0].mean(0))
    assert_near(ran(tmp_path / "model.onnx", **feeds)["output"], model.head(torch.stack(alone)))


def test_a_model_in_training_stays_in_training(tmp_path):
    model = model_of(num_layers=2, dropout=0.5).train()
    to_onnx(model, tmp_path / "model.onnx")
    assert model.training


def test_pruned_weights_are_those_of_now(tmp_path):
    """PyTorch's hooks compute them at a call, with a graph that cannot be copied."""
    model, input = SequenceModel(CoRNN(2, 6), 2), torch.randn(10, 3, 2)
    prune.random_unstructured(model.layer.cell(), "weight_ih", 0.5)
    prune.random_unstructured(model.head, "weight", 0.5)
    model(input).square().sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    to_onnx(model, tmp_path / "model.onnx")
    (output,) = open_session((tmp_path / "model.onnx").read_bytes()).run(None, {"input": input.transpose(0, 1).numpy()})
    torch.testing.assert_close(torch.from_numpy(output), model(input), **FLOAT32)


def test_double_precision(tmp_path):
    model = model_of(num_layers=2, activation="duffing").double()
    assert to_onnx(model, tmp_path / "model.onnx", OnnxOptions(state=True)).deviation < FLOAT64["rtol"]


def test_what_differs_from_pytorch_is_not_written(tmp_path, monkeypatch):
    path = tmp_path / "model.onnx"
    path.write_bytes(b"as it was")
    swapped = equations.ACTIVATIONS | {"tanh": equations.ACTIVATIONS["relu"]}
    monkeypatch.setattr(equations, "ACTIVATIONS", swapped)
    with pytest.raises(ValueError, match="more than 1e-05: the file is not written"):
        to_onnx(model_of(), path)
    assert path.read_bytes() == b"as it was"
    assert [file.name for file in tmp_path.iterdir()] == ["model.onnx"]


REFUSED = {
    "layer": (lambda: model_of(LEM), {}, "cannot export the layer LEM to ONNX: supported layers are CoRNN, LSTM"),
    "encoder": (lambda: model_of(encoder=nn.Bilinear(1, 1, 1)), {}, "cannot export the encoder Bilinear"),
    "half": (lambda: model_of().half(), {}, "is torch.float16, but the ONNX export needs float32 or float64"),
    "double": (lambda: model_of(nn.GRU).double(), {}, r"no GRU in float64: convert the model with model.float\(\)"),
    "lengths": (
        lambda: model_of(read="every"),
        {"lengths": True},
        "at every step does not use lengths: omit `lengths=True`",
    ),
    "state": (lambda: model_of(read="mean"), {"state": True}, "needs the whole sequence: omit `state=True`"),
    "timespans": (
        lambda: model_of(nn.LSTM),
        {"timespans": True},
        "LSTM has no time step: omit `timespans=True`",
    ),
    "kind": (lambda: CoRNN(3, 8), {}, "cannot export a CoRNN: pass a SequenceModel"),
    "unfitted": (CoRNNClassifier, {}, "cannot export a CoRNNClassifier: pass"),
}


@pytest.mark.parametrize(("make", "options", "says"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_is_refused(tmp_path, make, options, says):
    with pytest.raises(ValueError, match=says):
        to_onnx(make(), tmp_path / "model.onnx", OnnxOptions(**options))
    assert not list(tmp_path.iterdir())


def test_onnx_is_asked_for_where_it_is_missing(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("cornn.export.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r'pip install "cornn\[onnx\]"'):
        import cornn.export.onnx  # noqa: F401


def series(missing: float = 0.2):
    random = np.random.default_rng(0)
    X = (3 * random.normal(size=(24, 15, 2)) + 1000).astype(np.float32)
    X[random.random(X.shape) < missing] = np.nan
    return X, np.arange(24) % 3, random.uniform(0.1, 5, (24, 15)).astype(np.float32)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_a_classifier_gives_probabilities(tmp_path, missing):
    X, y, _ = series(missing)
    classifier = CoRNNClassifier(method="network", **QUICK).fit(X, np.array(["a", "b", "c"])[y])
    to_onnx(classifier, tmp_path / "model.onnx", OnnxOptions(state=True))
    # What is missing in new data is filled in even if nothing was in the training data.
    X, _, _ = series(0.3)
    state = {"y": np.zeros((1, 24, 6), "f4"), "z": np.zeros((1, 24, 6), "f4"), "seen": np.zeros((24, 2), "f4")}
    assert_near(ran(tmp_path / "model.onnx", input=X, **state)["probabilities"], classifier.predict_proba(X))
    for piece in np.split(X, (4, 5, 11), 1):
        found = ran(tmp_path / "model.onnx", input=piece, **state)
        state = {name: found[f"last_{name}"] for name in state}
    assert_near(found["probabilities"], classifier.predict_proba(X))
    notes = open_session((tmp_path / "model.onnx").read_bytes()).get_modelmeta().custom_metadata_map
    assert json.loads(notes["classes"]) == ["a", "b", "c"]


@pytest.mark.parametrize("numbers", [1, 2])
def test_a_regressor_answers_in_its_own_unit(tmp_path, numbers):
    X, y, spans = series()
    target = 100.0 * y + 7 if numbers == 1 else np.stack((y, 50 - 9.0 * y), 1)
    regressor = CoRNNRegressor(method="network", **QUICK, bidirectional=True).fit(X, target, timespans=spans)
    written = to_onnx(regressor, tmp_path / "model.onnx", OnnxOptions(lengths=True))
    assert list(written.inputs) == ["input", "lengths", "timespans"]
    lengths = np.arange(24) % 15 + 1
    spans[::3, 0], spans[1::3, 0] = 0, np.nan  # unknown before the first sample
    short, gaps = ([own[:n] for own, n in zip(part, lengths, strict=True)] for part in (X, spans))
    want = regressor.predict(short, timespans=gaps)
    assert_near(ran(tmp_path / "model.onnx", input=X, lengths=lengths, timespans=spans)["prediction"], want)
    with pytest.raises(ValueError, match="a bidirectional network needs the whole sequence: omit `state=True`"):
        to_onnx(regressor, tmp_path / "model.onnx", OnnxOptions(state=True))


@pytest.mark.parametrize("targets", [[0], [1], [1, 0]])
def test_a_forecaster_of_some_columns(tmp_path, targets):
    X, _, _ = series()
    X = (X * np.array([1.0, 30.0]) + np.array([0.0, 100.0])).astype(np.float32)
    X[:, -1] = np.nanmean(X, (0, 1))  # targets that are missing at the end are forecast first by `predict` only
    forecaster = CoRNNForecaster(**QUICK, horizon=3, targets=targets).fit(X)
    written = to_onnx(forecaster, tmp_path / "model.onnx")
    assert written.outputs == {"prediction": ["batch", 3, len(targets)]}
    assert_near(ran(tmp_path / "model.onnx", input=X)["prediction"], forecaster.predict(X))


def test_a_forecaster_goes_on_from_the_last_known_values(tmp_path):
    X, _, _ = series()
    X[:, -1] = np.nanmean(X, (0, 1))
    forecaster = CoRNNForecaster(**QUICK, horizon=4).fit(X)
    written = to_onnx(forecaster, tmp_path / "model.onnx")
    assert written.outputs == {"prediction": ["batch", 4, 2]}
    assert_near(ran(tmp_path / "model.onnx", input=X)["prediction"], forecaster.predict(X))
    with pytest.raises(ValueError, match="fitted without times: omit `timespans=True`"):
        to_onnx(forecaster, tmp_path / "model.onnx", OnnxOptions(timespans=True))


def test_a_registered_update_needs_an_onnx_form(tmp_path, monkeypatch):
    def leaky(op, pre, h, gain):
        return [op("Add", h, op("Mul", gain, op("Tanh", pre)))]

    rule = engine.Update("own", {"gain": 0.5}, lambda pre, h, gain: h + gain * torch.tanh(pre), onnx=leaky)
    monkeypatch.setitem(engine.UPDATES, "own", rule)
    model = SequenceModel(CustomRNN(3, 4, update="own"), 2)
    to_onnx(model, tmp_path / "model.onnx")
    monkeypatch.setitem(engine.UPDATES, "own", engine.Update("own", rule.parameters, rule.reference))
    with pytest.raises(ValueError, match=r"the update 'own' has no ONNX form: give it one, Update\(onnx=...\)"):
        to_onnx(model, tmp_path / "model.onnx")
