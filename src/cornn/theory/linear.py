"""Linearised dynamics of one uncoupled oscillator: frequency, damping, stability, half-life, impulse response.

Without coupling and input, a step multiplies (y, z) by the 2 x 2 matrix

    [ 1 - dt pull   dt keep ]        explicit damping: keep = 1 - dt epsilon,        pull = dt gamma
    [ -pull         keep    ]        implicit damping: keep = 1 / (1 + dt epsilon),  pull = dt gamma keep

whose determinant is `keep`. The modulus of its larger eigenvalue is the share of the past that a neuron keeps per step.
All functions accept numbers or tensors that broadcast, and return float64 tensors. `shortest_half_life`,
`stiffness_from_half_life` and `stiffness_from_period` need dt and epsilon as plain numbers.
"""

import math

import torch
from torch import Tensor

from cornn._arguments import check_known
from cornn._scaling import log_spaced
from cornn.functional import DAMPINGS, coefficients

__all__ = [
    "damping_ratio",
    "effective_rank",
    "half_life",
    "impulse_response",
    "log_spaced",
    "natural_frequency",
    "period",
    "shortest_half_life",
    "spectral_radius",
    "stability_limit",
    "step_matrix",
    "stiffness_from_half_life",
    "stiffness_from_period",
]

Value = float | Tensor


def _double(*values: Value) -> list[Tensor]:
    return [torch.as_tensor(value, dtype=torch.float64) for value in values]


def _keep(dt: float, epsilon: float, damping: str) -> float:
    return coefficients(dt, 0.0, epsilon, damping=damping).keep


