"""What is measured agrees with autograd and with the layer itself."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from theory_cases import DAMPINGS, inputs, networks
from tolerances import FINITE_DIFFERENCES, FLOAT64

from cornn import CoRNN
from cornn.functional import ACTIVATIONS, step, unroll
from cornn.theory import measure, network, network_from_layer, ode, representation, watch

SOMETIMES = settings(max_examples=15, deadline=None, derandomize=True)


def a_network(damping="explicit", activation="tanh", m=5, seed=0):
    random = torch.Generator().manual_seed(seed)
    W, W_z = torch.randn(2, m, m, generator=random, dtype=torch.float64)
    V, b = torch.randn(m, 2, generator=random), torch.randn(m, generator=random)
    gamma = torch.rand(m, generator=random) + 0.5
    return network(W, W_z, 0.1, gamma, 1.0, V=V, b=b, damping=damping, activation=activation)


def an_input(steps=12, batch=2, seed=1):
    return torch.randn(steps, batch, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def take_step(one, input, state):
    """One step as a function of the whole state (y, z), for autograd."""
    m = one.hidden_size
    drive = input @ one.V.T + one.b
    parts = (drive, state[..., :m], state[..., m:], one.W, one.W_z, one.dt, one.gamma, one.epsilon)
    return torch.cat(step(*parts, damping=one.damping, activation=one.activation), -1)


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize("options", [{}, {"num_layers": 2, "bidirectional": True}])
def test_follow_is_the_layer(damping, options):
    layer = CoRNN(2, 6, dt=0.2, gamma=[0.1 * n for n in range(1, 7)], damping=damping, dtype=torch.float64, **options)
    input = an_input()
    found = measure.simulate(network_from_layer(layer), input)
    output, (_, z) = layer(input)
    if not options:
        torch.testing.assert_close(found.y[1:], output.detach(), **FLOAT64)
        torch.testing.assert_close(found.z[-1], z[0].detach(), **FLOAT64)
    again = measure.simulate(network_from_layer(layer.cell()), input)
    torch.testing.assert_close(again.y, found.y)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("damping", DAMPINGS)
def test_jacobian_is_autograds(damping, activation):
    one, input = a_network(damping, activation), an_input()
    found = measure.simulate(one, input)
    state = torch.cat((found.y[3], found.z[3]), -1)[0]
    want = torch.autograd.functional.jacobian(lambda state: take_step(one, input[3, 0], state), state)
    torch.testing.assert_close(measure.jacobian(one, found.slopes[3])[0], want, **FLOAT64)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_products_and_singular_values_are_autograds(damping):
    one, input = a_network(damping), an_input()
    found = measure.simulate(one, input)
    weights = torch.cat((torch.sqrt(one.gamma), torch.ones(5, dtype=torch.float64)))
    lags, logs = measure.product_norms(one, found)
    _, energies = measure.product_norms(one, found, norm="energy", every=4)
    few, euclid = measure.product_norms(one, found, norm="euclid", every=4)
    assert few.tolist() == [0, 4, 8, 12]
    for lag in (1, 8, 12):

        def last(state, lag=lag):
            for now in input[12 - lag :, 1]:
                state = take_step(one, now, state)
            return state

        start = torch.cat((found.y[12 - lag], found.z[12 - lag]), -1)[1]
        want = torch.autograd.functional.jacobian(last, start)
        assert lags[lag] == lag
        assert math.exp(logs[lag, 1]) == pytest.approx(want.abs().sum(1).max().item(), rel=1e-9)
        values = measure.singular_values(one, found, lag)[1]
        torch.testing.assert_close(values, torch.linalg.svdvals(want), **FLOAT64)
        if lag != 1:
            assert math.exp(euclid[lag // 4, 1]) == pytest.approx(values[0].item(), rel=1e-9)
            scaled = torch.linalg.matrix_norm(weights[:, None] * want / weights, 2).item()
            assert math.exp(energies[lag // 4, 1]) == pytest.approx(scaled, rel=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "identity"])
@pytest.mark.parametrize("damping", DAMPINGS)
def test_norms_of_a_step_are_those_of_its_jacobian(damping, activation):
    one = a_network(damping, activation)
    slopes = measure.simulate(one, an_input()).slopes - 0.5  # some are negative
    want = measure.jacobian(one, slopes).abs().sum(-1).amax(-1)
    torch.testing.assert_close(measure.jacobian_norms(one, slopes), want, **FLOAT64)


def test_several_norms_come_from_one_pass_that_reports_its_progress():
    one, shares = a_network("explicit"), []
    found = measure.simulate(one, an_input())
    lags, logs = measure.product_norms_of(one, found, every=3, watch=shares.append)
    assert shares == [0.25, 0.5, 0.75, 1.0]
    for norm, own in logs.items():
        alone = measure.product_norms(one, found, norm=norm, every=3)
        assert torch.equal(alone[0], lags)
        assert torch.equal(alone[1], own)


@pytest.mark.parametrize("scale", [1e40, 1e200])
def test_products_do_not_overflow(scale):
    one = network(torch.zeros(1, 1), torch.full((1, 1), scale, dtype=torch.float64), 0.1, 0.0, 10.0)
    steps = measure.simulate(one, torch.zeros(20, 1, 1))
    _, logs = measure.product_norms(one, steps, every=20)
    assert logs[-1].item() == pytest.approx(20 * math.log(0.1 * scale), rel=1e-12)


def test_products_do_not_underflow():
    one = network(torch.zeros(1, 1), torch.zeros(1, 1), 0.1, 25.0, 10.0, V=torch.ones(1, 2))
    _, logs = measure.product_norms(one, measure.simulate(one, torch.zeros(3000, 1, 2)))
    assert logs[-1].item() < -800
    with pytest.raises(ValueError, match="unknown norm 'l1'"):
        measure.product_norms(one, measure.simulate(one, torch.zeros(3, 1, 2)), norm="l1")


def losses(one, input, target, parameters, only_last):
    """The paper's loss of each sequence by the reference, differentiable in V, W, W_z and b."""
    V, W, W_z, b = parameters
    zeros = torch.zeros(input.shape[1], one.hidden_size, dtype=torch.float64)
    ys, _ = unroll(input @ V.T + b, zeros, zeros, W, W_z, one.dt, one.gamma, one.epsilon, damping=one.damping)
    each = ((ys - target) ** 2).sum(-1) / 2
    return each[-1] if only_last else each.mean(0)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_gradients_are_autograds(damping):
    one, input, target = a_network(damping), an_input(), 0.3
    found = measure.simulate(one, input)
    parameters = [value.clone().requires_grad_() for value in (one.V, one.W, one.W_z, one.b)]
    ours = measure.loss_gradient(one, found, target)
    for sequence in range(2):
        loss = losses(one, input, target, parameters, only_last=False)[sequence]
        for name, want in zip(("V", "W", "W_z", "b"), torch.autograd.grad(loss, parameters), strict=True):
            torch.testing.assert_close(ours[name][sequence], want, **FLOAT64)


