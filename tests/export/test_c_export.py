"""Exported C: compiled with all warnings, run under the sanitizers, and equal to PyTorch."""

import re
import subprocess
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from c_models import SHAPES, build, needs_gcc
from torch import nn

from cornn import CoRNN
from cornn._random import generator
from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.export import TrainedModel, load_model
from cornn.export.c import COptions, host, to_c, vectors
from cornn.export.c.int8 import TANH_BITS
from cornn.models import SequenceModel


@needs_gcc
@pytest.mark.parametrize("shape", SHAPES)
def test_float32_is_pytorch(shape, tmp_path):
    model, data = build(**SHAPES[shape])
    written = to_c(model, tmp_path, data=data)
    assert written.checked.difference <= 1e-5
    assert written.checked.words == "24 sequences of the data"
    text = (tmp_path / "model.c").read_text()
    assert "malloc" not in text
    assert "#include <math.h>" not in text
    weights = sum(cell.weight_ih.numel() + cell.weight_hh.numel() for cell in model.layer.cells.values())
    assert written.multiplications["weights"] == weights
    assert written.state == 8 * model.layer.hidden_size * model.layer.num_layers


@needs_gcc
@pytest.mark.parametrize(
    "shape",
    [
        "sizes that four does not divide",
        "two layers, implicit damping, constants of each neuron",
        "words",
        "an answer after every step",
    ],
)
def test_int8_is_near_pytorch(shape, tmp_path):
    model, data = build(**SHAPES[shape])
    written = to_c(model, tmp_path, COptions(weights="int8", largest_loss=1.0), data)
    assert written.checked.metric == "R² with PyTorch"
    assert written.checked.c > 0.99
    assert written.flash < sum(parameter.numel() for parameter in model.parameters()) * 4 + 300


def called(folder, body: str) -> np.ndarray:
    """What a C program prints that has the functions of a folder's model.c."""
    program = f'#include "{folder / "model.c"}"\n#include <stdio.h>\nint main(void)\n{{\n{body}\n    return 0;\n}}\n'
    (folder / "called.c").write_text(program)
    command = [
        host.find_compiler(),
        "-std=c99",
        "-O1",
        f"-I{folder}",
        str(folder / "called.c"),
        "-o",
        str(folder / "called"),
    ]
    subprocess.run(command, check=True)
    return np.array(subprocess.run([str(folder / "called")], capture_output=True, text=True).stdout.split(), float)


@needs_gcc
def test_tanh_of_float32(tmp_path):
    model, data = build()
    to_c(model, tmp_path, data=data)
    loop = 'for (int i = -20000; i <= 20000; i++) printf("%.9g\\n", (double)tanh_of((float)i / 1600.0f));'
    exact = np.tanh((np.arange(-20000, 20001) / np.float32(1600)).astype(np.float32).astype(float))
    assert np.abs(called(tmp_path, loop) - exact).max() < 5e-7  # eight roundings of float32 near 1


@needs_gcc
def test_tanh_of_int8(tmp_path):
    model, data = build()
    to_c(model, tmp_path, COptions(weights="int8"), data)
    loop = 'for (int32_t i = -(8 << 16); i < 8 << 16; i += 37) printf("%d\\n", (int)tanh_of(i));'
    exact = np.tanh(np.arange(-(8 << 16), 8 << 16, 37) / 2**16)
    # Straight lines between points 1/16 apart: 1/8 (1/16)^2 of the largest second derivative, .77.
    assert np.abs(called(tmp_path, loop) / 2**TANH_BITS - exact).max() < 4e-4


@needs_gcc
def test_int8_bears_any_input(tmp_path):
    """Far beyond what it was calibrated on everything saturates, and nothing overflows: the sanitizers watch."""
    model, data = build(layers=2)
    to_c(model, tmp_path, COptions(weights="int8"), data)
    (tmp_path / "check.c").write_text(
        "#include <stdio.h>\n#include <math.h>\n"
        '#include "model.h"\nint main(void)\n{\n    model_state state;\n    float out[MODEL_OUTPUTS];\n'
        "    const float bad[6] = {1e9f, -1e30f, NAN, INFINITY, -INFINITY, 0.0f};\n    model_reset(&state);\n"
        "    for (int n = 0; n < 6000; n++) {\n"
        "        const float x[3] = {bad[n % 6], bad[n / 6 % 6], bad[n / 36 % 6]};\n"
        "        model_step(&state, x);\n    }\n    model_read(&state, out);\n    return isfinite(out[0]) ? 0 : 1;\n}\n"
    )
    host.compile_program(tmp_path, tmp_path / "check", sanitized=True)
    assert len(host.run_program(tmp_path / "check", [], 1)) == 0


