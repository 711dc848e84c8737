"""One sample at a time gives what the whole sequence gives."""

import pickle
import re

import numpy as np
import pytest
import torch
from tolerances import FLOAT32, FLOAT64
from torch import nn
from torch.nn.utils import prune

from cornn import CoRNN, streaming
from cornn._random import generator
from cornn.engine.backends import c
from cornn.models import SequenceModel
from cornn.streaming import Scaling, open_stream

STEPS = 30
ISAS = (
    [isa for isa in c.INSTRUCTION_SETS if c.load_library().cornn_supports(isa.encode()) == 1]
    if c.LIBRARY.exists()
    else []
)


def built(features=3, hidden=19, **options) -> CoRNN:
    layer = CoRNN(features, hidden, **options)
    layer.reset_parameters(generator(0, "weights"))
    return layer


def sequence(features=3, dtype=torch.float32) -> torch.Tensor:
    return torch.randn(STEPS, features, generator=generator(0, "input"), dtype=torch.float64).to(dtype)


def streamed(stream, input, spans=None):
    spans = np.ones(len(input)) if spans is None else spans
    return torch.from_numpy(np.stack([stream(sample, span) for sample, span in zip(input.numpy(), spans, strict=True)]))


def without_library(monkeypatch):
    monkeypatch.setattr(streaming, "_kernel", lambda dtype, layers: None)


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("damping", ["explicit", "implicit"])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, FLOAT32), (torch.float64, FLOAT64)], ids=["float", "double"]
)
@pytest.mark.parametrize("options", [{}, {"num_layers": 3}, {"bias": False}, {"hidden": 64}, {"features": 50}], ids=str)
def test_a_layer_gives_the_same_y(options, dtype, tolerance, damping, backend, monkeypatch):
    if backend == "numpy":
        without_library(monkeypatch)
    elif not ISAS:
        pytest.skip("the C library is not built")
    layer = built(**options, damping=damping, dtype=dtype)
    input = sequence(layer.input_size, dtype)
    stream = layer.stream()
    assert stream.backend == backend
    with torch.no_grad():
        expected, _ = layer(input)
    torch.testing.assert_close(streamed(stream, input), expected, **tolerance)
    assert stream.steps == STEPS


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("outputs", [1, 5, 40])
def test_a_model_gives_the_same_prediction_on_every_instruction_set(isa, outputs, monkeypatch):
    monkeypatch.setattr(c, "instruction_set", lambda: isa)
    model = SequenceModel(built(num_layers=2), outputs, read="every")
    input = sequence()
    with torch.no_grad():
        expected = model(input.unsqueeze(1)).squeeze(1)
    stream = model.stream()
    assert stream.backend == "c"
    found = streamed(stream, input)
    torch.testing.assert_close(found, expected, **FLOAT32)
    np.testing.assert_array_equal(stream.answer, found[-1])


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_a_head_of_another_type_is_taken_as_the_layers(backend, monkeypatch):
    if backend == "numpy":
        without_library(monkeypatch)
    layer, head, input = built(dtype=torch.float64), nn.Linear(19, 2), sequence(dtype=torch.float64)
    with torch.no_grad():
        expected = head.double()(layer(input)[0])
    found = streamed(open_stream(layer, head.float()), input)
    assert found.dtype == torch.float64
    torch.testing.assert_close(found, expected, **FLOAT32)


def test_a_layer_in_half_precision_has_no_stream():
    with pytest.raises(TypeError, match="streams compute in float32 or float64"):
        built(dtype=torch.bfloat16).stream()


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("damping", ["explicit", "implicit"])
def test_timespans(damping, backend, monkeypatch):
    if backend == "numpy":
        without_library(monkeypatch)
    layer, input = built(damping=damping), sequence()
    spans = torch.rand(STEPS, generator=generator(0, "spans")) * 2
    with torch.no_grad():
        expected, _ = layer(input, timespans=spans)
    torch.testing.assert_close(streamed(layer.stream(), input, spans.tolist()), expected, **FLOAT32)


@pytest.mark.parametrize("activation", ["identity", "relu", "duffing"])
def test_other_activations_are_served_by_numpy(activation):
    layer, input = built(activation=activation), sequence()
    stream = layer.stream()
    assert stream.backend == "numpy"
    with torch.no_grad():
        expected, _ = layer(input)
    torch.testing.assert_close(streamed(stream, input), expected, **FLOAT32)


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_missing_values_are_what_they_were_last(backend, monkeypatch):
    if backend == "numpy":
        without_library(monkeypatch)
    mean, scale = np.array([1.0, -2.0]), np.array([2.0, 0.5])
    samples = np.array([[np.nan, 1.0], [3.0, np.nan], [np.nan, np.nan], [1.0, 2.0]])
    known = np.array([[1.0, 1.0], [3.0, 1.0], [3.0, 1.0], [1.0, 2.0]])
    layer = built(features=4)
    whole = np.concatenate(((known - mean) / scale, np.isnan(samples)), 1).astype(np.float32)
    with torch.no_grad():
        expected, _ = layer(torch.from_numpy(whole))
    stream = open_stream(layer, scaling=Scaling(mean, scale, masked=True))
    torch.testing.assert_close(streamed(stream, torch.from_numpy(samples)), expected, **FLOAT32)
    np.testing.assert_array_equal(stream.seen, known[-1])


