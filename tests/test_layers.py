"""What is particular to CoRNN and CoRNNCell, held to the equations of `functional` written out by hand."""

import math
import weakref
from functools import partial

import hypothesis.strategies as st
import jaxtyping
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from tolerances import FLOAT32, FLOAT64
from torch import nn
from torch.nn.utils import prune
from torch.nn.utils.rnn import pack_sequence, pad_packed_sequence, pad_sequence
from torch.overrides import TorchFunctionMode

from cornn import HORN, CoRNN, CoRNNCell
from cornn._layer_arguments import check_input
from cornn._random import generator
from cornn.baselines import LEM, LinOSS, TanhRNN, UnitaryRNN
from cornn.functional import ACTIVATIONS, DAMPINGS, transition, unroll, unroll_by
from cornn.layers import INITS

DOUBLE = torch.float64
CONSTANTS = ("dt", "gamma", "epsilon")
TIME, BATCH, FEATURES, HIDDEN = 12, 3, 2, 4


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def make(**options):
    return CoRNN(FEATURES, HIDDEN, **{"dtype": DOUBLE} | options)


def data(*shape, dtype=DOUBLE):
    return torch.randn(*(shape or (TIME, BATCH, FEATURES)), dtype=dtype)


def spans(*shape):
    return torch.rand(*(shape or (TIME, BATCH)), dtype=DOUBLE) + 0.5


def flat(output, state):
    """All numbers of a result, in one vector."""
    return torch.cat([tensor.flatten() for tensor in (output, *state)])


def assert_same(got, want, tolerance=FLOAT64):
    torch.testing.assert_close(flat(*got), flat(*want), **tolerance)


def gradients(result, variables, seed=0):
    """Of a random weighting of all numbers of (output, state)."""
    numbers = flat(*result)
    weights = torch.randn(len(numbers), dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))
    return torch.autograd.grad((numbers * weights.to(numbers)).sum(), variables)


def by_hand(layer, input, state, timespans=None):
    """(output, (y, z)) of time-major batches of equal length, each layer and direction by `functional`."""
    ends, m = [], layer.hidden_size
    for number in range(layer.num_layers):
        outputs = []
        for reverse in (False, True)[: 1 + layer.bidirectional]:
            cell = layer.cell(number, reverse)
            V, b, R = cell.weights()
            drive = input @ V.T + (0 if b is None else b)
            spans = timespans.flip(0) if reverse and timespans is not None else timespans
            start = (*(part[len(ends)] for part in state), R[:, :m], R[:, m:])
            drive = drive.flip(0) if reverse else drive
            if spans is not None and cell.default_constants:  # durations instead of factors on dt
                over = transition(*cell.oscillators(), spans.unsqueeze(-1), damping=cell.damping)
                ys, end = unroll_by(over, drive, *start, activation=cell.activation)
            else:
                how = {"timespans": spans, "damping": cell.damping, "activation": cell.activation}
                ys, end = unroll(drive, *start, *cell.oscillators(), **how)
            outputs.append(ys.flip(0) if reverse else ys)
            ends.append(end)
        input = torch.cat(outputs, -1)
    return input, tuple(torch.stack(part) for part in zip(*ends, strict=True))


def alone_by_hand(layer, sequences, state, timespans):
    """The same for sequences of any lengths, one after the other; outputs are padded with zeros."""
    results = [
        by_hand(
            layer,
            sequence.unsqueeze(1),
            tuple(part[:, [column]] for part in state),
            None if timespans is None else timespans[column].unsqueeze(1),
        )
        for column, sequence in enumerate(sequences)
    ]
    output = pad_sequence([output.squeeze(1) for output, _ in results])
    return output, tuple(torch.cat(part, 1) for part in zip(*(end for _, end in results), strict=True))


def draw_layer(random, features, hidden, *, per_neuron=False, **options):
    """A layer with random constants, mild enough for the cubic force of Duffing's oscillators to stay finite."""

    def between(low, high):
        return low + (high - low) * torch.rand((hidden,) if per_neuron else (), generator=random, dtype=DOUBLE)

    constants = {"dt": between(0.01, 0.3), "gamma": between(0.1, 2.0), "epsilon": between(0.1, 3.0)}
    layer = CoRNN(features, hidden, **constants, per_neuron=per_neuron, **options, dtype=DOUBLE)
    layer.reset_parameters(random)
    return layer


def draw_sequences(random, lengths, *features):
    return [torch.rand(length, *features, generator=random, dtype=DOUBLE).requires_grad_() for length in lengths]


OPTIONS = st.fixed_dictionaries(
    {
        "num_layers": st.integers(1, 2),
        "bias": st.booleans(),
        "bidirectional": st.booleans(),
        "damping": st.sampled_from(DAMPINGS),
        "activation": st.sampled_from(sorted(ACTIVATIONS)),
        "trainable": st.lists(st.sampled_from(CONSTANTS), unique=True),
        "per_neuron": st.booleans(),
    }
)
EVERYTHING = {"num_layers": 2, "bidirectional": True, "trainable": CONSTANTS, "per_neuron": True}


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.tuples(st.integers(1, 3), st.integers(1, 5)),
    options=OPTIONS,
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=4),
    packed=st.booleans(),
    uneven=st.booleans(),
    seed=st.integers(0, 2**31),
)
@example(sizes=(2, 4), options=EVERYTHING, lengths=[2, 7, 1, 4], packed=True, uneven=True, seed=0)
@example(sizes=(2, 4), options=EVERYTHING, lengths=[2, 7, 1, 4], packed=True, uneven=False, seed=0)
@example(sizes=(2, 4), options=EVERYTHING, lengths=[7, 7, 7, 7], packed=False, uneven=True, seed=0)
def test_output_state_and_every_gradient_are_those_of_the_equations(sizes, options, lengths, packed, uneven, seed):
    random = torch.Generator().manual_seed(seed)
    layer = draw_layer(random, *sizes, **options)
    lengths = lengths if packed else lengths[:1] * len(lengths)
    sequences = draw_sequences(random, lengths, sizes[0])
    timespans = draw_sequences(random, lengths) if uneven else None
    state = tuple(
        part.requires_grad_()
        for part in torch.rand(2, len(layer.cells), len(lengths), sizes[1], generator=random, dtype=DOUBLE)
    )
    variables = [*layer.parameters(), *sequences, *state, *(timespans or ())]

    if packed:
        output, last = layer(
            pack_sequence(sequences, enforce_sorted=False),
            state,
            timespans=pack_sequence(timespans, enforce_sorted=False) if uneven else None,
        )
        output = pad_packed_sequence(output)[0]
    else:
        output, last = layer(torch.stack(sequences, 1), state, timespans=torch.stack(timespans, 1) if uneven else None)
    want = alone_by_hand(layer, sequences, state, timespans)
    assert_same((output, last), want)
    found = gradients((output, last), variables)
    torch.testing.assert_close(found, gradients(want, variables), **FLOAT64)


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_float32_agrees_with_float64(damping, activation):
    layer = make(
        num_layers=2,
        bidirectional=True,
        damping=damping,
        activation=activation,
        trainable=CONSTANTS,
        init="paper",
        dtype=torch.float32,
    )
    input, state = data(), tuple(data(4, BATCH, HIDDEN) for _ in range(2))
    single = layer(input.float(), tuple(part.float() for part in state))
    found = [gradient.double() for gradient in gradients(single, list(layer.parameters()))]
    layer.double()
    want = by_hand(layer, input, state)
    torch.testing.assert_close(flat(*single).double(), flat(*want), **FLOAT32)
    torch.testing.assert_close(found, list(gradients(want, list(layer.parameters()))), **FLOAT32)


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "timespans"])
@pytest.mark.parametrize(("per_neuron", "bias"), [(False, True), (True, False)], ids=["shared-bias", "per-neuron"])
@pytest.mark.parametrize("trainable", [(), CONSTANTS], ids=["fixed", "trainable"])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("damping", DAMPINGS)
def test_cell_step_by_step_ends_where_the_layer_does(damping, activation, trainable, per_neuron, bias, uneven):
    options = {
        "damping": damping,
        "activation": activation,
        "trainable": trainable,
        "per_neuron": per_neuron,
        "bias": bias,
    }
    layer = make(**options)
    cell = CoRNNCell(FEATURES, HIDDEN, dtype=DOUBLE, **options)
    cell.load_state_dict(layer.cell().state_dict())
    input, timespans = data(5, BATCH, FEATURES), spans(5, BATCH) if uneven else None
    state, ys = None, []
    for number, now in enumerate(input):
        state = cell(now, state, timespans=timespans[number] if uneven else None)
        ys.append(state[0])
    output, last = layer(input, timespans=timespans)
    assert_same((torch.stack(ys), state), (output.reshape(5, BATCH, HIDDEN), tuple(part[0] for part in last)))


