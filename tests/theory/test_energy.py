"""Energies: the inequality of one step, the bounds that simulate from it, and that its conditions are sharp."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as some
from theory_cases import DAMPINGS, inputs, networks
from tolerances import FLOAT64

from cornn.functional import step
from cornn.theory import claims, energy, linear, network
from cornn.theory.measure import separation, simulate

OFTEN = settings(max_examples=30, deadline=None, derandomize=True)
ROUNDING = 1 + FLOAT64["rtol"]


def free_step(one, y, z, force):
    """A step under a force of any size: the activation is the identity and nothing couples."""
    none = torch.zeros(1, 1, dtype=torch.float64)
    constants = (one.dt, one.gamma, one.epsilon)
    return step(force, y, z, none, none, *constants, damping=one.damping, activation="identity")


def single(dt, gamma, epsilon, damping):
    nothing = torch.zeros(1, 1)
    return network(nothing, nothing, dt, gamma, epsilon, damping=damping)


def worst_step(one):
    """The start and the force for which the proof's inequalities are equalities, with z' = 1."""
    a, dt, gamma = one.keep, one.dt, one.gamma
    new = torch.ones(1, 1, dtype=torch.float64)
    force = energy.energy_rate(one) ** -1 * new
    old = (1 - one.dt * one.epsilon if one.damping == "explicit" else torch.ones_like(a)) * new
    y = (a * old + one.push * force - new) / (one.push * gamma)
    found_y, found_z = free_step(one, y, old, force)
    torch.testing.assert_close(found_z, new)
    torch.testing.assert_close(found_y, y + dt * new)
    return y, old, force


@OFTEN
@given(networks(within=0.99), some.integers(0, 2**31), some.floats(0.01, 100.0))
def test_one_step_raises_the_energy_by_rate_dt_force_squared_at_the_most(one, seed, size):
    random = torch.Generator().manual_seed(seed)
    y, z, force = size * torch.randn(3, 200, one.hidden_size, generator=random, dtype=torch.float64)
    none = torch.zeros(one.hidden_size, one.hidden_size, dtype=torch.float64)
    constants = (one.dt, one.gamma, one.epsilon)
    after = step(force, y, z, none, none, *constants, damping=one.damping, activation="identity")
    allowed = energy.energy(one, y, z) + energy.energy_rate(one) * one.dt * force**2
    assert (energy.energy(one, *after) <= allowed * ROUNDING).all()


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize(("gamma", "epsilon"), [(1.0, 1.0), (0.2, 6.4), (94.5, 9.5), (0.01, 0.6)])
def test_no_smaller_rate_will_do(damping, gamma, epsilon):
    limit = energy.energy_step_limit(single(0.5, gamma, epsilon, damping)).item()
    one = single(min(0.5, 0.6 * limit), gamma, epsilon, damping)
    y, z, force = worst_step(one)
    gained = energy.energy(one, *free_step(one, y, z, force)) - energy.energy(one, y, z)
    torch.testing.assert_close(gained, energy.energy_rate(one) * one.dt * force**2)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_the_papers_step_limit_is_where_the_rate_is_one(damping):
    """eq:ndt and eq:dt are necessary as well, for one step: beyond them some step gains more than dt force^2."""
    limit = energy.paper_step_limit(single(0.5, 1.0, 1.0, damping)).item()
    assert limit == (0.5 if damping == "explicit" else 1.0)
    torch.testing.assert_close(energy.energy_rate(single(limit, 1.0, 1.0, damping)).item(), 1.0)
    if damping == "explicit":
        beyond = single(1.02 * limit, 1.0, 1.0, damping)
        y, z, force = worst_step(beyond)
        gained = energy.energy(beyond, *free_step(beyond, y, z, force)) - energy.energy(beyond, y, z)
        assert gained > beyond.dt * force**2


@OFTEN
@given(some.floats(0.51, 20.0), some.floats(0.01, 100.0))
def test_the_best_c_of_ndt1_gives_ndt(epsilon, gamma):
    best = epsilon * (2 * epsilon - 1) / (gamma + epsilon**2)
    limit = energy.paper_step_limit(single(0.5, gamma, epsilon, "explicit")).item()
    assert claims.explicit_step_limit(gamma, epsilon, best) == pytest.approx(limit)
    for c in (0.5 * best, 0.9 * best, 1.1 * best):
        assert claims.explicit_step_limit(gamma, epsilon, c) <= limit * ROUNDING


@OFTEN
@given(networks(within=0.99), inputs())
def test_energy_and_difference_stay_below_their_bounds(one, input):
    found = simulate(one, input)
    assert (energy.energy(one, found.y, found.z) <= energy.energy_bound(one, 40)[:, None] * ROUNDING).all()
    apart = separation(one, input, input.flip(0))
    assert (apart <= energy.separation_bound(one, 40).sum(1)[:, None] * ROUNDING).all()


@OFTEN
@given(networks(), inputs())
def test_no_state_leaves_its_reach_stable_or_not(one, input):
    found = simulate(one, input)
    y, z = energy.state_bound(one, 40)
    assert (found.y.abs() <= y[:, None] * ROUNDING).all()
    assert (found.z.abs() <= z[:, None] * ROUNDING).all()


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize(("dt", "gamma", "epsilon"), [(0.1, 1.0, 1.0), (0.016, 94.5, 9.5), (0.3, 0.02, 2.33)])
def test_the_reach_is_reached(dt, gamma, epsilon, damping):
    """A force that follows the signs of the impulse response gets as near as one likes."""
    nothing = torch.zeros(1, 1)
    one = network(nothing, nothing, dt, gamma, epsilon, V=torch.ones(1, 1), damping=damping)
    pulse = torch.zeros(60, 1, 1, dtype=torch.float64)
    pulse[0] = 1e-4
    response = simulate(one, pulse).y[1:]
    found = simulate(one, 30 * torch.sign(response).flip(0)).y[-1].item()
    assert found == pytest.approx(energy.state_bound(one, 60)[0][-1].item(), rel=1e-6)


@pytest.mark.parametrize("damping", DAMPINGS)
def test_no_state_starts_as_fast_as_the_root_of_time(damping):
    """prop:4 assumes |y_n| of order sqrt(t_n) for small n too; it is at most t_n^2 / 2."""
    one, n = single(0.01, 1.0, 1.0, damping), torch.arange(101, dtype=torch.float64)
    assert (energy.state_bound(one, 100)[0][:, 0] <= 0.01**2 * n * (n + 1) / 2 * ROUNDING).all()


def test_an_overdamped_neuron_stays_within_one_over_gamma():
    one = single(0.3, 0.02, 2.33, "explicit")
    reached = energy.state_bound(one, 4_000)[0]
    assert reached.max() < 1 / 0.02
    assert reached[-1].item() == pytest.approx(50, rel=1e-3)


def test_the_plain_sum_of_squares_is_not_bounded_by_m_n_dt():
    """For gamma below 1 the bound is one on the energy; |y|^2 alone exceeds m n dt many times."""
    one = network(torch.zeros(1, 1), torch.zeros(1, 1), 0.1, 0.01, 0.6, V=torch.ones(1, 1))
    found = simulate(one, torch.full((600, 1, 1), 30.0))
    assert one.dt < energy.paper_step_limit(one)
    plain = (found.y**2 + found.z**2)[1:, 0, 0]
    assert (plain / claims.energy_bound(one, 600)[1:]).max() > 50
    assert (energy.energy(one, found.y, found.z)[:, 0, 0] <= claims.energy_bound(one, 600)).all()


@OFTEN
@given(networks(dampings=["implicit"], gammas=(1.0, 1.0001)), inputs())
def test_the_papers_special_case(one, input):
    """gamma = epsilon = 1, implicit damping: |y|^2 + |z|^2 <= m n dt, far beyond t = 1."""
    special = network(one.W, one.W_z, one.dt, 1.0, 1.0, V=one.V, b=one.b, damping="implicit")
    found = simulate(special, input)
    bound = torch.arange(41, dtype=torch.float64)[:, None] * special.dt.sum()
    assert ((found.y**2 + found.z**2).sum(-1) <= bound * ROUNDING).all()


@pytest.mark.parametrize("damping", DAMPINGS)
@pytest.mark.parametrize(("gamma", "epsilon"), [(1.0, 1.0), (94.5, 9.5), (0.13, 4.1), (2.7, 0.1)])
def test_stability_limits_are_exact(damping, gamma, epsilon):
    limit = linear.stability_limit(gamma, epsilon, damping=damping).item()
    for share, grows in ((0.999, False), (1.001, True)):
        radius = linear.spectral_radius(share * limit, gamma, epsilon, damping=damping).item()
        assert (radius > 1) == grows
        matrix = linear.step_matrix(share * limit, gamma, epsilon, damping=damping)
        assert radius == pytest.approx(torch.linalg.eigvals(matrix).abs().max().item())


def test_beyond_the_limit_a_layer_blows_up():
    limit = linear.stability_limit(94.5, 9.5).item()
    for share, largest in ((0.98, 1.0), (1.05, 1e20)):
        one = network(torch.zeros(1, 1), torch.zeros(1, 1), share * limit, 94.5, 9.5, V=torch.ones(1, 1))
        found = simulate(one, torch.ones(2000, 1, 1))
        assert (found.y.abs().max() > largest) == (share > 1)


def test_a_wrong_rate_is_caught():
    """Half the rate is broken by a constant force already."""
    one = network(torch.zeros(1, 1), torch.zeros(1, 1), 0.05, 0.01, 1.0, V=torch.ones(1, 1))
    found = simulate(one, torch.full((200, 1, 1), 30.0))
    measured, bound = energy.energy(one, found.y, found.z)[1:, 0], energy.energy_bound(one, 200)[1:]
    assert (measured <= bound).all()
    assert (measured > bound / 2).any()


def test_frequency_and_damping_ratio():
    assert linear.natural_frequency(4.0).item() == 2.0
    assert linear.damping_ratio(4.0, 4.0).item() == 1.0
    assert linear.half_life(0.1, 0.0, 1.0).item() == torch.inf