@needs_gcc
def test_slow_neurons_forget_in_int8(tmp_path):
    """A pulse, then six half-lives of nothing. In 16 bits a step's change would be below the last bit, and y stay."""
    layer = CoRNN(1, 4, dt=0.1, gamma=0.035, epsilon=2.5)  # half-life 500 steps
    model = SequenceModel(layer, 1, read="every")
    model.reset_parameters(generator(0, "slow"))
    with torch.no_grad():
        layer.set_matrices(V=torch.ones(4, 1), W=torch.zeros(4, 4), W_z=torch.zeros(4, 4), b=torch.zeros(4))
        model.head.weight.fill_(1.0), model.head.bias.zero_()
    data = torch.zeros(3000, 2, 1)
    data[:100] = 1.0
    written = to_c(model, tmp_path, COptions(weights="int8"), data)
    assert written.checked.difference < 0.1 / 64  # a tenth of what is left of the pulse at the end


def waves(count=120, length=40):
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, count)
    time = np.linspace(0, 8, length) + random.uniform(0, 0.3, (count, 1))
    signal = np.sin(time * (1 + labels[:, None])) + 0.1 * random.normal(size=(count, length))
    return np.stack((1000 + 50 * signal, 0.01 * random.normal(size=signal.shape)), 2), labels


@pytest.mark.slow
@needs_gcc
def test_a_classifier_of_sensor_windows(tmp_path):
    """Values far from 0 are standardised in the C code; int8 agrees with PyTorch nearly always."""
    X, y = waves()
    model = CoRNNClassifier(method="network", hidden_size=12, epochs=25, learning_rate=0.02, random_state=0).fit(
        X[:80], y[:80]
    )
    assert model.score(X[80:], y[80:]) > 0.8
    model.save(tmp_path / "model.safetensors")
    trained = load_model(tmp_path / "model.safetensors")
    for weights, least in (("float32", 100.0), ("int8", 97.5)):
        written = to_c(trained, tmp_path / weights, COptions(weights, largest_loss=2.5), X)
        assert written.checked.metric == "agreement"
        assert re.search(r"^same class as PyTorch: [\d.]+ % of \d+ sequences", written.lines()[-1])
        assert written.checked.c >= least
    assert "the largest is the most likely class" in (tmp_path / "int8" / "model.h").read_text()
    assert "drawn at random" in to_c(trained, tmp_path / "drawn").checked.words


@needs_gcc
@pytest.mark.parametrize("kind", [CoRNNRegressor, CoRNNForecaster])
def test_answers_are_in_the_users_units(kind, tmp_path):
    X, y = waves(40)
    model = kind(method="network", hidden_size=8, epochs=3, random_state=0)
    model.fit(X, 1e3 + 5.0 * y) if kind is CoRNNRegressor else model.fit(X)
    written = to_c(TrainedModel("test", model.model_, estimator=model), tmp_path, data=X)
    answers = model.predict(X) if kind is CoRNNRegressor else (model.predict(X) - X[:, -1:]).reshape(len(X), -1)
    program = (
        '#include <stdio.h>\n#include "model.h"\nint main(void)\n{\n    model_state state;\n    float x[2], out[2];\n'
    )
    program += (
        "    model_reset(&state);\n    while (fread(x, sizeof x, 1, stdin) == 1)\n        model_step(&state, x);\n"
    )
    program += "    model_read(&state, out);\n    return fwrite(out, sizeof(float), MODEL_OUTPUTS, stdout) < 1;\n}\n"
    (tmp_path / "one.c").write_text(program)
    host.compile_program(tmp_path, tmp_path / "one", sanitized=True)
    given = X[0].astype(np.float32).tobytes()
    out = np.frombuffer(subprocess.run([tmp_path / "one"], input=given, capture_output=True).stdout, np.float32)
    np.testing.assert_allclose(out, np.ravel(answers[0]), rtol=1e-4, atol=1e-4)
    assert written.checked.c > 0.9999


