"""The default of `CoRNN`: its constants, the scales of its weights, its interface, and uneven times."""

import copy
import math
import pickle
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from engine_calls import assert_same_gradients, problem
from hypothesis import given, settings
from safetensors.torch import load_file
from tolerances import FLOAT32, FLOAT64
from torch import nn

from cornn import CoRNN, CoRNNCell, _scaling, cells, engine, functional, theory
from cornn._constants import Oscillators
from cornn._scaling import impulse_norms, spread_time_scales, weight_scales
from cornn._spectra import compute_spectrum
from cornn.engine.backends import c
from cornn.functional import ACTIVATIONS, DAMPINGS
from cornn.layers import INITS

CPU, DOUBLE = torch.device("cpu"), torch.float64
SAVED = Path(__file__).parent / "fixtures" / "0.1.0"
ROUNDED = {"rtol": 1e-3, "atol": 1e-5}  # constants in float32: 6e-8 of 1, where an eigenvalue of 1e-3 is left
SIMULATION = {"rtol": 1e-6, "atol": 1e-9}  # what is left of an impulse after 30 half-lives


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def respond(force, constants, damping):
    """Return y and z of uncoupled neurons after every step, for a force of shape (time, hidden)."""
    y = z = torch.zeros_like(force[0])
    nothing = torch.zeros(len(y), len(y), dtype=DOUBLE)
    states = []
    for f in force:
        y, z = functional.step(f, y, z, nothing, nothing, *constants, damping=damping, activation="identity")
        states.append(torch.stack((y, z)))
    return torch.stack(states, 1)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_closed_forms_agree_with_a_simulation(damping, monkeypatch):
    monkeypatch.setattr(_scaling, "SLOW_HALF_LIVES", (8.0, 50.0))  # of which nothing is left at the end
    monkeypatch.setattr(_scaling, "RINGING_HALF_LIFE", 12.5)
    constants = spread_time_scales(12, damping)
    force = torch.zeros(1_500, 12, dtype=DOUBLE)
    force[0] = 1.0
    y, z = respond(force, constants, damping)
    norms = impulse_norms(constants, damping)
    torch.testing.assert_close(norms.white_y, y.norm(dim=0), **SIMULATION)
    torch.testing.assert_close(norms.white_z, z.norm(dim=0), **SIMULATION)
    torch.testing.assert_close(norms.constant, y.sum(0), **SIMULATION)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_the_gain_of_a_constant_is_one_over_gamma(damping):
    constants = spread_time_scales(64, damping)
    torch.testing.assert_close(impulse_norms(constants, damping).constant, 1 / constants.gamma, rtol=0.25, atol=0)


@settings(deadline=None, max_examples=100)
@given(
    dt=st.floats(1e-4, 0.999),
    gamma=st.one_of(st.just(0.0), st.floats(1e-9, 1e6)),
    epsilon=st.one_of(st.just(0.0), st.floats(1e-9, 1e6)),
    damping=st.sampled_from(DAMPINGS),
    hidden=st.sampled_from([1, 3]),
)
def test_scales_are_finite_and_positive_for_any_constants(dt, gamma, epsilon, damping, hidden):
    constants = Oscillators(*(torch.tensor(value, dtype=DOUBLE) for value in (dt, gamma, epsilon)))
    for scale in weight_scales(constants, damping, hidden):
        assert scale.isfinite().all()
        assert (scale > 0).all()


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize("hidden", [1, 2, 3, 4, 5, 7, 16, 128, 300])
def test_default_neurons_are_stable_and_of_one_size(hidden, damping):
    constants = spread_time_scales(hidden, damping)
    assert all(value.shape == (hidden,) for value in constants)
    span = torch.tensor([1.0], dtype=DOUBLE)
    by = functional.transition(*constants, span, damping=damping)
    M = torch.stack((torch.stack((by.yy, by.yz), -1), torch.stack((by.zy, by.zz), -1)), -2)
    assert (torch.linalg.eigvals(M).abs() < 1).all()
    size = impulse_norms(constants, damping).white_y
    assert (size <= 1 + 1e-9).all()
    assert (size > 0.4).all()  # implicit damping keeps the fastest neurons below 1, since dt < 1


