"""An oscillator bank in C: the same answers, small enough for a device, and refused where it cannot be."""

import subprocess
from pathlib import Path

import numpy as np
import pytest

from cornn.estimators import CoRNNClassifier, CoRNNRegressor
from cornn.estimators.times import LONGEST
from cornn.export import TrainedBank, TrainedModel, wrap_model
from cornn.export.c import COptions, host, to_c
from cornn.export.c.bank import LIMIT, measure_memory
from cornn.export.c.source import render

SMALL = {"neurons": 64, "random_state": 0, "device": "cpu"}

needs_compiler = pytest.mark.skipif(host.find_compiler() is None, reason="no C compiler")


def waves(count=60, steps=30, classes=3, seed=0):
    random = np.random.default_rng(seed)
    label = np.arange(count) % classes
    clock = np.arange(steps) * (0.2 + 0.3 * label[:, None]) + random.uniform(0, 2 * np.pi, (count, 1))
    return np.sin(clock) + 0.1 * random.normal(size=(count, steps)), label


X, Y = waves()


@needs_compiler
@pytest.mark.parametrize(
    ("scaling", "gaps"),
    [
        pytest.param("set", True, marks=pytest.mark.slow),
        pytest.param("running", False, marks=pytest.mark.slow),
        (("set", "running"), True),
    ],
)
def test_the_code_answers_as_python_does(tmp_path, scaling, gaps):
    values = np.stack((X, X[:, ::-1] * 3 + 100), -1)
    if gaps:
        values[np.random.default_rng(0).random(values.shape) < 0.1] = np.nan
    fitted = CoRNNClassifier(**SMALL, scaling=scaling).fit(values, np.array(['a "b"', "c", "ä"])[Y])
    written = to_c(fitted, tmp_path / "c", data=values)
    assert written.agreement == 1
    assert written.deviation < 0.02
    header, source = ((tmp_path / "c" / name).read_text() for name in ("model.h", "model.c"))
    assert "model_classes[MODEL_OUTPUTS]" in header
    assert '"a \\042b\\042", "c", "\\303\\244"' in source
    assert any("same class as Python: 100 %" in line for line in written.lines())
    command = [host.find_compiler(), "-std=c99", "-O2", "main.c", "model.c", "-o", "example"]
    subprocess.run(command, cwd=tmp_path / "c", check=True)
    done = subprocess.run(["./example"], cwd=tmp_path / "c", capture_output=True, text=True)
    assert done.returncode == 0
    assert "sequence 0: " in done.stdout


@needs_compiler
@pytest.mark.parametrize("value", [1e20, -1e38])
def test_a_value_of_any_size_has_the_same_effect_as_in_python(tmp_path, value):
    fitted = CoRNNClassifier(**SMALL, causal=True).fit(X, Y)
    far = X.copy()
    far[:30, 7] = far[30:, 0] = value
    assert to_c(fitted, tmp_path / "c", data=far).deviation < LIMIT


def uneven_waves(even):
    """Two features in float32 with missing values, and the time since the previous sample, which is 7 on average."""
    random = np.random.default_rng(1)
    spans = 7 * (np.ones(X.shape) if even else random.choice([0.2, 0.5, 1, 1, 3, 40], X.shape)).astype(np.float32)
    spans[:, 0] = np.resize([np.nan, 0.0, 7.0], len(X))
    clock = np.cumsum(np.nan_to_num(spans), 1) / 7 * (0.2 + 0.3 * Y[:, None])
    values = np.stack((np.sin(clock), 3 * np.cos(clock) + 100), -1) + 0.1 * random.normal(size=(*X.shape, 2))
    values[random.random(values.shape) < 0.1] = np.nan
    return values.astype(np.float32), spans


def assert_close(found, expected):
    """Rounding moves a sample of few sequences across a threshold; the outputs of the others are the same."""
    difference = np.abs(found - expected)
    assert difference.max() < LIMIT
    assert np.quantile(difference, 0.9) < 1e-4


@needs_compiler
@pytest.mark.parametrize(
    ("kind", "even"), [pytest.param(CoRNNClassifier, True, marks=pytest.mark.slow), (CoRNNRegressor, False)]
)
def test_times_in_c(tmp_path, kind, even):
    values, spans = uneven_waves(even)
    fitted = kind(**SMALL, causal=True).fit(values, Y, timespans=spans)
    written = to_c(fitted, tmp_path / "c")  # on random sequences at uneven times
    assert written.deviation < 1e-3
    assert "const float input[MODEL_INPUTS], float timespan);" in (tmp_path / "c" / "model.h").read_text()
    program = render(
        "check.c.in",
        {"sample": "float sample[MODEL_INPUTS + 1]", "span": ", sample[MODEL_INPUTS]", "address": "", "every": 0},
    )
    (tmp_path / "c" / "check.c").write_text(program)
    host.compile_program(tmp_path / "c", tmp_path / "c" / "check", sanitized=False)
    tables = [np.column_stack(own).astype(np.float32) for own in zip(values, spans, strict=True)]
    found = host.run_program(tmp_path / "c" / "check", tables, 3 if kind is CoRNNClassifier else 1)
    if kind is CoRNNClassifier:
        np.testing.assert_array_equal(found.argmax(1), fitted.predict(values, timespans=spans))
    else:
        assert_close(found[:, 0], fitted.predict(values, timespans=spans))