@needs_gcc
@pytest.mark.parametrize("weights", ["float32", "int8"])
def test_missing_values_of_a_sensor_are_filled_as_in_python(weights, tmp_path):
    """The model was fitted without: the last known value counts, or the mean before the first one."""
    X, y = waves(40)
    model = CoRNNClassifier(method="network", hidden_size=8, epochs=3, random_state=0).fit(X, y)
    X = X.astype(np.float32)
    X[:, :3, 0] = X[:, 10:20] = X[::2, -1, 1] = np.nan
    written = to_c(model, tmp_path, COptions(weights), X)
    assert written.checked.difference <= (1e-5 if weights == "float32" else 0.05)
    bytes_of_state = called(tmp_path, 'printf("%d\\n", (int)sizeof(model_state));')
    assert bytes_of_state == written.state
    assert "NaN is a missing value: the last known one counts" in (tmp_path / "model.h").read_text()


def test_what_has_no_c():
    model, data = build()
    with pytest.raises(ValueError, match="the C export supports CoRNN only, the model has LSTM"):
        to_c(SequenceModel(nn.LSTM(3, 4), 1), "unused")
    with pytest.raises(ValueError, match="a bidirectional layer"):
        to_c(SequenceModel(CoRNN(3, 4, bidirectional=True), 1), "unused")
    with pytest.raises(ValueError, match="reads the mean of all steps needs the whole sequence: export it to ONNX"):
        to_c(SequenceModel(CoRNN(3, 4), 1, read="mean"), "unused")
    with pytest.raises(ValueError, match="activation tanh only, the model has relu"):
        to_c(SequenceModel(CoRNN(3, 4, activation="relu"), 1), "unused")
    with pytest.raises(ValueError, match="int8 needs sample sequences for calibration"):
        to_c(model, "unused", COptions(weights="int8"))
    with pytest.raises(ValueError, match="unknown weights 'int4'"):
        to_c(model, "unused", COptions(weights="int4"), data)
    X, y = waves(30)
    X[0, 3, 0] = np.nan
    gaps = CoRNNClassifier(method="network", hidden_size=4, epochs=1).fit(X, y)
    with pytest.raises(ValueError, match="fitted on missing values"):
        to_c(TrainedModel("test", gaps.model_, estimator=gaps), "unused")
    timed = CoRNNClassifier(method="network", hidden_size=4, epochs=1).fit(
        X[1:], y[1:], timespans=np.ones(X[1:].shape[:2])
    )
    with pytest.raises(ValueError, match="fitted with times"):
        to_c(TrainedModel("test", timed.model_, estimator=timed), "unused")


@pytest.mark.parametrize(
    "data",
    [
        torch.zeros(10, 3),
        torch.zeros(10, 4, 2),
        torch.zeros(10, 0, 3),
        torch.full((10, 4, 3), torch.nan),
        torch.full((10, 4, 3), torch.inf),
    ],
    ids=["unbatched", "features", "empty", "NaN", "infinite"],
)
def test_data_of_a_bare_model_are_checked(data):
    model, _ = build()
    for weights in ("float32", "int8"):
        with pytest.raises(ValueError, match=r"data must be finite numbers of shape \(time, batch, 3\), got"):
            to_c(model, "unused", COptions(weights), data)
    words, _ = build(words=30)
    for table in (data, torch.full((10, 4), 30), torch.full((10, 4), -1)):
        with pytest.raises(ValueError, match=r"data must be whole numbers below 30 of shape \(time, batch\), got"):
            to_c(words, "unused", COptions("int8"), table)


def test_targets_that_do_not_fit_are_refused(tmp_path):
    X, y = waves(20)
    model = CoRNNRegressor(method="network", hidden_size=4, epochs=1, random_state=0).fit(X, 1.0 * y)
    forecaster = CoRNNForecaster(method="network", hidden_size=4, epochs=1, random_state=0).fit(X)
    for estimator, target, message in (
        (model, y[:5], "data has 20 sequences and target 5 entries: pass one per sequence"),
        (model, np.ones((20, 3)), r"target has shape \(20, 3\), but the model has 1 outputs"),
        (model, np.full(20, np.nan), "target contains NaN or infinite values: leave these sequences out"),
        (forecaster, y, "the data of a forecaster contain what it forecasts: omit `target`"),
    ):
        with pytest.raises(ValueError, match=message):
            to_c(estimator, tmp_path / "unused", COptions("int8"), X, target)