@pytest.mark.parametrize("bidirectional", [False, True])
@pytest.mark.parametrize("steps", [100, 1000])
def test_the_state_starts_at_a_reasonable_size(bidirectional, steps):
    """The RMS over each of four layers, for white input; docs/default.md has other inputs and lengths."""
    layer = CoRNN(3, 48, 4, bidirectional=bidirectional)
    with torch.no_grad():
        _, (y, _) = layer(torch.randn(steps, 4, 3))
    sizes = y.square().mean((1, 2)).sqrt()
    assert (sizes > 0.1).all()
    assert (sizes < 10).all()


def test_what_chooses_the_default_and_what_the_paper_s_layer():
    assert CoRNN(3, 5).cell().init == "scaled"
    assert CoRNN(3, 5).cell().default_constants
    assert CoRNNCell(3, 5).init == "scaled"
    for options in ({"dt": 0.1}, {"gamma": 1.0}, {"epsilon": 2.0}, *({"init": init} for init in INITS)):
        cell = CoRNN(3, 5, **options).cell()
        assert cell.init in INITS
        assert not cell.default_constants
        assert cell.scale_ih is None
        usual = {"dt": 0.05, "gamma": 0.5, "epsilon": 4.0} | {
            key: value for key, value in options.items() if key in "dtgammaepsilon"
        }
        assert {name: value.item() for name, value in cell.oscillators()._asdict().items()} == pytest.approx(usual)
    given = CoRNN(3, 5, dt=0.1, init="scaled").cell()
    assert given.scale_ih is not None
    assert not given.default_constants


def test_the_scales_are_saved_and_do_not_follow_trained_constants():
    layer = CoRNN(3, 5, trainable=("gamma",))
    names = {f"cells.l0.{name}" for name in ("scale_ih", "scale_hh", "scale_bias")}
    assert names <= layer.state_dict().keys()
    before = {name: layer.state_dict()[name].clone() for name in names}
    with torch.no_grad():
        layer.cell().free_gamma += 1.0
    other = CoRNN(3, 5, trainable=("gamma",))
    for scale in (other.cell().scale_ih, other.cell().scale_hh, other.cell().scale_bias):
        scale.fill_(7.0)
    other.load_state_dict(layer.state_dict())
    for name, value in before.items():
        assert torch.equal(other.state_dict()[name], value)
    input = torch.randn(6, 2, 3)
    assert torch.equal(layer(input)[0], other(input)[0])


@pytest.mark.parametrize("assign", [False, True], ids=["copied", "assigned"])
def test_a_state_dict_of_version_0_1_0_makes_the_default_layer_the_paper_s(assign):
    weights = load_file(SAVED / "layers.safetensors")
    old = {key.split("/")[1]: value for key, value in weights.items() if key.startswith("default/")}
    layer, paper = CoRNN(3, 5), CoRNN(3, 5, init="paper")
    layer.load_state_dict(dict(old), assign=assign)
    paper.load_state_dict(dict(old))
    input, spans = torch.randn(6, 2, 3), torch.rand(6)
    assert torch.equal(layer(input)[0], paper(input)[0])
    assert torch.equal(layer(input, timespans=spans)[0], paper(input, timespans=spans)[0])
    assert not any("scale" in name for name in layer.state_dict())
    layer.reset_parameters()  # writes to the constants in place


@pytest.mark.parametrize(("sizes", "bias"), [((2, 5), True), ((3, 4), True), ((3, 5), False)])
def test_a_state_dict_of_version_0_1_0_that_does_not_fit_leaves_the_kind_of_the_layer(sizes, bias):
    weights = load_file(SAVED / "layers.safetensors")
    old = {key.split("/")[1]: value for key, value in weights.items() if key.startswith("default/")}
    if not bias:
        del old["cells.l0.bias"]
    layer = CoRNN(*sizes)
    before = repr(layer)
    with pytest.raises(RuntimeError, match=r"size mismatch|Missing key"):
        layer.load_state_dict(old)
    assert repr(layer) == before
    assert layer.cell().scale_ih is not None