@pytest.mark.parametrize("uneven", [False, True], ids=["even", "timespans"])
@pytest.mark.parametrize("module", [CoRNN, CoRNNCell])
def test_gradients_reach_buffers_that_are_asked_for_them(module, uneven):
    """Constants and scales are no parameters, but `functional_call` may replace them by functions of parameters."""
    layer = module(FEATURES, 3, dtype=DOUBLE)
    layer.load_state_dict({name: 0.2 * torch.rand_like(part) + 0.3 for name, part in layer.state_dict().items()})
    names = [name for name, _ in layer.named_buffers()]
    input, timespans = (data(), spans()) if module is CoRNN else (data(BATCH, FEATURES), spans(BATCH))

    def run(*buffers):
        named = dict(zip(names, buffers, strict=True))
        options = {"timespans": timespans if uneven else None}
        first, second = torch.func.functional_call(layer, named, (input,), options)
        return flat(first, second) if module is CoRNN else flat(first, (second,))

    buffers = [value.clone().requires_grad_() for value in layer.buffers()]
    assert len(buffers) == 6
    assert torch.autograd.gradcheck(run, buffers)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_timespans_of_a_cell_with_given_constants_scale_dt(damping):
    options = {"damping": damping, "dt": 0.1, "gamma": 2.0, "epsilon": 3.0}
    cell, span = CoRNNCell(FEATURES, HIDDEN, dtype=DOUBLE, **options), 2.5
    longer = CoRNNCell(FEATURES, HIDDEN, dtype=DOUBLE, **options | {"dt": 0.25})
    longer.load_state_dict(cell.state_dict() | {"dt": longer.state_dict()["dt"]})
    input, state = data(BATCH, FEATURES), (data(BATCH, HIDDEN), data(BATCH, HIDDEN))
    torch.testing.assert_close(cell(input, state, timespans=span), longer(input, state), **FLOAT64)


@pytest.mark.parametrize("init", INITS)
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
def test_cell_starts_as_the_layer_does(init, bias):
    layer, cell = make(init=init, bias=bias), CoRNNCell(FEATURES, HIDDEN, bias, init=init, dtype=DOUBLE)
    for one in (layer, cell):
        one.reset_parameters(torch.Generator().manual_seed(0))
    torch.testing.assert_close(cell.state_dict(), layer.cell().state_dict(), rtol=0, atol=0)


def test_cell_takes_a_single_sequence_and_a_number_for_a_span():
    cell = CoRNNCell(FEATURES, HIDDEN, dtype=DOUBLE)
    input, state = data(1, FEATURES), (data(1, HIDDEN), data(1, HIDDEN))
    single = cell(input[0], tuple(part[0] for part in state), timespans=1.5)
    batched = cell(input, state, timespans=torch.tensor([1.5], dtype=DOUBLE))
    torch.testing.assert_close(single, tuple(part[0] for part in batched), **FLOAT64)


def test_cell_state_is_zeros_by_default():
    cell, input = CoRNNCell(FEATURES, HIDDEN), torch.ones(BATCH, FEATURES)
    zeros = torch.zeros(BATCH, HIDDEN)
    assert_same(cell(input), cell(input, (zeros, zeros)), {"rtol": 0, "atol": 0})


