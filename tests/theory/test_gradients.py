"""Bounds on gradients: each holds whenever its conditions do, and a wrong one would be caught."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import assume, given, settings
from theory_cases import DAMPINGS, inputs, networks
from tolerances import FLOAT64

from cornn.theory import bounds, claims, gradients, hypotheses, linear, network, small_gain
from cornn.theory.measure import jacobian, loss_gradient, lyapunov_exponents, product_norms, simulate

OFTEN = settings(max_examples=25, deadline=None, derandomize=True)
ROUNDING = 1 + FLOAT64["rtol"]


@OFTEN
@given(networks(), inputs(steps=20))
def test_step_norm_is_the_least_bound_on_a_step_jacobian(one, input):
    limit = gradients.step_norm(one)
    found = simulate(one, input)
    assert (jacobian(one, found.slopes).abs().sum(-1).amax() <= limit * ROUNDING).item()
    corners = [jacobian(one, torch.full((one.hidden_size,), slope, dtype=torch.float64)) for slope in (0.0, 1.0)]
    reached = max(corner.abs().sum(-1).max().item() for corner in corners)
    assert reached == pytest.approx(limit)


@OFTEN
@given(networks(within=0.95), inputs(steps=20))
def test_energy_growth_bounds_products(one, input):
    lags, logs = product_norms(one, simulate(one, input), norm="energy")
    assert (logs <= lags[:, None] * math.log1p(gradients.energy_growth(one)) + FLOAT64["rtol"]).all()


@OFTEN
@given(networks(), inputs(steps=30))
def test_the_small_gain_bounds_products_stable_or_not(one, input):
    lags, logs = product_norms(one, simulate(one, input), norm="euclid")
    assert (logs <= small_gain.log_growth_bound(one, 30)[lags][:, None] + FLOAT64["rtol"]).all()


@OFTEN
@given(networks(scales=(0.0, 2.0)))
def test_filter_gains_are_the_largest_on_the_circle(one):
    r = small_gain.slowest_rate(one)
    assert small_gain.loop_gain(one, r) < 1
    r *= 1.02  # so that the circle's points lie close enough to a root
    y, z = small_gain.filter_gains(one, r)
    x = r * torch.exp(1j * torch.linspace(0, math.pi, 4001, dtype=torch.float64))[:, None]
    p = x**2 - (1 + one.keep - one.dt * one.push * one.gamma) * x + one.keep
    for gain, seen in ((y, one.push * one.dt * r / p.abs()), (z, one.push * (x - 1).abs() / p.abs())):
        assert (seen <= gain * ROUNDING).all()
        assert (seen.amax(0) >= 0.97 * gain).all()


def test_uncoupled_neurons_fade_at_their_own_rate():
    one = network(torch.zeros(2, 2), torch.zeros(2, 2), 0.05, torch.tensor([1.0, 30.0]), 4.0)
    radius = linear.spectral_radius(0.05, one.gamma, 4.0).max().item()
    assert small_gain.slowest_rate(one) == pytest.approx(radius, abs=1e-6)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_at_adding_s_start_vanishing_is_proven_from_the_weights(damping):
    """dt 0.016, gamma 94.5, epsilon 9.5: no input makes a gradient over 1,000 steps larger than 1e-25."""
    random = torch.Generator().manual_seed(0)
    bound = 258**-0.5
    W, W_z = (2 * torch.rand(2, 128, 128, generator=random, dtype=torch.float64) - 1) * bound
    one = network(W, W_z, 0.016, 94.5, 9.5, V=torch.ones(128, 1), damping=damping)
    assert small_gain.slowest_rate(one) < 0.94
    assert small_gain.log_growth_bound(one, 1000)[-1] / math.log(10) < -25


def test_a_rate_that_is_too_small_is_caught():
    """Where tanh is linear and W a multiple of the identity, the bound on the rate is the rate."""
    one = network(2 * torch.eye(1), torch.zeros(1, 1), 0.05, 1.0, 1.0)
    lags, logs = product_norms(one, simulate(one, torch.zeros(400, 1, 1)), norm="euclid")
    rate = math.exp(((logs[-1] - logs[200]) / 200).item())
    assert rate == pytest.approx(small_gain.slowest_rate(one), abs=1e-4)
    assert (logs > lags[:, None] * math.log(0.99 * rate) + 1).any()


@pytest.mark.slow
@OFTEN
@given(networks(scales=(0.0, 4.0)), inputs(steps=15))
def test_the_loss_gradient_stays_below_its_bound(one, input):
    for target in (0.0, 2.0):
        found = loss_gradient(one, simulate(one, input), target)
        largest = input.abs().max().item()
        bounds_of = gradients.loss_gradient_bounds(one, 15, target=target, largest_input=largest)
        for name, value in found.items():
            assert value.abs().max().item() <= bounds_of[name] * ROUNDING


@OFTEN
@given(networks(dampings=["implicit"]), inputs(steps=20))
def test_the_strict_product_holds_under_the_papers_hypothesis(one, input):
    """gamma = epsilon = 1, implicit, one dt: the weights are scaled to the edge of eq:assm with r = 1/2."""
    dt = 0.2 * one.dt[0]
    edge = dt**-0.5 * (1 + dt)
    W = one.W * (edge - 1) / hypotheses.row_sums(one.W).max().clamp(min=1e-9)
    W_z = one.W_z * edge / hypotheses.row_sums(one.W_z).max().clamp(min=1e-9)
    special = network(W, W_z, dt, 1.0, 1.0, V=one.V, b=one.b, damping="implicit")
    assert special.paper_case
    r = hypotheses.largest_r(special)
    assume(r >= 0.5 - 1e-12)
    lags, logs = product_norms(special, simulate(special, input))
    for lag, log in zip(lags.tolist(), logs, strict=True):
        assert (log <= math.log(claims.strict_product(dt.item(), min(r, 1.0), lag)) + FLOAT64["rtol"]).all()


def test_hypotheses_by_hand():
    W, W_z = torch.tensor([[1.0, -2.0], [0.0, 0.5]]), torch.tensor([[4.0, 0.0], [1.0, 1.0]])
    one = network(W, W_z, 0.04, 2.0, 3.0)
    assert hypotheses.eta(one) == pytest.approx(0.04 * 5)
    assert hypotheses.assumption(one) == pytest.approx((0.04 * 4 / 1.04, 0.2))
    assert hypotheses.largest_r(one) == pytest.approx(math.log(0.2) / math.log(0.04))
    assert hypotheses.smallest_constant(one, 0.5) == pytest.approx(1.0)
    assert hypotheses.smallest_constant(one, 1.0) == pytest.approx(5.0)
    implicit = replace(one, damping="implicit")
    assert hypotheses.eta(implicit) == pytest.approx(0.04 * 5 / 1.12)


@OFTEN
@given(networks(scales=(0.0, 8.0)), inputs(steps=25))
def test_every_bound_of_the_list_holds_where_its_condition_does(one, input):
    found = simulate(one, input)
    for bound in bounds.BOUNDS:
        comparison = bounds.compare(bound, one, found)
        assert comparison is None or comparison.holds, bound.statement


def test_a_wrong_bound_in_the_list_is_caught():
    """With slopes that no tanh has, the trajectory breaks bounds that rest on slopes of 1 or less."""
    random = torch.Generator().manual_seed(0)
    W = torch.randn(4, 4, generator=random, dtype=torch.float64)
    one = network(W, W, 0.1, 1.0, 1.0)
    good = simulate(one, torch.zeros(60, 1, 4))
    bad = replace(good, slopes=10 * good.slopes, y=torch.cat((good.y[:1], good.y[1:] + 100)), z=good.z)
    broken = {bound.statement for bound in bounds.BOUNDS if (own := bounds.compare(bound, one, bad)) and not own.holds}
    assert {"norm of the one-step Jacobian", "energy per neuron <= rate n dt"} <= broken
    assert "|y| and |z| per neuron, for any weights and input" in broken
    assert "Euclidean norm of Jacobian products <= K r^lag" in broken


@pytest.mark.parametrize("damping", DAMPINGS)
def test_no_exponent_exceeds_what_the_weights_allow(damping):
    random = torch.Generator().manual_seed(3)
    W = 1.5 * torch.randn(16, 16, generator=random, dtype=torch.float64)
    one = network(W, torch.zeros(16, 16), 0.1, 1.0, 1.0, damping=damping)
    found = simulate(one, torch.randn(400, 1, 16, generator=random, dtype=torch.float64))
    assert lyapunov_exponents(one, found)[0, 0] < math.log(small_gain.slowest_rate(one))


def test_bounds_about_a_zero_start_say_nothing_of_another():
    one = network(torch.eye(3), torch.eye(3), 0.1, 1.0, 1.0)
    moved = simulate(one, torch.zeros(20, 2, 3), (10 + torch.rand(2, 3), torch.rand(2, 3)))
    for bound in bounds.BOUNDS:
        comparison = bounds.compare(bound, one, moved)
        assert comparison is None if bound.zero_start else comparison is None or comparison.holds, bound.statement


@pytest.mark.parametrize("W", [0.0, 1e-16, 3e-15, 1e-8, 1e-4])
def test_the_bound_on_the_odes_gradient_does_not_cancel(W):
    one = network(torch.tensor([[W]]), torch.zeros(1, 1), 0.1, 1.0, 1.0)
    assert gradients.ode_gradient_bound(one, torch.tensor(1.0)).item() == pytest.approx(0.25, rel=1e-3)


def test_the_sides_of_the_papers_assumption_are_one_neurons():
    one = network(torch.zeros(2, 2), torch.zeros(2, 2), torch.tensor([1e-4, 0.5]), 1.0, 1.0, damping="implicit")
    assert hypotheses.assumption(one) == pytest.approx((0.5 / 1.5, 0.5**0.5))


def test_weights_beyond_all_measure_have_no_rate():
    one = network(torch.full((2, 2), 1e200, dtype=torch.float64), torch.zeros(2, 2), 0.1, 1.0, 1.0)
    assert small_gain.slowest_rate(one) == math.inf
    assert small_gain.log_growth_bound(one, 3).tolist() == [0.0, math.inf, math.inf, math.inf]