def test_a_state_dict_of_version_0_1_0_is_loaded_into_a_scaled_layer_of_given_constants():
    weights = load_file(SAVED / "layers.safetensors")
    old = {key.split("/")[1]: value for key, value in weights.items() if key.startswith("default/")}
    layer, paper = CoRNN(3, 5, dt=0.1, init="scaled"), CoRNN(3, 5, init="paper")
    layer.load_state_dict(dict(old))
    paper.load_state_dict(dict(old))
    input = torch.randn(6, 2, 3)
    assert torch.equal(layer(input)[0], paper(input)[0])


def test_loading_the_parameters_alone_keeps_the_scales():
    layer, other = CoRNN(3, 5), CoRNN(3, 5)
    other.load_state_dict(dict(layer.named_parameters()), strict=False)
    assert other.cell().scale_ih is not None
    input = torch.randn(6, 2, 3)
    assert torch.equal(layer(input)[0], other(input)[0])


@pytest.mark.parametrize("default", [True, False], ids=["from constants of its own", "from the default"])
def test_weights_of_a_layer_whose_timespans_have_another_unit_are_not_loaded(default):
    constants = {"dt": 0.1, "init": "scaled", "per_neuron": True}
    layer, other = (CoRNN(3, 5), CoRNN(3, 5, **constants)) if default else (CoRNN(3, 5, **constants), CoRNN(3, 5))
    with pytest.raises(RuntimeError, match=r"weight_hh is from a layer with .*: pass the same arguments to both"):
        layer.load_state_dict(other.state_dict())
    layer.load_state_dict(copy.deepcopy(layer).state_dict())
    layer.load_state_dict(dict(other.state_dict()))  # as from a file without metadata


def test_hx_is_another_name_of_state():
    layer, input = CoRNN(3, 5), torch.randn(6, 2, 3)
    state = torch.randn(1, 2, 5), torch.randn(1, 2, 5)
    assert torch.equal(layer(input, state)[0], layer(input, hx=state)[0])
    with pytest.raises(ValueError, match="state and hx are two names of one argument: give one of them"):
        layer(input, state, hx=state)
    cell, state = CoRNNCell(3, 5), tuple(part[0] for part in state)
    assert torch.equal(cell(input[0], state)[0], cell(input[0], hx=state)[0])
    with pytest.raises(ValueError, match="state and hx are two names of one argument: give one of them"):
        cell(input[0], state, hx=state)


def test_all_weights_and_proj_size_are_those_of_an_lstm():
    layer, lstm = CoRNN(3, 5, 2, bidirectional=True), nn.LSTM(3, 5, 2, bidirectional=True)
    assert layer.proj_size == lstm.proj_size
    assert len(layer.all_weights) == len(lstm.all_weights)
    assert [id(weight) for group in layer.all_weights for weight in group] == [id(p) for p in layer.parameters()]


@pytest.mark.filterwarnings("ignore")  # tracing is deprecated, and warns of every size that it records
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}, {"init": "paper"}])
def test_tracing_passes_its_own_check(options):
    layer, input = CoRNN(3, 5, **options), torch.randn(6, 2, 3)
    traced = torch.jit.trace(layer, input)
    torch.testing.assert_close(traced(input)[0], layer(input)[0], **FLOAT32)
    traced(input)[0].sum().backward()
    assert layer.cell().weight_hh.grad.any()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_types(dtype):
    layer, input = CoRNN(3, 5).to(dtype), torch.randn(6, 2, 3, dtype=dtype)
    output = layer(input)[0]
    assert output.dtype == dtype
    assert output.isfinite().all()