def test_cell_computes_in_its_own_dtype_whatever_that_of_the_timespans():
    y, z = CoRNNCell(FEATURES, HIDDEN)(torch.ones(BATCH, FEATURES), timespans=torch.ones(BATCH, dtype=DOUBLE))
    assert (y.dtype, z.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("span", [-1.0, math.nan, math.inf])
def test_cell_refuses_bad_timespans(span):
    with pytest.raises(ValueError, match=r"timespans must be finite and not negative"):
        CoRNNCell(FEATURES, HIDDEN)(torch.ones(BATCH, FEATURES), timespans=span)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("per_neuron", [False, True], ids=["shared", "per-neuron"])
@pytest.mark.parametrize("direction", [-1, 1], ids=["down", "up"])
def test_trained_constants_keep_their_range_after_huge_steps(dtype, per_neuron, direction):
    layer = make(trainable=CONSTANTS, per_neuron=per_neuron, dtype=dtype)
    optimiser = torch.optim.SGD(layer.parameters(), lr=1e6)
    for _ in range(3):
        optimiser.zero_grad()
        (-direction * sum(constant.sum() for constant in layer.oscillators())).backward()
        optimiser.step()
        assert_in_range(layer)


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize("free", [-1e30, -1e3, -1e2, -20.0, 20.0, 1e2, 1e3, 1e30])
def test_trained_constants_keep_their_range_for_any_parameter(dtype, free):
    layer = make(trainable=CONSTANTS, dtype=dtype)
    with torch.no_grad():
        for name in CONSTANTS:
            layer.get_parameter(f"cells.l0.free_{name}").fill_(free)
    assert_in_range(layer)


def assert_in_range(layer):
    dt, gamma, epsilon = layer.oscillators()
    assert ((dt > 0) & (dt < 1)).all()
    assert ((gamma > 0) & gamma.isfinite()).all()
    assert ((epsilon > 0) & epsilon.isfinite()).all()


@pytest.mark.parametrize("dtype", [torch.float32, DOUBLE], ids=str)
@pytest.mark.parametrize(
    ("name", "value"),
    [("dt", value) for value in (1e-5, 1e-3, 0.05, 0.5, 0.99)]
    + [(name, value) for name in ("gamma", "epsilon") for value in (1e-5, 0.1, 1.0, 50.0)],
)
def test_trained_constants_start_at_the_value_given(name, value, dtype):
    layer = make(trainable=(name,), dtype=dtype, **{name: value})
    started = getattr(layer.oscillators(), name)
    tolerance = FLOAT32 if dtype == torch.float32 else FLOAT64
    torch.testing.assert_close(started.item(), value, rtol=tolerance["rtol"], atol=0)


@pytest.mark.parametrize("per_neuron", [False, True], ids=["shared", "per-neuron"])
@pytest.mark.parametrize("name", CONSTANTS)
def test_trained_constant_is_a_parameter_that_gets_a_gradient(name, per_neuron):
    layer = make(trainable=name, per_neuron=per_neuron, num_layers=2, bidirectional=True, init="paper")
    free = {key: parameter for key, parameter in layer.named_parameters() if "free" in key}
    assert {key.rpartition(".")[2] for key in free} == {f"free_{name}"}
    assert {parameter.shape for parameter in free.values()} == {(HIDDEN,) if per_neuron else ()}
    assert len(free) == 4
    for gradient in gradients(layer(data()), list(free.values())):
        assert (gradient != 0).all()


@pytest.mark.parametrize("value", [0.3, [0.1, 0.2, 0.3, 0.4], torch.tensor([0.1, 0.2, 0.3, 0.4])])
@pytest.mark.parametrize("name", CONSTANTS)
def test_fixed_constants_are_buffers_that_hold_the_values_given(name, value):
    layer = make(**{name: value})
    assert {key for key, _ in layer.named_buffers()} == {f"cells.l0.{name}" for name in CONSTANTS}
    held = getattr(layer.oscillators(), name)
    torch.testing.assert_close(held, torch.as_tensor(value, dtype=DOUBLE), rtol=1e-7, atol=0)
    assert not held.requires_grad
    assert "trainable" not in repr(layer)


def test_state_dict_holds_the_constants():
    layer = make(dt=[0.1, 0.2, 0.3, 0.4], trainable=("gamma",), gamma=2.0, epsilon=3.0)
    other = make(dt=[0.5] * HIDDEN, trainable=("gamma",))
    other.load_state_dict(layer.state_dict())
    torch.testing.assert_close(other.oscillators(), layer.oscillators(), rtol=0, atol=0)


def test_implicit_and_explicit_damping_differ():
    explicit, implicit = make(), make(damping="implicit")
    implicit.load_state_dict(explicit.state_dict())
    input = data()
    assert not torch.allclose(explicit(input)[0], implicit(input)[0], rtol=1e-2)


@pytest.mark.parametrize("init", ["scaled", "paper"])
@pytest.mark.parametrize(("layer", "reverse"), [(0, False), (0, True), (1, False), (1, True)])
def test_set_matrices_sets_those_given_and_no_others(layer, reverse, init):
    net, input = make(num_layers=2, bidirectional=True, init=init), data()
    before, expected = net(input)[0], net.matrices(layer, reverse)._asdict()
    for number, (name, matrix) in enumerate(expected.items(), 1):
        expected[name] = torch.full_like(matrix, number / 8)
        net.set_matrices(layer, reverse, **{name: expected[name]})
        after = net(input)[0]
        assert not torch.allclose(after, before)
        torch.testing.assert_close(net.matrices(layer, reverse)._asdict(), expected, **FLOAT64)
        before = after


def test_matrices_are_copies():
    net, input = make(), data()
    before = net(input)[0]
    for matrix in net.matrices():
        matrix.fill_(1.0)
    assert torch.equal(net(input)[0], before)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"W": torch.zeros(3, 3)}, r"W has shape \(3, 3\), expected \(4, 4\)"),
        ({"b": torch.zeros(HIDDEN)}, "b was given for a layer without bias: use bias=True"),
    ],
)
def test_set_matrices_refuses_what_does_not_fit(given, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(bias=False).set_matrices(**given)


def test_set_matrices_refuses_weights_that_are_computed():
    """A parametrization returns a new tensor, which would take the change and be forgotten."""
    layer = make()
    before = layer.matrices()
    nn.utils.parametrizations.orthogonal(layer.cell(), "weight_hh")
    with pytest.raises(ValueError, match="W cannot be set: weight_hh is computed from other parameters"):
        layer.set_matrices(V=data(HIDDEN, FEATURES), W=torch.eye(HIDDEN))
    assert torch.equal(layer.matrices().V, before.V)
    layer.set_matrices(b=torch.ones(HIDDEN))
    torch.testing.assert_close(layer.matrices().b, torch.ones(HIDDEN, dtype=DOUBLE), **FLOAT64)


@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "checkpoint_every": 5}])
def test_pruned_weights_are_those_of_now(options):
    """Pruning computes the weights in a hook before `forward`, which a layer does not call."""
    layer, input = make(**options), data()
    layer.cell().set_matrices(W=data(HIDDEN, HIDDEN))
    prune.random_unstructured(layer.cell(), "weight_hh", 0.5)
    layer.cell().register_forward_pre_hook(lambda cell, arguments, keywords: None, with_kwargs=True)
    for _ in range(2):
        layer(input)[0].square().sum().backward()
        with torch.no_grad():
            layer.cell().weight_hh_orig.add_(1.0)
    output, _ = layer(input)
    prune.remove(layer.cell(), "weight_hh")
    torch.testing.assert_close(output, layer(input)[0], **FLOAT64)


def test_matrices_are_those_of_the_equation():
    """One step from a given state, written with the paper's letters."""
    layer = make(dt=0.1, gamma=2.0, epsilon=3.0)
    V, W, W_z, b = layer.matrices()
    u, y, z = data(1, FEATURES), data(1, HIDDEN), data(1, HIDDEN)
    z_1 = z + 0.1 * (torch.tanh(y @ W.T + z @ W_z.T + u @ V.T + b) - 2.0 * y - 3.0 * z)
    want = (y + 0.1 * z_1, z_1)
    torch.testing.assert_close(layer(u, (y, z))[1], want, **FLOAT64)


def test_matrices_have_no_bias_where_the_layer_has_none():
    assert make(bias=False).matrices().b is None


@pytest.mark.parametrize(("layer", "reverse"), [(1, False), (0, True)])
def test_matrices_of_a_layer_that_is_not_there_are_refused(layer, reverse):
    with pytest.raises(ValueError, match=rf"no cell 'l{layer}.*': this layer has l0"):
        make().matrices(layer, reverse)