@needs_compiler
def test_the_longest_gap_in_c_is_that_of_python(tmp_path, monkeypatch):
    values, spans = uneven_waves(even=False)
    fitted = CoRNNRegressor(**SMALL, causal=True).fit(values, Y, timespans=spans)
    for number, longest in enumerate((LONGEST, 12.0)):
        monkeypatch.setattr("cornn.export.c.bank.LONGEST", longest)
        monkeypatch.setattr("cornn.estimators.times.LONGEST", longest)
        to_c(fitted, tmp_path / str(number))  # compares the C code with Python
        assert f"#define LONGEST_GAP {longest!r} " in (tmp_path / str(number) / "model.c").read_text()


@pytest.mark.parametrize(("kind", "even"), [(CoRNNClassifier, True), (CoRNNRegressor, False)])
def test_times_in_onnx(tmp_path, kind, even):
    pytest.importorskip("onnxruntime")
    from cornn.export.check import open_session
    from cornn.export.onnx import OnnxOptions, to_onnx

    values, spans = uneven_waves(even)
    fitted = kind(**SMALL).fit(values, Y, timespans=spans)
    written = to_onnx(fitted, tmp_path / "model.onnx", OnnxOptions(timespans=True))
    assert list(written.inputs) == ["input", "timespans"]
    session = open_session((tmp_path / "model.onnx").read_bytes())
    found = session.run(None, {"input": values, "timespans": spans})[0]
    answer = fitted.predict_proba if kind is CoRNNClassifier else fitted.predict
    assert_close(found, answer(values, timespans=spans))
    for gap in (1e30, np.inf):  # counts as 1e9 usual steps, as in Python and in C
        spans[:, 4] = gap
        found = session.run(None, {"input": values, "timespans": spans})[0]
        spans[:, 4] = 1e30
        assert_close(found, answer(values, timespans=spans))
    with pytest.raises(ValueError, match=r"without times: omit `timespans=True`"):
        to_onnx(kind(**SMALL).fit(values, Y), tmp_path / "other.onnx", OnnxOptions(timespans=True))


@needs_compiler
def test_numbers_with_statistics(tmp_path):
    fitted = CoRNNRegressor(**SMALL, causal=True).fit(X, X.std(1) * 100)
    written = to_c(fitted, tmp_path / "c", data=X)
    assert written.agreement is None
    assert written.deviation < 1e-3