def test_standardising_loses_nothing_to_a_large_mean():
    stream = open_stream(built(features=1), scaling=Scaling(np.array([1e9]), np.array([1.0])))
    plain = built(features=1).stream()
    for sample in (1.0, -2.0, 3.0):
        np.testing.assert_array_equal(stream(1e9 + sample), plain(sample))


@pytest.mark.parametrize("carry", [lambda state: state, pickle.dumps], ids=["bytes", "pickle"])
def test_a_stream_goes_on_where_it_was(carry):
    model, input = SequenceModel(built(num_layers=2), 2), sequence().numpy()
    stream = model.stream()
    for sample in input[:10]:
        stream(sample)
    if carry is pickle.dumps:
        other = pickle.loads(carry(stream))
    else:
        other = model.stream()
        other.restore(carry(stream.to_bytes()))
    assert other.steps == 10
    np.testing.assert_array_equal(other.answer, stream.answer)
    for sample in input[10:]:
        np.testing.assert_array_equal(stream(sample), other(sample))


def test_state_is_a_copy_and_reset_begins_anew():
    stream, input = built().stream(), sequence().numpy()
    first, state = stream(input[0]), stream.state()
    stream(input[1])
    stream.restore(state)
    np.testing.assert_array_equal(stream.answer, first)
    stream.reset()
    assert stream.steps == 0
    np.testing.assert_array_equal(stream(input[0]), first)


def test_a_stream_keeps_the_weights_it_was_made_with():
    layer, input = built(), sequence().numpy()
    stream = layer.stream()
    first = stream(input[0])
    layer.set_matrices(V=torch.zeros_like(layer.matrices().V))
    stream.reset()
    np.testing.assert_array_equal(stream(input[0]), first)


def test_a_layer_with_a_forward_of_its_own_is_not_streamed():
    class Doubled(CoRNN):
        def forward(self, input, *arguments, **options):
            return super().forward(2 * input, *arguments, **options)

    for make in (Doubled(3, 4).stream, SequenceModel(Doubled(3, 4), 2).stream):
        with pytest.raises(TypeError, match=r"^Doubled has a forward of its own, which a stream would not call: load"):
            make()


@pytest.mark.filterwarnings("ignore:.*_norm.* is deprecated:FutureWarning")
@pytest.mark.parametrize(
    "change",
    [lambda part, name: prune.l1_unstructured(part, name, 0.5), nn.utils.weight_norm, nn.utils.spectral_norm],
    ids=["pruning", "weight norm", "spectral norm"],
)
def test_a_stream_has_the_weights_after_the_last_step_of_the_optimiser(change):
    """PyTorch's hooks compute them at the next call of the layer."""
    model, input = SequenceModel(built(), 2, read="every"), sequence()
    change(model.layer.cell(), "weight_ih")
    change(model.head, "weight")
    model(input.unsqueeze(1)).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()
    model.eval()
    V, stream = model.layer.matrices().V, model.stream()
    outputs = torch.from_numpy(np.stack([stream(sample) for sample in input.numpy()]))
    with torch.no_grad():
        torch.testing.assert_close(outputs, model(input.unsqueeze(1)).squeeze(1), **FLOAT32)
    torch.testing.assert_close(V, model.layer.matrices().V, rtol=0, atol=0)


def test_what_a_sample_may_be():
    single = built(features=1).stream()
    answers = []
    for sample in (0.5, [0.5], np.array(0.5), np.array([0.5], np.float32), torch.tensor([0.5])):
        single.reset()
        answers.append(single(sample))
    assert all(np.array_equal(answer, answers[0]) for answer in answers)
    several = built().stream()
    for sample in (0.5, [1.0, 2.0], np.ones((1, 3))):
        with pytest.raises(ValueError, match="this stream expects 3 values"):
            several(sample)
    several(np.ones(3))
    before = several.to_bytes()
    for timespan in (-1.0, float("inf"), float("nan"), 1e39, 10**400):
        with pytest.raises(ValueError, match="timespan must be finite"):
            several(np.ones(3), timespan)
    for timespan in ("x", None, [1.0], np.ones(2)):
        with pytest.raises(TypeError, match="expected a number"):
            several(np.ones(3), timespan)
    assert several.to_bytes() == before
    answers = []
    for timespan in (2, 2.0, np.float32(2), np.array(2.0), torch.tensor(2.0)):
        several.reset()
        answers.append(several(np.ones(3), timespan))
    assert all(np.array_equal(answer, answers[0]) for answer in answers)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