def original(bias=True):
    """A state_dict as of the authors' published models: columns u, z, y."""
    weights = {"cell.i2h.weight": data(HIDDEN, FEATURES + 2 * HIDDEN), "readout.weight": data(5, HIDDEN)}
    return weights | ({"cell.i2h.bias": data(HIDDEN)} if bias else {}) | {"readout.bias": data(5)}


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no-bias"])
def test_from_original_computes_what_the_authors_cell_does(bias):
    weights, input = original(bias), data()
    dt, gamma, epsilon = 0.04, 2.7, 4.1
    layer, _ = CoRNN.from_original(weights, dt=dt, gamma=gamma, epsilon=epsilon)
    y = z = torch.zeros(BATCH, HIDDEN, dtype=DOUBLE)
    for u in input:
        i2h = torch.cat((u, z, y), 1) @ weights["cell.i2h.weight"].T + weights.get("cell.i2h.bias", 0)
        z = z + dt * (torch.tanh(i2h) - gamma * y - epsilon * z)
        y = y + dt * z
    torch.testing.assert_close(tuple(part[0] for part in layer(input)[1]), (y, z), **FLOAT64)


def test_from_original_hands_the_readout_back():
    weights = original()
    _, readout = CoRNN.from_original(weights, dt=0.1, gamma=1.0, epsilon=2.0)
    head = nn.Linear(HIDDEN, 5, dtype=DOUBLE)
    head.load_state_dict(readout)
    assert torch.equal(head.weight, weights["readout.weight"])
    assert torch.equal(head.bias, weights["readout.bias"])


def test_from_original_takes_parameters_and_copies_them():
    weights = {key: nn.Parameter(value) for key, value in original().items()}
    layer, _ = CoRNN.from_original(weights, dt=0.1, gamma=1.0, epsilon=2.0, batch_first=True)
    assert layer.batch_first
    assert torch.equal(layer.matrices().V, weights["cell.i2h.weight"][:, :FEATURES])
    layer.set_matrices(V=torch.zeros(HIDDEN, FEATURES))
    assert (weights["cell.i2h.weight"] != 0).all()


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ({}, "no cell.i2h.weight in the state_dict .it has nothing.: this is not one of the authors' coRNN models"),
        ({"cell.h2h.weight": torch.zeros(4, 4)}, r"no cell.i2h.weight in the state_dict \(it has cell.h2h.weight\)"),
        ({"cell.i2h.weight": torch.zeros(4, 8)}, r"cell.i2h.weight has shape \(4, 8\), expected \(m, inputs \+ 2m\)"),
        ({"cell.i2h.weight": torch.zeros(4)}, r"cell.i2h.weight has shape \(4,\), expected \(m, inputs \+ 2m\)"),
        (
            {"cell.i2h.weight": torch.zeros(4, 9), "cell.i2h.bias": torch.zeros(5)},
            r"cell.i2h.bias has shape \(5,\), expected \(4,\)",
        ),
    ],
    ids=["empty", "other-names", "no-input-columns", "vector", "bias-too-long"],
)
def test_from_original_refuses_what_is_not_the_authors(weights, sentence):
    with pytest.raises(ValueError, match=sentence):
        CoRNN.from_original(weights, dt=0.1, gamma=1.0, epsilon=2.0)


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ({"num_layers": 2}, "num_layers is 2, but the weights are those of a layer with num_layers=1: omit it"),
        ({"bidirectional": True}, "bidirectional is True, .* with bidirectional=False: omit it"),
        ({"bias": True}, "bias is True, .* with bias=False: omit it"),
    ],
    ids=str,
)
def test_from_original_leaves_no_weight_random(option, message):
    with pytest.raises(ValueError, match=message):
        CoRNN.from_original({"cell.i2h.weight": torch.zeros(4, 9)}, dt=0.1, gamma=1.0, epsilon=2.0, **option)


def test_per_neuron_makes_one_constant_of_each_given_number():
    for options, shape in (({}, (8,)), ({"dt": 0.1}, ()), ({"dt": 0.1, "per_neuron": True}, (8,))):
        assert CoRNN(3, 8, trainable=("dt",), **options).cell().free_dt.shape == shape


@pytest.mark.parametrize(
    ("init", "V", "W", "b"),
    [
        ("paper", 67**-0.5, 67**-0.5, 67**-0.5),
        ("separate", 3**-0.5, 32**-0.5, 3**-0.5),
        ("separate-pair", 3**-0.5, 64**-0.5, 3**-0.5),
    ],
    ids=["paper", "separate", "separate-pair"],
)
def test_init_draws_between_its_bounds(init, V, W, b):
    """d = 3, m = 32; the widest of a few dozen draws comes near the bound."""
    drawn = CoRNN(3, 32, init=init, dtype=DOUBLE).matrices()
    for weights, bound in zip(drawn, (V, W, W, b), strict=True):
        assert 0.8 * bound < weights.abs().max() <= bound
        assert abs(weights.mean()) < 0.3 * bound


def test_memory_init_takes_the_sum_of_the_input_off_it_and_couples_nothing_else():
    V, W, W_z, b = CoRNN(3, 32, init="memory", dtype=DOUBLE).matrices()
    bound = 3.0 * (2 / 3) ** 0.5
    assert 0.8 * bound < V.abs().max() <= bound
    assert not W_z.any()
    assert not b.any()
    y = V @ torch.tensor([0.5, -2.0, 1.0], dtype=DOUBLE)
    torch.testing.assert_close(W @ y, -0.1 * y)
    rest = torch.linalg.svd(V, full_matrices=True).U[:, 3:]
    torch.testing.assert_close(W @ rest, torch.zeros_like(rest))


def test_memory_init_with_many_inputs_couples_nothing():
    assert not CoRNN(9, 32, init="memory").matrices().W.any()


def test_init_of_an_upper_layer_counts_its_own_inputs():
    upper = CoRNN(1, 32, num_layers=2, bidirectional=True, init="separate", dtype=DOUBLE).matrices(layer=1).V
    assert 0.8 * 64**-0.5 < upper.abs().max() <= 64**-0.5


def test_reset_parameters_with_a_generator_is_reproducible_and_touches_no_other():
    layer, other = make(num_layers=2, bidirectional=True), make(num_layers=2, bidirectional=True)
    layer.reset_parameters(torch.Generator().manual_seed(3))
    before = torch.get_rng_state()
    other.reset_parameters(torch.Generator().manual_seed(3))
    assert torch.equal(torch.get_rng_state(), before)
    for mine, its in zip(layer.parameters(), other.parameters(), strict=True):
        assert torch.equal(mine, its)
    other.reset_parameters(torch.Generator().manual_seed(4))
    assert not torch.equal(layer.matrices().V, other.matrices().V)