@needs_compiler
def test_neurons_are_dropped_until_the_rest_fits(tmp_path):
    fitted = CoRNNClassifier(neurons=256, causal=True, random_state=0, device="cpu").fit(X, Y)
    flash, state = measure_memory(fitted.bank_)
    options = COptions(max_flash=flash // 3, max_ram=state // 2)
    written = to_c(fitted, tmp_path / "c", options, X, Y)
    assert written.flash <= flash // 3
    assert written.state <= state // 2
    assert written.neurons % 16 == 0
    name, before, after = written.kept
    assert name == "accuracy (leave-one-out)"
    assert after > before - 0.2
    line = f"accuracy (leave-one-out) {100 * before:.4g} % before, {100 * after:.4g} % after"
    assert any(line in text for text in written.lines())


@needs_compiler
def test_a_model_that_is_too_large_says_which_limit_would_do(tmp_path):
    fitted = CoRNNClassifier(neurons=64, causal=True, random_state=0, device="cpu").fit(X, Y)
    flash, state = measure_memory(fitted.bank_)
    with pytest.raises(ValueError, match=f"raise `max_flash` to {flash}, or pass `data` with the") as error:
        to_c(fitted, tmp_path / "d", COptions(max_flash=flash - 1))
    assert "max_ram" not in str(error.value)
    with pytest.raises(ValueError, match=f"raise `max_flash` to {flash} and `max_ram` to {state}, or pass"):
        to_c(fitted, tmp_path / "d", COptions(max_flash=flash - 1, max_ram=state - 1))
    for limits in ({"max_flash": 100}, {"max_flash": 0}):
        with pytest.raises(ValueError, match=r"16 neurons, the fewest .* raise `max_flash` to \d+$") as error:
            to_c(fitted, tmp_path / "d", COptions(**limits), X, Y)
    with pytest.raises(ValueError, match="data has 60 sequences and target 5 entries: pass one per sequence"):
        to_c(fitted, tmp_path / "d", COptions(max_flash=flash - 1), X, Y[:5])
    assert not (tmp_path / "d").exists()
    least = int(str(error.value).split()[-1])
    assert to_c(fitted, tmp_path / "d", COptions(max_flash=least), X, Y).neurons == 16


def test_a_bank_and_a_network_are_wrapped_as_what_they_are():
    bank = CoRNNClassifier(**SMALL, causal=True).fit(X, Y)
    assert wrap_model(bank) == TrainedBank("CoRNNClassifier", bank)
    assert wrap_model(wrap_model(bank)) == wrap_model(bank)
    network = CoRNNClassifier(method="network", hidden_size=4, epochs=1, device="cpu").fit(X, Y)
    network.model_.train()
    trained = wrap_model(network)
    assert isinstance(trained, TrainedModel)
    assert not trained.model.training
    assert network.model_.training


def test_what_cannot_be_exported(tmp_path):
    with pytest.raises(ValueError, match="causal=True"):
        to_c(CoRNNClassifier(**SMALL, scaling="sequence").fit(X, Y), tmp_path)
    with pytest.raises(ValueError, match="float32 weights"):
        to_c(CoRNNClassifier(**SMALL, causal=True).fit(X, Y), tmp_path, COptions(weights="int8"))
    network = CoRNNClassifier(method="network", hidden_size=4, epochs=1, random_state=0).fit(X, Y)
    with pytest.raises(ValueError, match=r"this network needs \d+ bytes of flash and \d+ bytes of RAM"):
        to_c(network, tmp_path, COptions(max_flash=1000))


@pytest.mark.parametrize("settings", [{}, {"causal": True}, {"scaling": ("set", "running", "sequence")}], ids=str)
@pytest.mark.parametrize("kind", [CoRNNClassifier, CoRNNRegressor])
def test_onnx_answers_as_python_does(tmp_path, settings, kind, capfd):
    pytest.importorskip("onnxruntime")
    from cornn.export.check import open_session
    from cornn.export.onnx import OnnxOptions, to_onnx

    values = np.stack((X, X[:, ::-1] * 3 + 100), -1).astype(np.float32)
    values[np.random.default_rng(0).random(values.shape) < 0.1] = np.nan
    fitted = kind(**SMALL, **settings).fit(values, Y)
    written = to_onnx(fitted, tmp_path / "model.onnx")
    assert written.deviation < 0.02
    assert not capfd.readouterr().err  # onnxruntime warns about weights that nothing uses
    found = open_session((tmp_path / "model.onnx").read_bytes()).run(None, {"input": values})[0]
    if kind is CoRNNClassifier:
        np.testing.assert_allclose(found, fitted.predict_proba(values), atol=0.02)
        np.testing.assert_array_equal(found.argmax(1), fitted.predict(values))
    else:
        np.testing.assert_allclose(found, fitted.predict(values), atol=0.02)
    with pytest.raises(ValueError, match="omit `state=True`"):
        to_onnx(fitted, tmp_path / "other.onnx", OnnxOptions(state=True))


@pytest.mark.parametrize(
    "settings", [{}, {"method": "network", "hidden_size": 4, "epochs": 1}], ids=["bank", "network"]
)
def test_an_estimator_on_the_hub(tmp_path, monkeypatch, settings):
    hub = pytest.importorskip("cornn.export.hub")
    fitted = CoRNNClassifier(random_state=0, device="cpu", **settings).fit(X, Y)
    hub.save_estimator(fitted, tmp_path / "folder")
    np.testing.assert_array_equal(hub.load_estimator(tmp_path / "folder").predict(X), fitted.predict(X))
    assert "CoRNNClassifier" in (tmp_path / "folder" / "README.md").read_text()
    sent = []

    class Api:
        def create_repo(self, name, private, exist_ok):
            sent.append((name, private, exist_ok))

        def upload_folder(self, repo_id, folder_path):
            sent.append(sorted(path.name for path in Path(folder_path).iterdir()))
            return f"https://hub/{repo_id}"

    monkeypatch.setattr(hub, "HfApi", Api)
    assert hub.push_estimator(fitted, "me/waves") == "https://hub/me/waves"
    assert sent == [("me/waves", False, True), ["README.md", "estimator.safetensors"]]


@needs_compiler
def test_int8_is_judged_by_the_labels(tmp_path):
    network = CoRNNClassifier(method="network", hidden_size=8, epochs=5, random_state=0, device="cpu").fit(X, Y)
    checked = to_c(network, tmp_path / "c", COptions(weights="int8", largest_loss=100), X, Y).checked
    assert checked.metric == "accuracy"
    assert checked.pytorch == pytest.approx(100 * network.score(X, Y), abs=2)