def test_masked_values_are_missing(dtype):
    values, missing = [1.0, 7.0, 3.0], np.array([False, True, False])
    masked, known = (built().stream() for _ in range(2))
    for stream, sample in ((masked, np.ma.array(values, mask=missing, dtype=dtype)), (known, [1.0, np.nan, 3.0])):
        stream([2.0, 4.0, 6.0])
        stream(sample)
    assert masked.to_bytes() == known.to_bytes()


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize("options", [{"features": 1}, {}, {"features": 9}], ids=str)
@pytest.mark.parametrize("timespan", [1.0, 2.5])
def test_infinity_is_an_error_that_leaves_the_state(backend, options, timespan, monkeypatch):
    if backend == "numpy":
        without_library(monkeypatch)
    elif not ISAS:
        pytest.skip("the C library is not built")
    layer = built(**options)
    stream, input = layer.stream(), sequence(layer.input_size).numpy()
    stream(input[0])
    before = stream.to_bytes()
    for wrong in (np.inf, -np.inf):
        for place in range(layer.input_size):
            sample = input[1].astype(np.float64)
            sample[0], sample[place] = np.nan, wrong
            with pytest.raises(ValueError, match="the sample contains infinity: replace it, or pass NaN if"):
                stream(float(wrong) if layer.input_size == 1 else sample, timespan)
            assert stream.to_bytes() == before
    assert np.isfinite(stream(np.full(layer.input_size, np.nan))).all()


@pytest.mark.parametrize("backend", ["c", "numpy"])
@pytest.mark.parametrize(
    ("dtype", "large"), [(torch.float32, 1e39), (torch.float32, 3e38), (torch.float64, 1.7e308)], ids=str
)
@pytest.mark.parametrize("timespan", [1.0, 2.5])
def test_a_sample_that_overflows_is_an_error_that_leaves_the_state(backend, dtype, large, timespan, monkeypatch):
    if backend == "numpy":
        without_library(monkeypatch)
    elif not ISAS:
        pytest.skip("the C library is not built")
    layer = built(num_layers=2, dtype=dtype)
    with torch.no_grad():
        layer.cells["l0"].weight_ih[:, 1:] = torch.tensor([3.0, -3.0])  # 3e38 is a float32, its product with 3 is not
    scaling = Scaling(np.zeros(3), np.ones(3))
    stream = open_stream(layer, nn.Linear(19, 2), scaling)
    stream(np.array([0.1, 0.2, 0.3]))
    before = stream.to_bytes()
    for sample in ([np.nan, large, large], [0.5, -large, -large]):
        with pytest.raises(
            ValueError, match=rf"too large for this model in float\d\d.* is {re.escape(f'{large:.3g}')}; replace it"
        ):
            stream(np.array(sample), timespan)
        assert stream.to_bytes() == before
    assert np.isfinite(stream(np.full(3, np.nan))).all()


@pytest.mark.parametrize("backend", ["c", "numpy"])
def test_a_state_that_is_not_finite_is_an_error(backend, monkeypatch):
    if backend == "numpy":
        without_library(monkeypatch)
    stream = built().stream()
    stream(np.ones(3))
    state = stream.state()
    state["state"][0, 1, 4] = np.nan
    stream.restore(state)
    with pytest.raises(ValueError, match=r"the state is not finite.*`reset` the stream"):
        stream(np.ones(3))
    stream.reset()
    assert np.isfinite(stream(np.ones(3))).all()


def test_what_cannot_be_streamed():
    with pytest.raises(ValueError, match="bidirectional=False"):
        built(bidirectional=True).stream()
    with pytest.raises(TypeError, match="got LSTM"):
        SequenceModel(nn.LSTM(3, 4), 2).stream()
    with pytest.raises(TypeError, match="float32 or float64"):
        built(dtype=torch.float16).stream()
    with pytest.raises(TypeError, match=r"model\.layer\.stream"):
        SequenceModel(built(), 2, encoder=nn.Embedding(5, 3)).stream()
    with pytest.raises(ValueError, match="belongs to another model"):
        built(hidden=5).stream().restore(built(hidden=6).stream().to_bytes())
    with pytest.raises(ValueError, match="not a stream's state"):
        built().stream().restore({})


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_a_state_is_restored_from_any_bytes(kind):
    stream, other = built().stream(), built().stream()
    sample = np.ones(len(stream.seen))
    stream(sample)
    other.restore(kind(stream.to_bytes()))
    assert other.steps == 1
    np.testing.assert_array_equal(other.answer, stream.answer)


def test_negative_steps_leave_the_stream_as_it_was():
    stream = built().stream()
    stream(np.ones(len(stream.seen)))
    before = stream.to_bytes()
    with pytest.raises(ValueError, match="steps is -1, it must be at least 0"):
        stream.restore(stream.state() | {"steps": np.array([-1])})
    assert stream.to_bytes() == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: None, "a dictionary of arrays or bytes, got NoneType"),
        (lambda state: list(state.values()), "a dictionary of arrays or bytes, got list"),
        (lambda state: state | {"seen": state["seen"].tolist()}, "seen is of type list, expected an array"),
    ],
    ids=["nothing", "list", "list of numbers"],
)
def test_what_is_no_state_leaves_the_stream_as_it_was(change, message):
    stream = built().stream()
    stream(np.ones(len(stream.seen)))
    before = stream.to_bytes()
    with pytest.raises(TypeError, match=message):
        stream.restore(change(stream.state()))
    assert stream.to_bytes() == before
