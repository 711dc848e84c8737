"""The equations against what they claim to be: eq. (3) of the paper, and the ODE that it discretises."""

import inspect

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp

from cornn import CoRNN, engine
from cornn.engine.updates import saved_activation
from cornn.functional import (
    ACTIVATIONS,
    DAMPINGS,
    Activation,
    Transition,
    advance,
    coefficients,
    step,
    step_by,
    unroll,
)

DOUBLE = torch.float64


def problem(hidden=3, batch=2, seed=0):
    random = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=random, dtype=DOUBLE) * 0.5

    return draw(batch, hidden), draw(batch, hidden), draw(batch, hidden), draw(hidden, hidden), draw(hidden, hidden)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_explicit_step_is_equation_3(activation):
    drive, y, z, W, W_z = problem()
    dt, gamma, epsilon = 0.1, 1.5, 2.0
    sigma = ACTIVATIONS[activation]
    want_z = z + dt * sigma(y @ W.T + z @ W_z.T + drive) - dt * gamma * y - dt * epsilon * z
    got_y, got_z = step(drive, y, z, W, W_z, dt, gamma, epsilon, activation=activation)
    torch.testing.assert_close(got_z, want_z)
    torch.testing.assert_close(got_y, y + dt * want_z)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_implicit_step_solves_equation_3(activation):
    """The closed form is what leaves nothing over when it is put into the implicit equation."""
    drive, y, z, W, W_z = problem()
    dt, gamma, epsilon = 0.1, 1.5, 2.0
    got_y, got_z = step(drive, y, z, W, W_z, dt, gamma, epsilon, damping="implicit", activation=activation)
    force = ACTIVATIONS[activation](y @ W.T + z @ W_z.T + drive)
    left_over = got_z - (z + dt * force - dt * gamma * y - dt * epsilon * got_z)
    torch.testing.assert_close(left_over, torch.zeros_like(left_over))
    torch.testing.assert_close(got_y, y + dt * got_z)


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize("span", [None, 0.7])
def test_a_step_is_linear_in_its_coefficients(damping, span):
    force, y, z, *_ = problem()
    dt, gamma, epsilon = 0.1, torch.tensor([0.5, 1.0, 2.0]), 2.0
    want_y, want_z = advance(force, y, z, dt * (span or 1.0), gamma, epsilon, damping=damping)
    k = coefficients(dt, gamma, epsilon, span, damping)
    torch.testing.assert_close(k.keep * z + k.push * force - k.pull * y, want_z)
    torch.testing.assert_close(y + k.dt * want_z, want_y)
    numbers = coefficients(np.float64(dt), gamma.numpy(), epsilon, span, damping)
    for one, other in zip(k, numbers, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-7)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_forms_of_an_activation_agree(name):
    sigma, x = ACTIVATIONS[name], torch.linspace(-2, 2, 20, dtype=DOUBLE, requires_grad=True)
    (slope,) = torch.autograd.grad(sigma(x).sum(), x)
    torch.testing.assert_close(sigma.slope(x).detach(), slope)
    without = Activation(sigma.value, sigma.slope)
    with torch.no_grad():
        np.testing.assert_allclose(sigma.of_array(x.numpy()), sigma(x))
        np.testing.assert_allclose(without.of_array(x.numpy()), sigma(x))
        gradient, found = torch.linspace(1, 3, 20, dtype=DOUBLE), torch.empty(20, dtype=DOUBLE)
        for one in (sigma, without):
            saved = saved_activation(one)
            kept = saved.save_(x.clone())
            torch.testing.assert_close(saved.value(kept), sigma(x))
            saved.backward_(gradient, kept, found)
            torch.testing.assert_close(found, gradient * slope)


def test_a_new_activation_is_one_entry(monkeypatch):
    monkeypatch.setitem(ACTIVATIONS, "sine", Activation(torch.sin, torch.cos))
    update = engine.updates.Oscillator("explicit", "sine")
    monkeypatch.setitem(engine.OSCILLATORS, ("explicit", "sine"), update)
    monkeypatch.setitem(engine.UPDATES, update.name, update)
    layer, input = (
        CoRNN(2, 4, activation="sine", dtype=DOUBLE),
        torch.linspace(-1, 1, 30, dtype=DOUBLE).reshape(5, 3, 2),
    )
    V, W, W_z, b = layer.matrices()
    zeros = torch.zeros(3, 4, dtype=DOUBLE)
    want, _ = unroll(input @ V.T + b, zeros, zeros, W, W_z, *layer.oscillators(), activation="sine")
    torch.testing.assert_close(layer(input)[0], want)
    assert torch.autograd.gradcheck(lambda x: layer(x)[0], input.clone().requires_grad_())
    np.testing.assert_allclose([layer.stream()(input[0, 0].numpy())], want[0, :1])
    chosen, reason = engine.choose(engine.Problem(update, input.device, DOUBLE, 1, 5, 3, 4, False))
    assert chosen == "portable"
    assert "not c: " in reason
    assert update.name in reason
    cuda = engine.BACKENDS["cuda"].usable(
        engine.Problem(update, torch.device("cuda", 0), torch.float32, 1, 5, 3, 4, False)
    )
    assert cuda == (False, "it has no kernel for the activation 'sine', only for tanh, identity, relu, duffing")


def test_duffing_is_tanh_to_third_order():
    x = torch.linspace(-0.1, 0.1, 21, dtype=DOUBLE)
    assert (ACTIVATIONS["duffing"](x) - torch.tanh(x)).abs().max() < 2 / 15 * 0.1**5 * 1.1