def test_a_number_as_timespan_keeps_its_precision():
    cell, input = make().cell(), data(BATCH, FEATURES)
    want = cell(input, timespans=torch.full((BATCH,), 0.1, dtype=DOUBLE))
    torch.testing.assert_close(cell(input, timespans=0.1), want, rtol=0, atol=0)


def test_reset_parameters_draws_each_cell_anew():
    layer = make(num_layers=2, bidirectional=True)
    layer.reset_parameters(torch.Generator().manual_seed(3))
    assert not torch.equal(layer.matrices(1).V, layer.matrices(1, reverse=True).V)
    assert not torch.equal(layer.matrices(0).V, layer.matrices(0, reverse=True).V)


@pytest.mark.parametrize(
    "every", [1, pytest.param(4, marks=pytest.mark.slow), 11, pytest.param(12, marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("ragged", [False, True], ids=["equal", "lengths"])
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "timespans"])
def test_checkpoints_change_nothing(every, ragged, uneven):
    options = {"num_layers": 2, "bidirectional": True, "trainable": CONSTANTS}
    layer, other = make(**options), make(**options, checkpoint_every=every)
    other.load_state_dict(layer.state_dict())
    input, timespans = data().requires_grad_(), spans().requires_grad_() if uneven else None
    lengths = torch.tensor([5, TIME, 1])
    state = tuple(data(4, BATCH, HIDDEN).requires_grad_() for _ in range(2))
    variables = [input, *state, *([timespans] if uneven else [])]

    def result(net):
        if not ragged:
            return net(input, state, timespans=timespans)
        packed = nn.utils.rnn.pack_padded_sequence(input, lengths, enforce_sorted=False)
        output, last = net(packed, state, timespans=timespans)
        return output.data, last

    got, want = result(other), result(layer)
    assert_same(got, want)
    torch.testing.assert_close(
        gradients(got, [*other.parameters(), *variables]),
        gradients(want, [*layer.parameters(), *variables]),
        **FLOAT64,
    )


@pytest.mark.parametrize("every", [1, 5, 12])
def test_last_state_of_checkpoints_is_that_of_forward(every):
    layer, input = make(num_layers=2, checkpoint_every=every), data()
    torch.testing.assert_close(layer.last_state(input), layer(input)[1], **FLOAT64)


def saved_bytes(layer, input):
    """What autograd keeps for the backward pass, besides the weights and the input."""
    known = {tensor.untyped_storage().data_ptr() for tensor in (input, *layer.parameters(), *layer.buffers())}
    kept = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = layer(input)
    assert result[0].requires_grad
    return sum(kept.values())


def test_checkpoints_keep_the_state_of_every_so_many_steps_only():
    steps, every = 400, 40
    input, one = data(steps, BATCH, FEATURES), 8 * BATCH * HIDDEN
    whole = saved_bytes(make(), input)
    assert 3 * steps * one <= whole < 3.2 * steps * one
    # y and z at the start of each segment, and as much again for small change
    assert saved_bytes(make(checkpoint_every=every), input) < 2 * 2 * steps / every * one


def test_without_gradients_nothing_is_kept():
    input = data()
    with torch.no_grad():
        output, _ = make(checkpoint_every=5)(input)
    assert not output.requires_grad


@pytest.mark.parametrize("transform", [torch.func.grad, torch.vmap])
def test_checkpoints_and_function_transforms_exclude_each_other(transform):
    layer, input = make(checkpoint_every=5), data()
    for_one = input if transform is torch.func.grad else torch.stack((input, input))
    with pytest.raises(NotImplementedError, match="set the layer's checkpoint_every to None"):
        transform(lambda input: layer(input)[0].sum())(for_one)
    with torch.no_grad():
        torch.vmap(layer)(torch.stack((input, input)))


@pytest.mark.parametrize("name", ["weight_ih", "weight_hh", "bias", "dt", "scale_hh"])
def test_checkpoints_are_not_computed_again_with_other_weights(name):
    """The gradient would be wrong, and nothing would say so."""
    layer = make(checkpoint_every=5) if name == "scale_hh" else make(checkpoint_every=5, dt=0.1)
    output, _ = layer(data())
    with torch.no_grad():
        getattr(layer.cell(), name).mul_(0.9)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("kind", [CoRNN, HORN, LEM, LinOSS, UnitaryRNN])
def test_checkpoints_are_computed_again_with_replaced_weights(kind):
    layer, input = kind(FEATURES, HIDDEN, dtype=DOUBLE), data()
    weights = {name: weight.detach().mul(0.9).requires_grad_() for name, weight in layer.named_parameters()}
    want = torch.func.functional_call(layer, weights, input)
    layer.checkpoint_every = 5
    got = torch.func.functional_call(layer, weights, input)
    assert_same(got, want)
    variables = list(weights.values())
    torch.testing.assert_close(gradients(got, variables), gradients(want, variables), **FLOAT64)


@pytest.mark.parametrize("options", [{}, {"num_layers": 2}], ids=str)
def test_a_pruned_layer_can_be_converted(options):
    """Pruning computes the weights before a call, so that those of the call before have the former type."""
    layer = make(**options, dtype=torch.float32)
    prune.random_unstructured(layer.cell(), "weight_ih", 0.5)
    output, _ = layer.double()(data())
    assert output.dtype == DOUBLE


@pytest.mark.parametrize("options", [{"num_layers": 2}, {"checkpoint_every": 5}], ids=str)
def test_spectral_norm_iterates_once_per_call(options):
    layer, other = make(), make(**options)
    for one in (layer, other):
        torch.manual_seed(0)
        nn.init.normal_(one.cell().weight_hh)
        nn.utils.spectral_norm(one.cell(), "weight_hh")
        one(data())
    assert torch.equal(layer.cell().weight_hh_u, other.cell().weight_hh_u)


def test_checkpoints_draw_the_weights_of_a_random_parametrization_once():
    layer, input = make(), data()
    nn.init.normal_(layer.cell().weight_hh)
    for name in ("weight_ih", "bias", "weight_hh"):  # as the equation reads them, so that each gets the same mask
        nn.utils.parametrize.register_parametrization(layer.cell(), name, nn.Dropout(0.5))

    def run():
        torch.manual_seed(0)
        return layer(input)

    want = run()
    layer.checkpoint_every = 5
    got = run()
    assert_same(got, want)
    variables = list(layer.parameters())
    torch.testing.assert_close(gradients(got, variables), gradients(want, variables), **FLOAT64)
    with torch.no_grad():
        assert_same(run(), want)


def test_checkpoints_are_not_computed_again_with_other_timespans():
    layer, timespans = make(checkpoint_every=5), spans()
    output, _ = layer(data(), timespans=timespans)
    timespans.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("name", ["scale_ih", "scale_hh", "scale_bias"])
@pytest.mark.parametrize("backend", ["auto", "portable", "reference"])
def test_a_scale_changed_before_the_backward_pass_is_noticed(name, backend):
    layer = make(backend=backend)
    output, _ = layer(data())
    getattr(layer.cell(), name).mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
@pytest.mark.parametrize("kind", [CoRNN, LinOSS])
def test_lengths_are_integers_of_any_type(kind, dtype):
    layer, lengths = kind(FEATURES, HIDDEN, bidirectional=True, checkpoint_every=2), torch.tensor([3, TIME, 0])
    input = data(dtype=torch.float32)
    got, want = layer.last_state(input, lengths=lengths.to(dtype)), layer.last_state(input, lengths=lengths)
    torch.testing.assert_close(got, want, rtol=0, atol=0)


@pytest.mark.parametrize("net", [{}, {"num_layers": 2}, {"num_layers": 2, "bidirectional": True}])
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "timespans"])
def test_last_state_is_that_of_forward(net, uneven):
    layer, input = make(**net), data()
    state = tuple(data(len(layer.cells), BATCH, HIDDEN) for _ in range(2))
    timespans = spans() if uneven else None
    got = layer.last_state(input, state, timespans=timespans)
    torch.testing.assert_close(got, layer(input, state, timespans=timespans)[1], **FLOAT64)
    with torch.no_grad():
        torch.testing.assert_close(layer.last_state(input, state, timespans=timespans), got, **FLOAT64)