def test_gradient_by_lag_is_autograds_of_one_step_at_a_time():
    """Step k's part: the weights of that step alone are varied."""
    one, input = a_network(), an_input()
    found = measure.simulate(one, input)
    parts = measure.gradient_by_lag(one, found, 0.3)
    for k in (1, 5, 12):
        weights = {name: getattr(one, name).clone().requires_grad_() for name in ("V", "W", "W_z", "b")}
        state = torch.cat((found.y[k - 1], found.z[k - 1]), -1)[0]
        m = one.hidden_size
        drive = input[k - 1, 0] @ weights["V"].T + weights["b"]
        own = (state[:m], state[m:], weights["W"], weights["W_z"], one.dt, one.gamma, one.epsilon)
        state = after = torch.cat(step(drive, *own), -1)
        for now in input[k:, 0]:
            state = take_step(one, now, state)
        loss = ((state[:m] - 0.3) ** 2).sum() / 2
        names = list(weights)
        for name, want in zip([*names, "state"], torch.autograd.grad(loss, [*weights.values(), after]), strict=True):
            assert parts[name][k - 1, 0].item() == pytest.approx(want.norm().item(), rel=1e-9)


def test_fading_is_that_of_a_sum_over_neurons():
    one, input = a_network(), an_input()
    found = measure.simulate(one, input)
    for k in (1, 7):
        state = torch.cat((found.y[k], found.z[k]), -1)[1].requires_grad_()
        last = state
        for now in input[k:, 1]:
            last = take_step(one, now, last)
        (gradient,) = torch.autograd.grad(last[: one.hidden_size].sum(), state)
        want = math.log10(gradient.norm().item() / one.hidden_size**0.5)
        assert measure.gradient_decay(one, found)[k - 1, 1].item() == pytest.approx(want)


