"""HORN against its published equation, written out here once more; every backend; constants and errors."""

import jaxtyping
import pytest
import torch
from tolerances import FLOAT32, FLOAT64

from cornn import HORN, CoRNN, engine
from cornn.baselines.horn import HORNCell

TIME, BATCH, FEATURES, HIDDEN = 9, 4, 3, 6


def make(dtype=torch.float64, **options):
    layer = HORN(FEATURES, HIDDEN, dtype=dtype, **options)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    with torch.no_grad():  # alpha differs between neurons, and is large enough to be seen
        layer.cell().log_alpha += torch.linspace(1, 3, HIDDEN)
    return layer


def data(dtype=torch.float64):
    random = torch.Generator().manual_seed(1)
    input, state = (
        torch.randn(TIME, BATCH, FEATURES, generator=random),
        torch.randn(2, 1, BATCH, HIDDEN, generator=random),
    )
    return input.to(dtype), tuple(state.to(dtype))


def published(cell, input, x, y):
    """Oscillator i: its neighbours' velocities, scaled by the square root of their number, drive it through tanh."""
    V, W, b = cell.weight_ih, cell.weight_hh, cell.bias
    omega, gamma, alpha = (torch.exp(value) for value in (cell.log_omega, cell.log_gamma, cell.log_alpha))
    outputs = []
    for u in input:
        force = torch.tanh(u @ V.T + b + y @ W.T / len(W) ** 0.5)
        y = y + cell.h * (alpha * force - omega**2 * x - 2 * gamma * y)
        x = x + cell.h * y
        outputs.append(x)
    return torch.stack(outputs), (x, y)


def results(layer, run, input, state):
    """Output, last state, and the gradients of the input, the state and all parameters."""
    leaves = [input.clone().requires_grad_(), *(part.clone().requires_grad_() for part in state)]
    output, last = run(leaves[0], tuple(leaves[1:]))
    random = torch.Generator().manual_seed(2)
    terms = [(x * torch.randn(x.shape, generator=random).to(x)).sum() for x in (output, *last)]
    return [output, *last, *torch.autograd.grad(sum(terms), [*leaves, *layer.parameters()])]


@pytest.mark.parametrize("backend", ["reference", "portable", "c"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    "options", [{}, {"h": 0.5, "trainable": ("omega", "gamma", "alpha")}], ids=["fixed", "trained"]
)
def test_it_is_the_published_equation(backend, dtype, options):
    layer = make(dtype, backend=backend, **options)
    problem = engine.Problem(engine.UPDATES[HORNCell.update], torch.device("cpu"), dtype, 1, 1, 1, 1, False)
    if backend == "c" and not engine.BACKENDS["c"].usable(problem)[0]:
        pytest.skip("there is no C library")
    input, state = data(dtype)

    def plain(input, state):
        output, last = published(layer.cell(), input, state[0][0], state[1][0])
        return output, tuple(part.unsqueeze(0) for part in last)

    tolerance = FLOAT64 if dtype == torch.float64 else FLOAT32
    for got, want in zip(results(layer, layer, input, state), results(layer, plain, input, state), strict=True):
        torch.testing.assert_close(got, want, **tolerance)


def test_a_loop_over_its_cell_is_the_layer():
    layer, (input, _) = make(), data()
    state = None
    for u in input:
        state = layer.cell()(u, state)
    torch.testing.assert_close(torch.stack(state), torch.cat(layer(input)[1]), **FLOAT64)


def test_it_is_a_cornn_without_positions_in_the_coupling():
    layer, (input, _) = make(), data()
    cell = layer.cell()
    omega, gamma, alpha = cell.constants()
    same = CoRNN(
        FEATURES,
        HIDDEN,
        dt=0.5,
        gamma=omega.detach() ** 2,
        epsilon=2 * gamma.detach(),
        init="paper",
        dtype=torch.float64,
    )
    same.cell().set_matrices(
        cell.weight_ih, torch.zeros(HIDDEN, HIDDEN), cell.weight_hh * alpha / HIDDEN**0.5, cell.bias
    )
    cell.h = 0.5
    torch.testing.assert_close(layer(input)[0], same(input)[0] * alpha, **FLOAT64)


def test_timespans_are_factors_on_h():
    layer, (input, _) = make(h=0.5), data()
    cell = layer.cell()
    spans = torch.rand(TIME, generator=torch.Generator().manual_seed(3), dtype=torch.float64) + 0.5
    x = y = torch.zeros(BATCH, HIDDEN, dtype=torch.float64)
    want = []
    for u, span in zip(input, spans, strict=True):
        cell.h = 0.5 * span
        output, (x, y) = published(cell, u.unsqueeze(0), x, y)
        want.append(output)
    cell.h = 0.5
    torch.testing.assert_close(layer(input, timespans=spans)[0], torch.cat(want), **FLOAT64)


def test_constants_are_spread_between_neurons():
    omega, gamma, alpha = HORN(1, 500, omega=0.2, gamma=0.03, alpha=0.5).cell().constants()
    for values, low, high in ((omega, 0.1, 0.4), (gamma, 0.015, 0.06)):
        assert low <= values.min() < 1.1 * low
        assert 0.95 * high < values.max() <= high * (1 + 1e-6)
    torch.testing.assert_close(alpha, torch.full((500,), 0.5))
    equal = HORN(1, 5, omega=0.2, spread=1.0).cell().constants().omega
    torch.testing.assert_close(equal, torch.full((5,), 0.2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"omega": 0.0}, "omega must be above 0 and finite, got 0.0"),
        ({"alpha": -1.0}, "alpha must be above 0 and finite, got -1.0"),
        ({"spread": 0.5}, "spread must be at least 1, got 0.5"),
        ({"h": 1e300}, "diverge: .* is inf and must be below 4"),
        ({"omega": 1.2}, r"diverge: \(h \* spread \* omega\)\*\*2 .* must be below 4"),
        ({"trainable": ("h",)}, "trainable names 'h': choose any of omega, gamma, alpha"),
    ],
)
def test_wrong_constants(options, message):
    with pytest.raises(ValueError, match=message):
        HORN(2, 3, **options)


@pytest.mark.parametrize("value", [torch.ones(3), "0.1", None])
def test_constants_are_one_number_for_all_neurons(value, monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(TypeError, match="expected one number for all neurons"):
        HORN(2, 3, omega=value)


def test_on_the_edge_of_the_allowed_constants_it_stays_bounded():
    layer = HORN(1, 64, omega=0.95, gamma=0.005, spread=2.0, alpha=1.0)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    output, _ = layer(torch.randn(5000, 1, 1, generator=torch.Generator().manual_seed(1)))
    assert output.abs().max() < 1e3