@pytest.mark.parametrize("damping", DAMPINGS)
def test_converges_to_the_ode_at_first_order(damping):
    _, y0, z0, W, W_z = problem(hidden=3, batch=1, seed=1)
    gamma, epsilon, horizon = 2.0, 0.7, 2.0
    amplitude = torch.tensor([0.3, -0.8, 0.5], dtype=DOUBLE)

    def drive(t):
        return amplitude * np.cos(3 * t)

    def ode(t, state):
        y, z = torch.as_tensor(state[:3]), torch.as_tensor(state[3:])
        force = torch.tanh(drive(t) + W @ y + W_z @ z) - gamma * y - epsilon * z
        return torch.cat((z, force)).numpy()

    start = torch.cat((y0[0], z0[0])).numpy()
    exact = solve_ivp(ode, (0, horizon), start, rtol=1e-11, atol=1e-12).y[:, -1]

    errors = []
    for steps in (200, 400, 800):
        dt = horizon / steps
        times = torch.arange(1, steps + 1, dtype=DOUBLE) * dt
        drives = (amplitude * torch.cos(3 * times)[:, None]).unsqueeze(1)
        _, (y, z) = unroll(drives, y0, z0, W, W_z, dt, gamma, epsilon, damping=damping)
        errors.append(np.abs(torch.cat((y[0], z[0])).numpy() - exact).max())
    orders = np.log2(np.array(errors[:-1]) / np.array(errors[1:]))
    assert (np.abs(orders - 1) < 0.1).all(), (errors, orders)


def test_a_constant_span_is_a_longer_step():
    drive, y, z, W, W_z = problem()
    drives = drive.expand(5, *drive.shape)
    spans = torch.full((5,), 1.7, dtype=DOUBLE)
    with_spans = unroll(drives, y, z, W, W_z, 0.1, 1.0, 2.0, timespans=spans)
    without = unroll(drives, y, z, W, W_z, 0.17, 1.0, 2.0)
    torch.testing.assert_close(with_spans, without)


def test_a_span_of_zero_changes_nothing():
    drive, y, z, W, W_z = problem()
    for damping in DAMPINGS:
        spans = torch.zeros(1, 2, dtype=DOUBLE)
        _, (y_n, z_n) = unroll(drive[None], y, z, W, W_z, 0.1, 1.0, 2.0, timespans=spans, damping=damping)
        assert torch.equal(y_n, y)
        assert torch.equal(z_n, z)


def test_per_neuron_constants_act_neuron_by_neuron():
    drive, y, z, _, _ = problem()
    none = torch.zeros(3, 3, dtype=DOUBLE)
    dt, gamma, epsilon = torch.rand(3, 3, dtype=DOUBLE, generator=torch.Generator().manual_seed(2))
    whole = step(drive, y, z, none, none, dt, gamma, epsilon)
    for i in range(3):
        one = slice(i, i + 1)
        alone = step(
            drive[:, one], y[:, one], z[:, one], none[:1, :1], none[:1, :1], dt[i].item(), gamma[i].item(), epsilon[i]
        )
        torch.testing.assert_close((whole[0][:, one], whole[1][:, one]), alone)


def test_differentiable_twice():
    drive, y, z, W, W_z = (x.requires_grad_() for x in problem(hidden=2, batch=1))
    constants = [torch.tensor(value, dtype=DOUBLE, requires_grad=True) for value in (0.2, 0.9, 1.1)]

    def f(drive, *rest):
        return unroll(drive.expand(3, *drive.shape), *rest)[0]

    assert torch.autograd.gradgradcheck(f, (drive, y, z, W, W_z, *constants))


def test_unknown_activation_is_named():
    one = torch.ones(1, 1)
    with pytest.raises(ValueError, match="unknown activation 'sigmoid': choose one of tanh"):
        step(one, one, one, one, one, 0.1, 1.0, 1.0, activation="sigmoid")
    with pytest.raises(ValueError, match="unknown activation 'sigmoid': choose one of tanh"):
        step_by(Transition(*[one] * 6), one, one, one, one, one, activation="sigmoid")


def test_unknown_damping_is_named():
    with pytest.raises(ValueError, match="unknown damping 'none': choose one of explicit, implicit"):
        step(*problem(), 0.1, 1.0, 1.0, damping="none")


def test_backward_cost_grows_with_length_not_its_square():
    """The graph has a fixed number of nodes a step, and none of them is as long as the sequence."""
    drive, y, z, W, W_z = problem()

    def saved(steps):
        sizes = []
        drives = drive.expand(steps, *drive.shape).clone().requires_grad_()
        with torch.autograd.graph.saved_tensors_hooks(lambda x: sizes.append(x.numel()) or x, lambda x: x):
            unroll(drives, y, z, W, W_z, 0.1, 1.0, 1.0)
        return sum(sizes)

    assert saved(80) < 2.2 * saved(40)


def test_unroll_names_wrong_numbers_of_steps():
    drive, y, W = torch.zeros(3, 2, 4), torch.zeros(2, 4), torch.zeros(4, 4)
    constants = {"dt": 0.1, "gamma": 1.0, "epsilon": 1.0}
    plain = inspect.unwrap(unroll)  # without the checks of shapes that only the tests have
    with pytest.raises(ValueError, match="timespans has 2 steps, drive has 3: pass one factor per step"):
        plain(drive, y, y, W, W, **constants, timespans=torch.ones(2))
    with pytest.raises(ValueError, match="drive has no steps: pass at least one"):
        plain(drive[:0], y, y, W, W, **constants)