def test_lyapunov_exponents_of_uncoupled_neurons_are_their_eigenvalues():
    one = network(torch.zeros(1, 1), torch.zeros(1, 1), 0.1, 1.0, 4.0, V=torch.ones(1, 2))
    found = measure.lyapunov_exponents(one, measure.simulate(one, torch.zeros(1500, 1, 2)), 2, skip=500)[0]
    matrix = torch.tensor([[1 - 0.01, 0.1 * 0.6], [-0.1, 0.6]], dtype=torch.float64)
    want = torch.linalg.eigvals(matrix).abs().log().sort(descending=True).values
    torch.testing.assert_close(found, want, **FINITE_DIFFERENCES)


@SOMETIMES
@given(networks(scales=(0.0, 3.0)), inputs(steps=15, batch=1))
def test_the_leading_gradient_has_the_papers_form(one, input):
    """eq:vg8 by its own definition: C* = sum over j of C_j ... C_k, from the slopes."""
    found = measure.simulate(one, input)
    ours = representation.leading_gradient(one, found)
    k, last = 11, found.y[-1, 0]
    C = [measure.jacobian_blocks(one, slope[0])[1] for slope in found.slopes]
    star, product = torch.zeros_like(C[0]), torch.eye(one.hidden_size, dtype=torch.float64)
    for number in range(k, 15):
        product = C[number] @ product
        star = star + product
    want = one.push * one.dt * found.slopes[k - 1, 0] * (last + last @ star)
    torch.testing.assert_close(ours[k - 1, 0], want, **FLOAT64)


def test_the_representation_serves_at_short_lags_and_its_remainder_grows_with_the_square_of_time():
    for dt in (0.01, 0.005):
        one = network(torch.full((1, 1), dt), torch.ones(1, 1), dt, 1.0, 1.0, V=torch.ones(1, 2), damping="implicit")
        _, left = representation.leading_remainder(one, measure.simulate(one, torch.ones(round(0.4 / dt), 1, 2)))
        early, late = left[round(0.1 / dt) - 1].item(), left[round(0.2 / dt) - 1].item()
        assert early < 0.02
        assert 3 < late / early < 5


def test_lags_beyond_the_trajectory_are_refused():
    one = a_network()
    found = measure.simulate(one, an_input(20))
    assert measure.singular_values(one, found, 0).shape == (2, 10)
    with pytest.raises(ValueError, match="lag must be from 0 to 20"):
        measure.singular_values(one, found, 25)
    with pytest.raises(ValueError, match="skip below 20 steps"):
        measure.lyapunov_exponents(one, found, skip=20)


def test_gradients_beyond_the_range_of_numbers_have_a_logarithm():
    one = network(torch.zeros(3, 3), 50 * torch.eye(3), 0.9, 0.5, 1.0, V=torch.ones(3, 2))
    found = measure.simulate(one, an_input(300))
    found = replace(found, slopes=torch.ones_like(found.slopes))
    _, logs = measure.product_norms(one, found, norm="euclid")
    change = measure.gradient_decay(one, found)
    assert change.isfinite().all()
    assert 300 < change[0].max() <= logs[-1].max() / math.log(10) + 1