def step_matrix(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Return the matrix of one uncoupled step.

    Args:
        dt: Step size.
        gamma: Stiffness.
        epsilon: Damping.
        damping: "explicit" or "implicit".

    Returns:
        The matrix that acts on (y, z), (..., 2, 2).
    """
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    keep, _, pull, _ = coefficients(dt, gamma, epsilon, damping=damping)
    entries = torch.stack(torch.broadcast_tensors(1 - dt * pull, dt * keep, -pull, keep), -1)
    return entries.unflatten(-1, (2, 2))


def natural_frequency(gamma: Value) -> Tensor:
    """Return the frequency of the undamped oscillator, sqrt(gamma), in radians per unit of time."""
    return torch.sqrt(*_double(gamma))


def damping_ratio(gamma: Value, epsilon: Value) -> Tensor:
    """Return the damping ratio epsilon / (2 sqrt(gamma)) of the ODE.

    Below 1 a neuron is underdamped (it oscillates), above 1 overdamped (it returns without oscillating). The ratio does
    not depend on dt.
    """
    gamma, epsilon = _double(gamma, epsilon)
    return torch.where(epsilon > 0, epsilon / (2 * torch.sqrt(gamma)), 0.0)


def spectral_radius(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Return the modulus of the larger eigenvalue of an uncoupled step: the share of the past kept per step.

    Args:
        dt: Step size.
        gamma: Stiffness.
        epsilon: Damping.
        damping: "explicit" or "implicit".

    Returns:
        The spectral radius, (...).
    """
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    keep, _, pull, _ = coefficients(dt, gamma, epsilon, damping=damping)
    half_trace = (1 + keep - dt * pull) / 2
    root = torch.sqrt(torch.clamp(half_trace**2 - keep, min=0))
    return torch.where(half_trace**2 >= keep, half_trace.abs() + root, torch.sqrt(torch.clamp(keep, min=0)))


def stability_limit(gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Return the exact stability limit: an uncoupled neuron is stable if and only if dt is below it.

    Assumes gamma > 0 and epsilon > 0.

    The characteristic polynomial x**2 - (1 + keep - dt pull) x + keep has both roots inside the unit circle if and
    only if it is positive at 1 and at -1 and |keep| < 1 (Jury). At 1 it is dt pull > 0. At -1 it is
    2 + 2 keep - dt pull, which changes sign at (sqrt(epsilon**2 + 4 gamma) -+ epsilon) / gamma.

    Args:
        gamma: Stiffness.
        epsilon: Damping.
        damping: "explicit" or "implicit".

    Returns:
        The limit of dt, (...).

    Examples:
        >>> from cornn.theory import linear
        >>> round(linear.stability_limit(1.0, 1.0).item(), 4)
        1.2361
    """
    check_known("damping", damping, DAMPINGS)
    gamma, epsilon = _double(gamma, epsilon)
    root = torch.sqrt(epsilon**2 + 4 * gamma)
    # The explicit limit in the form above cancels for small gamma; this form has the same value.
    return 4 / (root + epsilon) if damping == "explicit" else torch.where(gamma > 0, (root + epsilon) / gamma, math.inf)


def half_life(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Return the number of steps in which an uncoupled neuron loses half of its value.

    Args:
        dt: Step size.
        gamma: Stiffness.
        epsilon: Damping.
        damping: "explicit" or "implicit".

    Returns:
        Half-lives in steps, (...); infinite where nothing is lost.

    Examples:
        >>> from cornn import theory
        >>> round(theory.half_life(0.05, 0.5, 4.0).item(), 1)
        107.7
    """
    radius = spectral_radius(dt, gamma, epsilon, damping=damping)
    # Without stiffness the radius is 1 up to rounding.
    holds = (radius >= 1) | (torch.as_tensor(gamma) == 0)
    return torch.where(holds, math.inf, math.log(0.5) / torch.log(radius))


def shortest_half_life(dt: float, epsilon: float, *, damping: str = "explicit") -> float:
    """Return the shortest half-life in steps for this dt and epsilon: that of critical damping.

    A stiffer neuron is underdamped and has the same half-life.
    """
    keep = abs(_keep(dt, epsilon, damping))  # the product of both eigenvalues; the larger one sets the half-life
    if keep == 0:
        return 0.0
    return math.inf if keep >= 1 else math.log(0.5) / math.log(keep**0.5)


def stiffness_from_half_life(half_life: Value, dt: float, epsilon: float, *, damping: str = "explicit") -> Tensor:
    """Return the stiffness with which an overdamped neuron has a given half-life: the exact inverse of `half_life`.

    Args:
        half_life: Half-lives in steps, (...).
        dt: Step size.
        epsilon: Damping.
        damping: "explicit" or "implicit".

    Returns:
        gamma, (...).

    Raises:
        ValueError: If a half-life is below `shortest_half_life` or NaN.
    """
    keep = _keep(dt, epsilon, damping)
    half_life = torch.as_tensor(half_life, dtype=torch.float64)
    shortest = shortest_half_life(dt, epsilon, damping=damping)
    if not (half_life >= shortest).all():
        raise ValueError(
            f"a half-life of {half_life.min().item():.3g} steps is too short for dt={dt:g}, epsilon={epsilon:g}: "
            f"the shortest is {shortest:.3g} ({'raise' if keep > 0 else 'lower'} dt * epsilon)"
        )
    lam = 0.5 ** (1 / half_life)
    return (1 - lam) * (lam - keep) / (dt**2 * lam * (1 if damping == "explicit" else keep))


def period(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Return the period of an uncoupled underdamped neuron.

    Args:
        dt: Step size.
        gamma: Stiffness.
        epsilon: Damping.
        damping: "explicit" or "implicit".

    Returns:
        Periods in steps, (...); infinite for overdamped neurons.
    """
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    keep, push, pull, _ = coefficients(dt, gamma, epsilon, damping=damping)
    radius = torch.sqrt(torch.clamp(keep, min=0))
    # The trace of an uncoupled step is 2 radius cos(angle). For long periods the cosine is 1 up to rounding, so the
    # angle is computed from sin(angle / 2)**2, in which 1 - radius is push epsilon / (1 + radius).
    share = (dt * pull - (push * epsilon / (1 + radius)) ** 2) / (4 * radius)
    oscillates = (radius > 0) & (share > 0) & (share < 1)
    return torch.where(oscillates, math.pi / torch.asin(torch.sqrt(torch.where(oscillates, share, 1.0))), math.inf)


def stiffness_from_period(period: Value, dt: float, epsilon: float, *, damping: str = "explicit") -> Tensor:
    """Return the stiffness with which a neuron oscillates with a given period: the exact inverse of `period`.

    The oscillation has the half-life `shortest_half_life`, whatever its period.

    Args:
        period: Periods in steps, above 2, (...).
        dt: Step size.
        epsilon: Damping.
        damping: "explicit" or "implicit".

    Returns:
        gamma, (...).

    Raises:
        ValueError: If a period is 2 steps or less, or if no neuron oscillates with this dt and epsilon.
    """
    keep, push, *_ = coefficients(dt, 0.0, epsilon, damping=damping)
    period = torch.as_tensor(period, dtype=torch.float64)
    if keep <= 0:
        raise ValueError(f"no neuron oscillates with dt={dt:g}, epsilon={epsilon:g}: lower dt * epsilon below 1")
    if not (period > 2).all():
        raise ValueError(f"a period of {period.min().item():.3g} steps is too short: periods must exceed 2 steps")
    # The formula of `period`, solved for dt pull = dt push gamma.
    pulled = (push * epsilon / (1 + keep**0.5)) ** 2 + 4 * keep**0.5 * torch.sin(math.pi / period) ** 2
    return pulled / (dt * push)


def impulse_response(dt: Value, gamma: Value, epsilon: Value, steps: int, *, damping: str = "explicit") -> Tensor:
    """Return the impulse response of uncoupled neurons: y at 0 to `steps` - 1 steps after a unit force.

    Args:
        dt: Step size.
        gamma: Stiffness.
        epsilon: Damping.
        steps: Number of steps.
        damping: "explicit" or "implicit".

    Returns:
        The responses, (..., steps).
    """
    if steps < 1:
        raise ValueError(f"steps must be 1 or more, got {steps}")
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    push = coefficients(dt, gamma, epsilon, damping=damping).push
    # Columns are the states after 0 to n - 1 steps; one product advances all of them by n steps.
    power = step_matrix(dt, gamma, epsilon, damping=damping)
    states = torch.stack(torch.broadcast_tensors(dt * push, push), -1).unsqueeze(-1).expand(*power.shape[:-1], 1)
    while states.shape[-1] < steps:
        states, power = torch.cat((states, power @ states), -1), power @ power
    return states[..., 0, :steps]


def effective_rank(
    dt: Value, gamma: Value, epsilon: Value, steps: int, *, damping: str = "explicit", noise: float = 0.01
) -> int:
    """Count the independent numbers that uncoupled neurons store about the last `steps` inputs.

    The y of each neuron is a weighted sum of the inputs, with its `impulse_response` as weights. The sums of overdamped
    neurons are nearly linearly dependent, however many there are; those of underdamped neurons with different periods
    are not.

    Args:
        dt: Step size.
        gamma: Stiffness, (hidden).
        epsilon: Damping.
        steps: Number of past inputs.
        damping: "explicit" or "implicit".
        noise: Singular values below this share of the largest do not count.

    Returns:
        The number of singular values above the threshold of the matrix of impulse responses, each row scaled to norm 1.

    Raises:
        ValueError: If the neurons are unstable and their responses overflow.
    """
    left = impulse_response(dt, gamma, epsilon, steps, damping=damping)
    if not left.isfinite().all():
        raise ValueError(
            f"unstable neurons have no effective rank over {steps:,} steps: lower dt (see stability_limit)"
        )
    weights = torch.nn.functional.normalize(left, dim=-1)
    values = torch.linalg.svdvals(torch.atleast_2d(weights))
    return int((values > noise * values.max()).sum())