def test_autocast_leaves_the_recurrence_exact():
    layer, input = CoRNN(3, 5), torch.randn(6, 2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(layer(input)[0], layer(input)[0].float())
        torch.testing.assert_close(layer(input)[0], layer(input)[0], **FLOAT32)
        cast = layer(input)[0]
    torch.testing.assert_close(cast, layer(input)[0], **FLOAT32)


@pytest.mark.parametrize("backend", ["c", "portable", "reference"])
def test_the_velocity_of_neurons_that_forget_at_once_is_accurate_in_float32(backend):
    layer, exact = CoRNN(2, 3, backend=backend), CoRNN(2, 3, backend=backend).double()
    exact.load_state_dict(layer.state_dict())
    input, spans = torch.randn(1, 50, 2), torch.rand(1, 50) + 0.5
    _, (y, z) = layer(input, timespans=spans)
    _, expected = exact(input.double(), timespans=spans.double())
    torch.testing.assert_close((y.double(), z.double()), expected, **FLOAT32)


@pytest.mark.parametrize("backend", ["c", "portable", "reference"])
def test_short_spans_do_not_depend_on_the_type_in_which_a_layer_was_created(backend):
    layer, exact = CoRNN(2, 8, backend=backend), CoRNN(2, 8, dtype=DOUBLE, backend=backend)
    exact.set_matrices(**layer.matrices()._asdict())
    input, spans = torch.randn(50, 1, 2), torch.rand(50, 1) ** 4  # most are far below one step
    _, expected = exact(input.double(), timespans=spans.double())
    for one in (layer, layer.double()):
        _, (y, z) = one(input.to(one.cell().bias), timespans=spans.to(one.cell().bias))
        torch.testing.assert_close((y.double(), z.double()), expected, **ROUNDED)
        assert not one.cell()._spectrum()[4].any()  # no eigenvalue is negative


def test_short_spans_give_the_trained_constants_gradients_without_noise():
    gradients, matrices = [], CoRNN(2, 8).matrices()._asdict()
    for dtype in (torch.float32, DOUBLE):
        layer = CoRNN(2, 8, trainable="epsilon", dtype=dtype)
        layer.set_matrices(**matrices)
        layer(torch.ones(5, 1, 2, dtype=dtype), timespans=torch.full((5,), 0.1))[1][1].square().sum().backward()
        gradients.append(layer.cell().free_epsilon.grad.double())
    torch.testing.assert_close(*gradients, **ROUNDED)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_a_span_of_whole_steps_is_that_many_steps_with_the_force_held(damping):
    constants = spread_time_scales(24, damping)
    y, z, force = torch.randn(3, 7, 24, dtype=DOUBLE)
    nothing = torch.zeros(24, 24, dtype=DOUBLE)
    for span in (0, 1, 2, 10):
        by = functional.transition(*constants, torch.full((7, 1), span, dtype=DOUBLE), damping=damping)
        want = y, z
        for _ in range(span):
            want = functional.step(force, *want, nothing, nothing, *constants, damping=damping)
        torch.testing.assert_close(functional.step_by(by, force, y, z, nothing, nothing), want, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_two_spans_are_one_of_their_sum(damping):
    constants = spread_time_scales(24, damping)
    y, z, force = torch.randn(3, 7, 24, dtype=DOUBLE)
    nothing = torch.zeros(24, 24, dtype=DOUBLE)

    def after(state, span):
        by = functional.transition(*constants, torch.full((7, 1), span, dtype=DOUBLE), damping=damping)
        return functional.step_by(by, force, *state, nothing, nothing)

    torch.testing.assert_close(after(after((y, z), 0.3), 2.5), after((y, z), 2.8), rtol=1e-9, atol=1e-9)


def test_spans_of_one_are_plain_steps():
    layer, input = CoRNN(3, 16, 2, dtype=DOUBLE), torch.randn(50, 2, 3, dtype=DOUBLE)
    torch.testing.assert_close(layer(input, timespans=torch.ones(50))[0], layer(input)[0], rtol=1e-9, atol=1e-9)


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**20),
    damping=st.sampled_from(DAMPINGS),
    kind=st.sampled_from(["uniform", "constant", "two"]),
    longest=st.floats(0, 10),
    weights=st.sampled_from([0.0, 1.0, 10.0]),
    constants_moved=st.booleans(),
    hidden=st.sampled_from([1, 2, 5, 12]),
)
def test_any_timespans_keep_the_default_layer_finite(seed, damping, kind, longest, weights, constants_moved, hidden):
    """|y| <= sum of |r|: the force is at most 1, and every span is a contraction in the eigenvectors of one step."""
    random = torch.Generator().manual_seed(seed)
    layer = CoRNN(2, hidden, damping=damping, trainable=("gamma", "epsilon") if constants_moved else ())
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += weights * torch.randn(parameter.shape, generator=random) * (parameter.dim() == 2)
        if constants_moved:  # a tenth: far more than training moves them, and stable
            for parameter in (layer.cell().free_gamma, layer.cell().free_epsilon):
                parameter += 0.1 * torch.rand(parameter.shape, generator=random)
        steps = 300
        spans = {
            "uniform": longest * torch.rand(steps, generator=random),
            "constant": torch.full((steps,), longest),
            "two": torch.where(torch.rand(steps, generator=random) < 0.5, longest, 0.1),
        }[kind]
        output, (_, z) = layer(torch.randn(steps, 2, 2, generator=random), timespans=spans)
    assert output.isfinite().all()
    assert output.abs().max() < 1e4
    assert z.abs().max() < 1e4