def test_last_state_of_checkpoints_lets_go_of_the_outputs(monkeypatch):
    layer = make(checkpoint_every=2)
    cell, held = layer.cell(), []

    def sequence(*arguments, **options):
        assert sum(output() is not None for output in held) < 3
        output, last = CoRNNCell.sequence(cell, *arguments, **options)
        held.append(weakref.ref(output))
        return output, last

    monkeypatch.setattr(cell, "sequence", sequence)
    layer.last_state(data())
    assert len(held) == TIME / 2


def test_last_state_has_the_gradients_of_forward():
    layer, input = make(num_layers=2, bidirectional=True), data()
    variables = list(layer.parameters())
    nothing = input.new_empty(0)
    got = gradients((nothing, layer.last_state(input)), variables)
    torch.testing.assert_close(got, gradients((nothing, layer(input)[1]), variables), **FLOAT64)


def test_last_state_of_packed_sequences_is_that_of_forward():
    layer = make(num_layers=2, bidirectional=True)
    packed = pack_sequence([data(length, FEATURES) for length in (2, 7, 4)], enforce_sorted=False)
    torch.testing.assert_close(layer.last_state(packed), layer(packed)[1], **FLOAT64)


@pytest.mark.parametrize("batch_first", [False, True], ids=["time-first", "batch-first"])
def test_timespans_come_one_a_step_or_one_a_step_and_sequence(batch_first):
    layer, input, shared = make(batch_first=batch_first, bidirectional=True), data(), spans(TIME)
    each = shared.unsqueeze(1).expand(TIME, BATCH)
    if batch_first:
        input, each = input.transpose(0, 1), each.T
    assert_same(layer(input, timespans=shared), layer(input, timespans=each))


@pytest.mark.parametrize("batch_first", [False, True], ids=["time-first", "batch-first"])
def test_timespans_of_a_sequence_are_its_own(batch_first):
    layer, input, each = make(batch_first=batch_first, num_layers=2, bidirectional=True), data(), spans()
    if batch_first:
        output, state = layer(input.transpose(0, 1), timespans=each.T)
        output = output.transpose(0, 1)
    else:
        output, state = layer(input, timespans=each)
    for column in range(BATCH):
        alone = layer(input[:, column], timespans=each[:, column])
        assert_same((output[:, column], (part[:, column] for part in state)), alone)


def test_timespans_that_are_square_follow_the_layout_of_the_input():
    layer, input, each = make(batch_first=True), data(BATCH, BATCH, FEATURES), spans(BATCH, BATCH)
    output, state = layer(input, timespans=each)
    for row in range(BATCH):
        assert_same((output[row], (part[:, row] for part in state)), layer(input[row], timespans=each[row]))


@pytest.mark.parametrize("batch_first", [False, True], ids=["time-first", "batch-first"])
def test_timespans_of_packed_sequences_come_packed_or_padded(batch_first):
    layer = make(batch_first=batch_first, bidirectional=True)
    lengths = (4, 7, 1)
    packed = pack_sequence([data(length, FEATURES) for length in lengths], enforce_sorted=False)
    each = [spans(length) for length in lengths]
    output, state = layer(packed, timespans=pack_sequence(each, enforce_sorted=False))
    padded, padded_state = layer(packed, timespans=pad_sequence(each, batch_first=batch_first))
    assert_same((output.data, state), (padded.data, padded_state))


@pytest.mark.parametrize("damping", DAMPINGS)
def test_span_of_zero_leaves_the_state_exactly(damping):
    layer = make(damping=damping)
    state = tuple(data(1, BATCH, HIDDEN) for _ in range(2))
    output, last = layer(data(), state, timespans=torch.zeros(TIME))
    assert torch.equal(last[0], state[0])
    assert torch.equal(last[1], state[1])
    assert torch.equal(output, state[0].expand(TIME, BATCH, HIDDEN))


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize("span", [0.5, 3.0])
def test_constant_span_is_a_factor_on_dt(damping, span):
    layer, other, input = make(damping=damping, dt=0.1), make(damping=damping, dt=0.1 * span), data()
    other.load_state_dict(layer.state_dict() | {"cells.l0.dt": other.oscillators().dt})
    assert_same(layer(input, timespans=torch.full((TIME,), span)), other(input))


def test_whole_numbers_serve_as_timespans():
    layer, input = make(), data()
    whole = torch.arange(TIME)
    assert_same(layer(input, timespans=whole), layer(input, timespans=whole.double()), {"rtol": 0, "atol": 0})


@pytest.mark.parametrize(("damping", "shape"), [("explicit", (4,)), ("implicit", (4, BATCH))])
def test_timespans_get_their_gradient(damping, shape):
    layer, input = make(damping=damping, bidirectional=True), data(4, BATCH, FEATURES)
    timespans = spans(*shape).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: flat(*layer(input, timespans=t)), timespans)


def test_timespans_beyond_the_end_of_a_sequence_get_no_gradient():
    lengths = torch.tensor([TIME, 4, 1])
    timespans = spans().requires_grad_()
    packed = nn.utils.rnn.pack_padded_sequence(data(), lengths)
    output, state = make(bidirectional=True)(packed, timespans=timespans)
    (gradient,) = gradients((output.data, state), [timespans])
    within = torch.arange(TIME).unsqueeze(1) < lengths
    assert (gradient[within] != 0).all()
    assert (gradient[~within] == 0).all()


