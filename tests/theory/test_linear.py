"""The linearised dynamics agree with the recurrence."""

import math

import pytest
import torch

from cornn import theory
from cornn.functional import unroll


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
@pytest.mark.parametrize("steps", [20.0, 100.0, 3000.0])
def test_stiffness_gives_the_half_life_that_was_asked_for(damping, steps):
    gamma = theory.stiffness_from_half_life(steps, 0.15, 4.67, damping=damping)
    assert gamma > 0
    torch.testing.assert_close(theory.half_life(0.15, gamma, 4.67, damping=damping).item(), steps)


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
def test_an_uncoupled_neuron_halves_in_its_half_life(damping):
    dt, epsilon, steps = 0.15, 4.67, 50
    gamma = theory.stiffness_from_half_life(float(steps), dt, epsilon, damping=damping)
    none, start = torch.zeros(1, 1, dtype=torch.float64), torch.ones(1, 1, dtype=torch.float64)
    silent = torch.zeros(400, 1, 1, dtype=torch.float64)
    ys, _ = unroll(silent, start, 0 * start, none, none, dt, gamma, epsilon, damping=damping)
    # By step 300 only the slow mode is left.
    torch.testing.assert_close(ys[300 + steps] / ys[300], torch.full((1, 1), 0.5, dtype=torch.float64))


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
@pytest.mark.parametrize(("dt", "gamma", "epsilon"), [(0.1, 2.0, 0.5), (0.05, 0.5, 4.0), (0.016, 94.5, 9.5)])
def test_half_life_is_that_of_the_spectral_radius(dt, gamma, epsilon, damping):
    kept, pull = (
        (1 - dt * epsilon, dt * gamma)
        if damping == "explicit"
        else (
            1 / (1 + dt * epsilon),
            dt * gamma / (1 + dt * epsilon),
        )
    )
    step = torch.tensor([[1 - dt * pull, dt * kept], [-pull, kept]], dtype=torch.float64)
    radius = torch.linalg.eigvals(step).abs().max()
    want = torch.log(torch.tensor(0.5, dtype=torch.float64)) / torch.log(radius)
    torch.testing.assert_close(theory.half_life(dt, gamma, epsilon, damping=damping), want)


def test_too_short_a_half_life_is_refused_with_the_shortest():
    with pytest.raises(ValueError, match=r"too short for dt=0\.05, epsilon=4: the shortest is 6\.21"):
        theory.stiffness_from_half_life(3.0, 0.05, 4.0)
    with pytest.raises(ValueError, match="a half-life of nan steps is too short"):
        theory.stiffness_from_half_life(math.nan, 0.05, 4.0)


def test_a_half_life_is_of_the_larger_eigenvalue_where_the_other_is_negative():
    with pytest.raises(ValueError, match=r"the shortest is 4\.82 \(lower dt \* epsilon\)"):
        theory.stiffness_from_half_life(1.8, 0.5, 3.5)
    gamma = theory.stiffness_from_half_life(10.0, 0.5, 3.0)
    assert theory.half_life(0.5, gamma, 3.0).item() == pytest.approx(10.0)
    assert theory.shortest_half_life(0.5, 2.0) == 0
    assert theory.shortest_half_life(0.5, 5.0) == math.inf


def test_log_spaced_has_both_ends_and_equal_ratios():
    values = theory.log_spaced(10, 1000, 5)
    torch.testing.assert_close(values, torch.tensor([10, 10**1.5, 100, 10**2.5, 1000], dtype=torch.float64))


def test_log_spaced_may_begin_at_the_shortest_half_life_there_is():
    least = theory.shortest_half_life(0.0341, 1.12)
    assert theory.stiffness_from_half_life(theory.log_spaced(least, 16 * least, 128), 0.0341, 1.12).isfinite().all()


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
def test_a_ringing_neuron_has_the_period_and_the_half_life_that_were_asked_for(damping):
    dt, epsilon = 0.1, 0.02
    periods = theory.log_spaced(2.5, 5000, 12)
    gamma = theory.stiffness_from_period(periods, dt, epsilon, damping=damping)
    torch.testing.assert_close(theory.period(dt, gamma, epsilon, damping=damping), periods)
    halves = theory.half_life(dt, gamma, epsilon, damping=damping)
    torch.testing.assert_close(halves, torch.full_like(halves, theory.shortest_half_life(dt, epsilon, damping=damping)))
    assert theory.period(dt, 1e-6, epsilon, damping=damping) == torch.inf


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
def test_long_periods_do_not_cancel(damping):
    for epsilon in (0.0, 1e-9):
        periods = 10.0 ** torch.arange(2, 11, dtype=torch.float64)
        gamma = theory.stiffness_from_period(periods, 0.1, epsilon, damping=damping)
        torch.testing.assert_close(theory.period(0.1, gamma, epsilon, damping=damping), periods, rtol=1e-12, atol=0)


def test_what_cannot_ring_is_refused():
    with pytest.raises(ValueError, match=r"a period of 2 steps is too short"):
        theory.stiffness_from_period(2.0, 0.1, 0.02)
    with pytest.raises(ValueError, match=r"no neuron oscillates with .*: lower dt \* epsilon below 1"):
        theory.stiffness_from_period(10.0, 0.5, 2.0)


@pytest.mark.parametrize("damping", ["explicit", "implicit"])
def test_responses_are_those_of_the_recurrence(damping):
    dt, gamma, epsilon = 0.2, torch.tensor([0.3, 5.0], dtype=torch.float64), 0.7
    none, start = torch.zeros(2, 2, dtype=torch.float64), torch.zeros(1, 2, dtype=torch.float64)
    # The force is the tanh of the drive: of a small one it is the drive, but for the cube of it.
    drive = torch.zeros(30, 1, 2, dtype=torch.float64)
    drive[0] = 1e-4
    ys, _ = unroll(drive, start, start, none, none, dt, gamma, epsilon, damping=damping)
    left = theory.linear.impulse_response(dt, gamma, epsilon, 30, damping=damping)
    torch.testing.assert_close(left, 1e4 * ys[:, 0].t(), rtol=1e-7, atol=0)


def test_neurons_that_ring_hold_more_numbers_than_neurons_that_creep():
    creeping = theory.stiffness_from_half_life(theory.log_spaced(50, 5000, 64), 0.3, 2.33)
    assert theory.effective_rank(0.3, creeping, 2.33, 500) < 5
    paces = 500 / torch.arange(1, 65, dtype=torch.float64)
    assert theory.effective_rank(0.1, theory.stiffness_from_period(paces, 0.1, 1e-3), 1e-3, 500) == 64


def test_what_is_the_wrong_way_round_or_unstable_is_refused():
    with pytest.raises(ValueError, match="at most longest, got 1000 and 10"):
        theory.log_spaced(1000, 10, 5)
    with pytest.raises(ValueError, match="unstable neurons have no effective rank over 5,000 steps: lower dt"):
        theory.effective_rank(0.9, 100.0, 0.1, 5000)
    with pytest.raises(ValueError, match="steps must be 1 or more, got 0"):
        theory.effective_rank(0.05, 1.0, 4.0, 0)


def test_a_misspelt_damping_is_refused():
    for call in (
        lambda: theory.half_life(0.1, 1.0, 4.0, damping="explict"),
        lambda: theory.linear.stability_limit(1.0, 4.0, damping="explict"),
        lambda: theory.suggest(100, 8, damping="Explicit"),
        lambda: theory.suggest(100, 8, damping="Explicit", underdamped=True),
    ):
        with pytest.raises(ValueError, match="unknown damping"):
            call()