def test_timespans_of_the_default_layer_have_gradients():
    layer = CoRNN(2, 6, dtype=DOUBLE)
    input = torch.randn(5, 2, 2, dtype=DOUBLE, requires_grad=True)
    spans = (torch.rand(5, 2, dtype=DOUBLE) * 3 + 0.1).requires_grad_()
    assert torch.autograd.gradcheck(lambda x, s: layer(x, timespans=s)[0], (input, spans))


def test_the_cell_and_a_stream_take_the_same_spans():
    layer, cell = CoRNN(2, 6, dtype=DOUBLE), CoRNNCell(2, 6, dtype=DOUBLE)
    cell.load_state_dict(layer.cell().state_dict())
    stream, state = layer.stream(), None
    input, spans = torch.randn(8, 2, dtype=DOUBLE), 4 * torch.rand(8, dtype=DOUBLE)
    output, _ = layer(input, timespans=spans)
    for number, (sample, span) in enumerate(zip(input, spans, strict=True)):
        state = cell(sample, state, timespans=span)
        torch.testing.assert_close(state[0], output[number], **FLOAT64)
        torch.testing.assert_close(torch.from_numpy(stream(sample.numpy(), span.item())), output[number], **FLOAT64)


@pytest.mark.parametrize("backend", ["portable", "c", "auto"])
@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize("ragged", [False, True])
def test_every_backend_computes_uneven_times(backend, damping, ragged):
    if backend == "c" and not c.usable(problem("cornn/spans/tanh", CPU, DOUBLE, 1, 9, 3, 13, True))[0]:
        pytest.skip("no C library")
    layers = [CoRNN(2, 13, damping=damping, dtype=DOUBLE, backend=name) for name in (backend, "reference")]
    torch.nn.init.normal_(layers[0].cell().weight_hh)
    layers[1].load_state_dict(layers[0].state_dict())
    input, spans = torch.randn(9, 3, 2, dtype=DOUBLE), 10 * torch.rand(9, 3, dtype=DOUBLE) * (torch.rand(9, 3) > 0.2)
    lengths, found = torch.tensor([4, 9, 7]) if ragged else None, []
    for layer in layers:
        x, s = input.clone().requires_grad_(), spans.clone().requires_grad_()
        y, z = layer.last_state(x, timespans=s, lengths=lengths)
        found.append((y, z, *torch.autograd.grad((y * z).sum(), (x, s, *layer.parameters()))))
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)