@pytest.mark.parametrize(
    ("batch_first", "shape", "sentence"),
    [
        (False, (TIME + 1,), r"timespans have shape \(13,\), expected \(12,\) or \(12, 3\)"),
        (False, (BATCH, TIME), r"timespans have shape \(3, 12\), expected \(12,\) or \(12, 3\)"),
        (False, (TIME, BATCH, 1), r"timespans have shape \(12, 3, 1\), expected \(12,\) or \(12, 3\)"),
        (False, (), r"timespans have shape \(\), expected \(12,\) or \(12, 3\)"),
        (True, (TIME, BATCH), r"timespans have shape \(12, 3\), expected \(12,\) or \(3, 12\)"),
    ],
    ids=["too-long", "batch-first", "three-dimensions", "number", "time-first"],
)
def test_timespans_of_the_wrong_shape_are_refused(batch_first, shape, sentence):
    layer = make(batch_first=batch_first)
    with pytest.raises(ValueError, match=sentence):
        layer(data(BATCH, TIME, FEATURES) if batch_first else data(), timespans=torch.ones(shape))


@pytest.mark.parametrize("bad", [-0.5, math.nan, math.inf])
def test_timespans_that_are_no_spans_are_refused(bad):
    timespans = spans()
    timespans[3, 1] = bad
    with pytest.raises(ValueError, match=f"timespans must be finite and not negative, got {bad}"):
        make()(data(), timespans=timespans)


def test_packed_timespans_of_other_lengths_are_refused():
    packed = pack_sequence([data(3, FEATURES), data(2, FEATURES)])
    with pytest.raises(ValueError, match="timespans"):
        make()(packed, timespans=pack_sequence([spans(3), spans(1)]))


def test_packed_timespans_for_an_input_that_is_not_packed_are_refused():
    with pytest.raises(ValueError, match="timespans"):
        make()(data(3, 2, FEATURES), timespans=pack_sequence([spans(3), spans(3)]))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"dt": 0.0}, "dt must lie between 0 and 1, got 0.0"),
        ({"dt": 1.0}, "dt must lie between 0 and 1, got 1.0"),
        ({"dt": -0.1}, "dt must lie between 0 and 1, got -0.1"),
        ({"dt": math.nan}, "dt must lie between 0 and 1, got nan"),
        ({"dt": [0.1, 0.2, 1.5, 0.3]}, "dt must lie between 0 and 1, got 1.5"),
        ({"num_layers": True}, "num_layers must be a positive integer, got True"),
        ({"checkpoint_every": True}, "checkpoint_every must be a positive integer, got True"),
        ({"gamma": -1.0}, "gamma must be finite and not negative, got -1.0"),
        ({"gamma": math.nan}, "gamma must be finite and not negative, got nan"),
        ({"gamma": math.inf}, "gamma must be finite and not negative, got inf"),
        ({"epsilon": -0.5}, "epsilon must be finite and not negative, got -0.5"),
        ({"epsilon": math.nan}, "epsilon must be finite and not negative, got nan"),
        ({"epsilon": [1.0, 1.0, -2.0, 1.0]}, "epsilon must be finite and not negative, got -2.0"),
        ({"dt": [0.1, 0.2]}, r"dt has shape \(2,\): give one number, or one for each of the 4 neurons"),
        ({"gamma": torch.ones(4, 1)}, r"gamma has shape \(4, 1\): give one number"),
        ({"gamma": 0.0, "trainable": "gamma"}, "a trainable gamma must start above 0, got 0.0"),
        ({"damping": "none"}, "unknown damping 'none': choose one of explicit, implicit"),
        ({"activation": "gelu"}, "unknown activation 'gelu': choose one of tanh, identity, relu, duffing"),
        ({"init": "zeros"}, "unknown init 'zeros': choose one of paper, separate, separate-pair, memory"),
        ({"trainable": ("dt", "alpha")}, "trainable names 'alpha': choose any of dt, gamma, epsilon"),
        ({"checkpoint_every": 0}, "checkpoint_every must be a positive integer, got 0"),
        ({"num_layers": 0}, "num_layers must be a positive integer, got 0"),
    ],
    ids=str,
)
def test_bad_options_are_refused_in_a_sentence(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        make(**options)


@pytest.mark.parametrize("kind", [CoRNN, CoRNNCell])
def test_constants_are_numbers(kind, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(TypeError, match=r"dt must be a number, or one for each neuron, got '0.1'"):
        kind(2, 4, dt="0.1")


@pytest.mark.parametrize("kind", [CoRNN, CoRNNCell, HORN])
@pytest.mark.parametrize("trainable", [True, None])
def test_trainable_is_the_names_of_constants(kind, trainable, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(TypeError, match=f"trainable is {trainable}, expected the names of the constants to train"):
        kind(2, 4, trainable=trainable)


@pytest.mark.parametrize("sizes", [(0, 4), (-1, 4), (2, 0), (2, -3), (True, 4)])
@pytest.mark.parametrize("kind", [CoRNN, CoRNNCell])
def test_bad_sizes_are_refused_in_a_sentence(kind, sizes):
    with pytest.raises(ValueError, match=r"(input|hidden)_size must be a positive integer, got"):
        kind(*sizes)


def test_unknown_backend_is_refused_in_a_sentence():
    with pytest.raises(ValueError, match="unknown backend 'fortran': choose one of auto, reference, "):
        make(backend="fortran")(data())


def test_state_with_too_few_parts_is_refused():
    with pytest.raises(ValueError, match=r"state has 1 tensor, expected 2: \(y, z\)"):
        make()(data(), data(1, BATCH, HIDDEN))


def test_state_of_mixed_dtypes_is_refused():
    y, z = data(1, BATCH, HIDDEN), data(1, BATCH, HIDDEN, dtype=torch.float32)
    with pytest.raises(ValueError, match=r"state z is torch.float32, the input torch.float64: convert"):
        make()(data(), (y, z))


def test_state_or_input_on_another_device_is_refused():
    y = z = data(1, BATCH, HIDDEN)
    with pytest.raises(ValueError, match="state z is on meta, the input on cpu: move it"):
        make()(data(), (y, z.to("meta")))
    with pytest.raises(ValueError, match="input is on meta, this layer on cpu: move one"):
        make()(data().to("meta"))


@pytest.mark.parametrize("kind", [np.asarray, list, tuple, lambda _: None])
def test_input_that_is_not_a_tensor_is_refused(kind):
    wrong = kind(data())
    sentence = rf"input is of type {type(wrong).__name__}, expected a tensor: use torch\.as_tensor"
    with pytest.raises(TypeError, match=sentence):
        make()(wrong)
    with pytest.raises(TypeError, match=sentence):  # as a cell does, whose annotations are checked first in tests
        check_input(wrong, data(), (3,), "")


def test_input_may_be_negated_lazily():
    """PyTorch's views of conjugated numbers have the other sign in memory."""
    number = torch.randn(1, dtype=torch.complex128).conj().imag
    input = number.reshape(1, 1, 1)
    assert input.is_neg()
    assert input.is_contiguous()
    for module, x in ((CoRNN(1, HIDDEN, dtype=DOUBLE), input), (CoRNNCell(1, HIDDEN, dtype=DOUBLE), input[0])):
        assert torch.equal(module(x)[0], module(x.clone())[0])


def test_cell_refuses_bad_input_in_a_sentence():
    cell = CoRNNCell(FEATURES, HIDDEN, dtype=DOUBLE)
    with pytest.raises(ValueError, match=r"input has 3 features, this layer expects 2 \(input_size=2\)"):
        cell(data(BATCH, 3))
    with pytest.raises(ValueError, match=r"input has 3 dimensions, expected \(batch, features\) or \(features\)"):
        cell(data())
    with pytest.raises(ValueError, match=r"state y has shape \(1, 3, 4\), expected \(3, 4\)"):
        cell(data(BATCH, FEATURES), (data(1, BATCH, HIDDEN), data(1, BATCH, HIDDEN)))
    with pytest.raises(ValueError, match=r"input is torch.float32, this layer's weights are torch.float64"):
        cell(data(BATCH, FEATURES, dtype=torch.float32))


def test_reverse_direction_reads_each_packed_sequence_backwards():
    layer, forwards = make(bidirectional=True), make()
    forwards.cell().load_state_dict(layer.cell(0, reverse=True).state_dict())
    sequences = [data(length, FEATURES) for length in (2, 7, 4)]
    packed, (y, z) = layer(pack_sequence(sequences, enforce_sorted=False))
    output, lengths = pad_packed_sequence(packed)
    for column, (sequence, length) in enumerate(zip(sequences, lengths, strict=True)):
        want, want_state = forwards(sequence.flip(0))
        got = output[:length, column, HIDDEN:].flip(0)
        assert_same((got, (y[1, column], z[1, column])), (want, want_state))


@pytest.mark.parametrize("bidirectional", [False, True])
def test_centred_layer_treats_data_as_the_layer_did_without_their_mean(bidirectional):
    layer, other = make(num_layers=2, bidirectional=bidirectional), make(num_layers=2, bidirectional=bidirectional)
    other.load_state_dict(layer.state_dict())
    mean = data(FEATURES)
    layer.centre_(mean)
    input = data()
    assert_same(layer(input), other(input - mean))


def test_a_mean_with_nan_does_not_reach_the_bias():
    layer = make()
    with pytest.raises(ValueError, match="mean contains NaN or infinite values"):
        layer.centre_(torch.full((FEATURES,), math.nan))
    assert all(parameter.isfinite().all() for parameter in layer.parameters())


def test_layer_without_bias_cannot_be_centred():
    with pytest.raises(ValueError, match="a layer without bias cannot be centred: use bias=True, or centre the data"):
        make(bias=False).centre_(torch.zeros(FEATURES))


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"init": "paper"}, "CoRNNCell(2, 4, dt=0.05, gamma=0.5, epsilon=4)"),
        ({}, "CoRNNCell(2, 4, dt=0.0722..0.99, gamma=0.044..1.89, epsilon=0.0192..2.82, init='scaled')"),
        ({"dt": [0.1, 0.2, 0.3, 0.4]}, "CoRNNCell(2, 4, dt=0.1..0.4, gamma=0.5, epsilon=4)"),
        (
            {"damping": "implicit", "activation": "relu", "trainable": ["gamma"], "bias": False, "init": "paper"},
            "CoRNNCell(2, 4, dt=0.05, gamma=0.5, epsilon=4, damping='implicit', activation='relu', "
            "trainable=('gamma',), bias=False)",
        ),
    ],
    ids=["paper", "default", "per-neuron", "options"],
)
def test_repr_says_what_the_layer_is(options, line):
    shown = repr(make(**options))
    assert shown.startswith("CoRNN(")
    assert line in shown