@pytest.mark.parametrize("name", ["sequences", "calibration"])
def test_numbers_of_sequences_are_positive(name):
    with pytest.raises(ValueError, match=f"`{name}` must be at least 1, got 0"):
        COptions(**{name: 0})


@pytest.mark.parametrize("value", [float("nan"), 1e39])
def test_weights_without_float32_are_not_written(tmp_path, monkeypatch, value):
    model, data = build()
    model.double().head.bias.data.fill_(value)
    monkeypatch.setattr(host, "find_compiler", lambda: None)
    for weights in ("float32", "int8"):
        with pytest.raises(ValueError, match="weights that are NaN, infinite or too large for float32: train it again"):
            to_c(model, tmp_path / "c", COptions(weights), data)
    assert not (tmp_path / "c").exists()


@needs_gcc
def test_a_name_cannot_leave_its_comment(tmp_path):
    model, data = build()
    to_c(TrainedModel("ü */ int x; /* \n #error \\", model), tmp_path, data=data)
    assert "(? ?/ int x; /? ? #error ?)" in (tmp_path / "model.c").read_text()


@needs_gcc
def test_code_that_deviates_is_not_written(tmp_path, monkeypatch):
    model, data = build()
    from cornn.export.c import float32

    monkeypatch.setattr(float32, "TANH_P", (0.99, *float32.TANH_P[1:]))
    with pytest.raises(ValueError, match="deviate from PyTorch's"):
        to_c(model, tmp_path / "out", data=data)
    with pytest.raises(ValueError, match="more than 0: it is not written"):
        to_c(model, tmp_path / "out", COptions(weights="int8", largest_loss=0.0), data)
    assert not (tmp_path / "out").exists()


def test_without_a_compiler_it_says_so(tmp_path, monkeypatch):
    model, data = build()
    monkeypatch.setattr(host, "find_compiler", lambda: None)
    written = to_c(model, tmp_path, data=data)
    assert written.checked is None
    assert "not checked: no gcc" in written.lines()[-1]
    assert (tmp_path / "model.h").exists()


@needs_gcc
def test_a_stiff_neuron_saturates_at_the_right_end(tmp_path):
    """Inputs of four times what the data had: z would need more than 32 bits before it is cut off."""
    dt, gamma, epsilon, level = 0.85, 3.96, 0.03, 0.369
    layer = CoRNN(1, 4, dt=dt, gamma=gamma, epsilon=epsilon)
    model = SequenceModel(layer, 1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
        layer.set_matrices(V=torch.ones(4, 1))
        model.head.weight.fill_(1.0)
    wave = np.arctanh(level) * torch.sin(torch.linspace(0, torch.pi, 61))[:45]
    to_c(
        model, tmp_path, COptions(weights="int8"), wave.reshape(1, 45, 1) * torch.linspace(0.2, 1, 50).reshape(50, 1, 1)
    )
    body = (
        f"model_state s; model_reset(&s); const float f = {4 * wave.abs().max():.6f}f;\n"
        f"for (int n = 0; n < 600; n++) {{ const double y = s.yz[0][0], z = s.yz[0][4];\n"
        f"const double moved = {1 - dt * epsilon} * z - {dt * gamma} * y; const float u = moved >= 0 ? f : -f;\n"
        'model_step(&s, &u); printf("%.0f %d\\n", moved, (int)s.yz[0][4]); }'
    )
    moved, found = called(tmp_path, body).reshape(-1, 2).T
    large = np.abs(moved) > 2**30
    assert large.any()
    assert (np.sign(moved[large]) == np.sign(found[large])).all()


def test_the_metric_of_numbers_is_r2():
    truth = np.array([[1.0], [2.0], [6.0]])
    name, measure, percent = vectors._choose_metric(SimpleNamespace(meaning="numbers"), truth, (3, 1))
    assert (name, measure(truth + 1), percent) == ("R²", pytest.approx(1 - 3 / 14), 100.0)