def test_values_that_are_not_finite_are_refused_by_name():
    layer = CoRNN(2, 4, trainable=("epsilon",))
    with torch.no_grad():
        layer.cell().free_epsilon.fill_(float("nan"))
    with pytest.raises(ValueError, match="epsilon contains NaN or infinite values"):
        network_from_layer(layer)


def test_an_input_of_another_shape_is_refused():
    for shape in ((12, 2), (12, 2, 5)):
        with pytest.raises(ValueError, match=r"input must be \(time, batch, 2\)"):
            measure.simulate(a_network(), torch.zeros(shape))


@pytest.mark.parametrize(
    ("input", "message"),
    [
        (torch.zeros(0, 2, 2), r"input has shape \(0, 2, 2\): it needs at least one step and one sequence"),
        (torch.zeros(4, 0, 2), r"input has shape \(4, 0, 2\): it needs at least one step and one sequence"),
        (torch.full((4, 3, 2), math.nan), "input contains NaN or infinite values"),
        (torch.full((4, 3, 2), math.inf), "input contains NaN or infinite values"),
    ],
    ids=["no steps", "no sequences", "NaN", "infinity"],
)
def test_an_input_that_cannot_be_measured_is_refused(input, message):
    for call in (lambda: measure.simulate(a_network(), input), lambda: watch(CoRNN(2, 4), input)):
        with pytest.raises(ValueError, match=message):
            call()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"W": torch.ones(2, 3)}, r"W has shape \(2, 3\), expected \(2, 2\) for 2 neurons"),
        ({"W": torch.tensor(1.0)}, r"W has shape \(\), expected \(hidden, hidden\) with at least one neuron"),
        ({"W": torch.zeros(0, 0)}, r"W has shape \(0, 0\), expected \(hidden, hidden\) with at least one neuron"),
        ({"V": torch.tensor(1.0)}, r"V has shape \(\), expected"),
        ({"W_z": torch.eye(3)}, r"W_z has shape \(3, 3\), expected \(2, 2\)"),
        ({"V": torch.ones(3, 2)}, r"V has shape \(3, 2\), expected \(2, 2\)"),
        ({"V": torch.ones(2)}, r"V has shape \(2,\), expected \(2, 2\)"),
        ({"b": torch.ones(1)}, r"b has shape \(1,\), expected \(2,\)"),
        ({"dt": torch.ones(3)}, r"dt has shape \(3,\): give one number, or one for each of 2 neurons"),
        ({"dt": 0.0}, r"dt must be positive, got 0\.0"),
        ({"gamma": torch.tensor([1.0, -2.0])}, r"gamma must not be negative, got -2\.0"),
        ({"epsilon": -1}, r"epsilon must not be negative, got -1\.0"),
    ],
    ids=str,
)
def test_a_network_of_shapes_or_constants_that_cannot_be_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        network(**{"W": torch.eye(2), "W_z": torch.eye(2), "dt": 0.1, "gamma": 1.0, "epsilon": 1.0} | changes)


def test_a_network_is_a_copy_of_its_weights_also_of_arrays():
    W, gamma = np.eye(2), torch.ones(2, dtype=torch.float64)
    found = network(W, W, 0.1, gamma, 1.0)
    W *= 3
    gamma *= 3
    assert torch.equal(found.W, torch.eye(2, dtype=torch.float64))
    assert torch.equal(found.W_z, found.W)
    assert torch.equal(found.gamma, torch.ones(2, dtype=torch.float64))


def test_a_state_of_another_shape_is_refused():
    one = torch.zeros(1, 5)
    with pytest.raises(ValueError, match=r"state y has shape \(1, 5\), expected \(3, 5\)"):
        measure.simulate(a_network(), torch.zeros(4, 3, 2), (one, one))


def test_lags_need_a_distance():
    found = measure.simulate(a_network(), torch.zeros(4, 3, 2))
    with pytest.raises(ValueError, match="every must be at least 1, got 0"):
        measure.product_norms(a_network(), found, every=0)


def test_the_papers_ode_is_of_tanh():
    with pytest.raises(ValueError, match="the paper's ODE needs the activation tanh, this network has relu"):
        ode.flow(a_network(activation="relu"), lambda time: np.zeros(2))