@pytest.mark.parametrize("kind", [torch.nn.LSTM, CoRNN, TanhRNN])
def test_repr_shows_the_options_of_lstm(kind):
    assert "3, 4, num_layers=2, bias=False, batch_first=True" in repr(kind(3, 4, 2, bias=False, batch_first=True))
    assert "bias" not in repr(kind(3, 4))


@pytest.mark.parametrize("features", [1, 2, 5, 28])
@pytest.mark.parametrize(
    ("init", "half_width"),
    [
        ("paper", lambda d, m: (d + 2 * m) ** -0.5),
        ("separate", lambda d, m: d**-0.5),
        ("separate-pair", lambda d, m: d**-0.5),
        ("memory", lambda d, m: 3 * (2 / d) ** 0.5),
        ("uncoupled", lambda d, m: 3 * (2 / d) ** 0.5),
        ("scaled", lambda d, m: (3 / d) ** 0.5),
    ],
)
def test_the_width_of_the_input_weights_at_the_start(init, half_width, features):
    layer = CoRNN(features, 512, init=init)
    layer.reset_parameters(generator(0, "weights"))
    weights, bound = layer.cell().weight_ih.detach(), half_width(features, 512)
    assert weights.abs().max() <= bound * (1 + 1e-6)  # a rounding of float32
    assert weights.abs().max() > 0.98 * bound
    torch.testing.assert_close(weights.std().item(), bound / 3**0.5, rtol=0.1, atol=0)


@pytest.mark.parametrize(("features", "feedback"), [(1, True), (4, True), (5, False)])
def test_feedback_at_the_start_needs_four_neurons_per_feature(features, feedback):
    layer = CoRNN(features, 16, init="memory")
    layer.reset_parameters(generator(0, "weights"))
    V, W, W_z, _ = layer.matrices()
    wanted = -0.1 * V @ torch.linalg.pinv(V) if feedback else torch.zeros_like(W)
    torch.testing.assert_close(W, wanted, rtol=1e-5, atol=1e-6)
    assert not W_z.any()


class AutocastOnGPUs(TorchFunctionMode):
    """Autocast on a CPU with some of the functions that autocast on a GPU computes in float32."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        in_float32 = func in (torch.exp, nn.functional.softplus) and torch.is_autocast_enabled("cpu")
        return result.float() if in_float32 else result


@pytest.mark.parametrize("kind", [partial(CoRNN, trainable=CONSTANTS), partial(CoRNN, dt=0.1, trainable="gamma"), HORN])
def test_constants_keep_their_type_under_autocast_on_a_gpu(kind):
    layer, input = kind(3, 5, dtype=torch.bfloat16), torch.randn(6, 2, 3, dtype=torch.bfloat16)
    state = torch.randn(2, 1, 2, 5, dtype=torch.bfloat16).unbind()
    want, _ = layer(input, state)
    cell = layer.cell()
    with torch.autocast("cpu", dtype=torch.bfloat16), AutocastOnGPUs():
        assert torch.equal(layer(input, state)[0], want)
        assert all(part.dtype == torch.bfloat16 for part in cell(input[0], tuple(part[0] for part in state)))
    assert want.dtype == torch.bfloat16