def test_the_spectrum_follows_the_constants():
    layer, other = CoRNN(2, 6), CoRNN(2, 6, damping="explicit")
    input, spans = torch.randn(5, 3, 2), 3 * torch.rand(5, 3)
    before, _ = layer(input, timespans=spans)
    assert layer.cell()._spectrum() is layer.cell()._spectrum()
    with torch.no_grad():
        layer.cell().gamma.mul_(0.5)
    other.load_state_dict(layer.state_dict())
    after, _ = layer(input, timespans=spans)
    assert not torch.equal(after, before)
    for same in (other, copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(same(input, timespans=spans)[0], after, rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(layer(input, timespans=spans)[0], after, rtol=0, atol=0)
    for factor in (0.5, 2.0, 4.0):  # other tensors, perhaps at the address of those before
        swapped = {"cells.l0.gamma": layer.cell().gamma * factor}
        got, _ = torch.func.functional_call(layer, swapped, (input,), {"timespans": spans})
        other.cell().gamma.copy_(swapped["cells.l0.gamma"])
        torch.testing.assert_close(got, other(input, timespans=spans)[0], rtol=0, atol=0)
    torch.testing.assert_close(layer.double()(input.double(), timespans=spans.double())[0].float(), after, **FLOAT32)


def test_checkpoints_keep_the_spectrum(monkeypatch):
    computed = []
    monkeypatch.setattr(cells, "compute_spectrum", lambda *given: computed.append(given) or compute_spectrum(*given))
    layer = CoRNN(2, 6, checkpoint_every=2)
    for _ in range(2):
        layer(torch.randn(5, 3, 2), timespans=torch.ones(5, 3))[0].sum().backward()
    assert len(computed) == 1


def test_trained_constants_learn_from_uneven_times():
    layers = [CoRNN(2, 6, trainable="epsilon", dtype=DOUBLE, backend=name) for name in ("auto", "reference")]
    layers[1].load_state_dict(layers[0].state_dict())
    input, spans = torch.randn(5, 3, 2, dtype=DOUBLE), 3 * torch.rand(5, dtype=DOUBLE)
    for layer in layers:
        layer(input, timespans=spans)[0].square().sum().backward()
    got, want = (layer.cell().free_epsilon.grad for layer in layers)
    torch.testing.assert_close(got, want, **FLOAT64)
    with pytest.raises(RuntimeError, match="cannot train the constants of a layer with timespans in steps"):
        CoRNN(2, 6, trainable="epsilon", backend="c")(torch.randn(5, 1, 2), timespans=torch.ones(5))


@pytest.mark.parametrize("how", ["operator", "vmap", "torch.func", "second order"])
def test_trained_constants_learn_from_uneven_times_in_every_mode(how, monkeypatch):
    layer, input = CoRNN(2, 6, trainable=("dt", "epsilon"), dtype=DOUBLE), torch.randn(5, 3, 2, dtype=DOUBLE)
    spans, parameters = 3 * torch.rand(5, 3, dtype=DOUBLE), dict(layer.named_parameters())

    def loss(given):
        return torch.func.functional_call(layer, given, (input,), {"timespans": spans})[0].square().sum()

    leaves, again = list(parameters.values()), how == "second order"
    layer.backend = "reference"
    want = torch.autograd.grad(loss(parameters), leaves, create_graph=again)
    layer.backend = "auto"
    if how == "torch.func":
        got = torch.func.grad(loss)({name: value.detach() for name, value in parameters.items()}).values()
    else:
        if how == "operator":
            monkeypatch.setattr(engine, "is_eager", lambda tensors: False)
        stacked = {name: value.unsqueeze(0) for name, value in parameters.items()}
        value = torch.vmap(loss)(stacked).sum() if how == "vmap" else loss(parameters)
        got = torch.autograd.grad(value, leaves, create_graph=again)
    assert_same_gradients(got, want, leaves, again)


@pytest.mark.parametrize("options", [{}, {"trainable": "epsilon"}])
def test_a_layer_that_was_exported_without_gradients_can_be_trained(options):
    layer, input = CoRNN(2, 6, dtype=DOUBLE, **options), torch.randn(5, 3, 2, dtype=DOUBLE)
    spans = {"timespans": 3 * torch.rand(5, 3, dtype=DOUBLE)}
    with torch.no_grad():
        exported = torch.export.export(layer, (input,), spans).module()
    found = [
        torch.autograd.grad(one(input, **spans)[0].square().sum(), list(one.parameters())) for one in (exported, layer)
    ]
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)


def test_padding_leaves_the_state_with_uneven_times_too():
    layer, input, spans = (
        CoRNN(2, 6, dtype=DOUBLE),
        torch.randn(5, 2, 2, dtype=DOUBLE),
        3 * torch.rand(5, 2, dtype=DOUBLE),
    )
    y, _ = layer.last_state(input, timespans=spans, lengths=torch.tensor([3, 5]))
    alone, _ = layer.last_state(input[:3, :1], timespans=spans[:3, :1])
    torch.testing.assert_close(y[:, :1], alone, **FLOAT64)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_runs(activation):
    layer = CoRNN(3, 5, activation=activation)
    output, _ = layer(0.1 * torch.randn(20, 2, 3))
    output.square().sum().backward()
    assert all(math.isfinite(parameter.grad.norm()) for parameter in layer.parameters())


def test_the_scales_are_computed_once(monkeypatch):
    calls = []
    compute = _scaling.weight_scales
    monkeypatch.setattr(_scaling, "weight_scales", lambda *given: calls.append(given) or compute(*given))
    CoRNN(3, 5)
    assert len(calls) == 1


def test_the_transitions_of_a_sequence_are_computed_at_once(monkeypatch):
    layer, input = CoRNN(3, 5), torch.randn(40, 2, 3)
    timespans = 10 * torch.rand(40, 2)
    calls = []
    compute = functional.decay
    monkeypatch.setattr(functional, "decay", lambda *given: calls.append(given) or compute(*given))
    output, _ = CoRNN(3, 5, backend="reference")(input, timespans=timespans)
    assert len(calls) == 1
    output, _ = layer(input, timespans=timespans)
    cell, state = layer.cell(), None
    for n in range(40):
        state = cell(input[n], state, timespans=timespans[n])
        torch.testing.assert_close(output[n], state[0], **FLOAT32)


@pytest.mark.parametrize("hidden", [16, 128, 512])
@pytest.mark.parametrize("damping", DAMPINGS)
def test_the_scales_are_those_of_the_table_in_the_docs(hidden, damping):
    """docs/default.md: V by s = min(1 / |r|, 3), b by min(s, gain), W by 0.15 sqrt(128 / m) s over the column's RMS."""
    random = torch.Generator().manual_seed(0)
    dt, gamma, epsilon = (0.05 + 0.9 * torch.rand(3, hidden, generator=random, dtype=DOUBLE)).unbind(0)
    constants = Oscillators(dt, gamma, epsilon)
    white_y, white_z, constant = impulse_norms(constants, damping)
    found = weight_scales(constants, damping, hidden)
    s = torch.minimum(1 / white_y, torch.tensor(3.0, dtype=DOUBLE))
    assert ((s == 3) == (white_y < 1 / 3)).all()
    torch.testing.assert_close(found.scale_ih, s.unsqueeze(1), **FLOAT64)
    torch.testing.assert_close(found.scale_bias, torch.minimum(s, 1 / constant), **FLOAT64)
    rows = 0.15 * math.sqrt(128 / hidden) * s
    columns = torch.cat((s * white_y, s * white_z)).clamp(min=0.02)
    torch.testing.assert_close(found.scale_hh, rows.unsqueeze(1) / columns, **FLOAT64)


def test_default_neurons_have_the_time_scales_of_the_table_in_the_docs():
    """docs/default.md: half from 0.1 to 4 steps, a quarter from 8 to 4,000 steps, a quarter with periods 4 to 1,000."""
    constants = spread_time_scales(64, "explicit")
    half_lives, periods = theory.half_life(*constants), theory.period(*constants)
    assert periods[:48].isinf().all()
    for part, ends in (
        (half_lives[:32], [0.1, 4]),
        (half_lives[32:48], [8, 4000]),
        (periods[48:], [4, 1000]),
        (half_lives[48:], [1000, 1000]),
    ):
        assert part[[0, -1]].tolist() == pytest.approx(ends, rel=1e-6)
        assert (part.log().diff(n=2).abs() < 1e-6).all()  # equal ratios
