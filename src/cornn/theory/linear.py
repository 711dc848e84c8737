"""The linear picture of one oscillator: how it swings, when it is stable, how long it remembers.

Without coupling and input, a step multiplies (y, z) by the 2 x 2 matrix

    [ 1 - dt pull   dt kept ]        explicit damping: kept = 1 - dt epsilon,        pull = dt gamma
    [ -pull         kept    ]        implicit damping: kept = 1 / (1 + dt epsilon),  pull = dt gamma kept

whose determinant is `kept`. Its larger eigenvalue is what a neuron keeps of its past in a step. All functions take
numbers or tensors that broadcast, and return float64 tensors; `stiffness_from_half_life` and `stiffness_from_period`
take one dt and one epsilon.
"""

import math
from typing import TypeVar

import torch
from torch import Tensor

from cornn.functional import DAMPINGS

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


def _check(damping: str) -> None:
    if damping not in DAMPINGS:
        raise ValueError(f"unknown damping {damping!r}: choose one of {', '.join(DAMPINGS)}")


Single = TypeVar("Single", float, Tensor)


def _kept(dt: Single, epsilon: Single, damping: str) -> Single:
    _check(damping)
    return 1 - dt * epsilon if damping == "explicit" else 1 / (1 + dt * epsilon)


def _kept_and_pull(dt: Tensor, gamma: Tensor, epsilon: Tensor, damping: str) -> tuple[Tensor, Tensor]:
    kept = _kept(dt, epsilon, damping)
    return kept, dt * gamma * (1 if damping == "explicit" else kept)


def step_matrix(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """The matrix of a free step, (..., 2, 2), acting on (y, z)."""
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    kept, pull = _kept_and_pull(dt, gamma, epsilon, damping)
    entries = torch.stack(torch.broadcast_tensors(1 - dt * pull, dt * kept, -pull, kept), -1)
    return entries.unflatten(-1, (2, 2))


def natural_frequency(gamma: Value) -> Tensor:
    """Radians per unit of time of the undamped oscillator: the square root of gamma."""
    return torch.sqrt(*_double(gamma))


def damping_ratio(gamma: Value, epsilon: Value) -> Tensor:
    """epsilon / (2 sqrt(gamma)): below 1 a neuron rings, above it creeps back. Of the ODE; dt plays no part."""
    gamma, epsilon = _double(gamma, epsilon)
    return torch.where(epsilon > 0, epsilon / (2 * torch.sqrt(gamma)), 0.0)


def spectral_radius(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """The modulus of the larger eigenvalue of a free step: what is kept of the past, a step."""
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    kept, pull = _kept_and_pull(dt, gamma, epsilon, damping)
    half_trace = (1 + kept - dt * pull) / 2
    root = torch.sqrt(torch.clamp(half_trace**2 - kept, min=0))
    return torch.where(half_trace**2 >= kept, half_trace.abs() + root, torch.sqrt(torch.clamp(kept, min=0)))


def stability_limit(gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """The dt below which a free neuron is stable, exactly; at and beyond it, it is not (gamma and epsilon above 0).

    The characteristic polynomial x**2 - (1 + kept - dt pull) x + kept has both roots inside the unit circle if and
    only if it is positive at 1 and at -1 and |kept| < 1 (Jury). At 1 it is dt pull > 0. At -1 it is
    2 + 2 kept - dt pull, which changes sign at (sqrt(epsilon**2 + 4 gamma) -+ epsilon) / gamma.
    """
    _check(damping)
    gamma, epsilon = _double(gamma, epsilon)
    root = torch.sqrt(epsilon**2 + 4 * gamma)
    # The first form of the explicit limit cancels for small gamma; this one is the same number.
    return 4 / (root + epsilon) if damping == "explicit" else torch.where(gamma > 0, (root + epsilon) / gamma, math.inf)


def half_life(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Steps after which an uncoupled neuron has lost half of what it held; infinite if it loses nothing."""
    radius = spectral_radius(dt, gamma, epsilon, damping=damping)
    # Without stiffness the radius is 1, but for a rounding.
    holds = (radius >= 1) | (torch.as_tensor(gamma) == 0)
    return torch.where(holds, math.inf, math.log(0.5) / torch.log(radius))


def shortest_half_life(dt: float, epsilon: float, *, damping: str = "explicit") -> float:
    """Steps; at critical damping. A stiffer neuron rings, but forgets no faster."""
    kept = abs(_kept(dt, epsilon, damping))  # the product of both eigenvalues, of which the larger is what lasts
    if kept == 0:
        return 0.0
    return math.inf if kept >= 1 else math.log(0.5) / math.log(kept**0.5)


def stiffness_from_half_life(half_life: Value, dt: float, epsilon: float, *, damping: str = "explicit") -> Tensor:
    """The gamma with which an overdamped neuron has this half-life (in steps): `half_life` turned round, exactly."""
    kept = _kept(dt, epsilon, damping)
    half_life = torch.as_tensor(half_life, dtype=torch.float64)
    shortest = shortest_half_life(dt, epsilon, damping=damping)
    if (half_life < shortest).any():
        raise ValueError(
            f"a half-life of {half_life.min().item():.3g} steps is too short for dt={dt:g}, epsilon={epsilon:g}: "
            f"the shortest is {shortest:.3g} ({'raise' if kept > 0 else 'lower'} dt * epsilon)"
        )
    lam = 0.5 ** (1 / half_life)
    return (1 - lam) * (lam - kept) / (dt**2 * lam * (1 if damping == "explicit" else kept))


def period(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Steps after which a free neuron that rings is where it was, but for its loss; infinite if it does not."""
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    kept, pull = _kept_and_pull(dt, gamma, epsilon, damping)
    half_trace, radius = (1 + kept - dt * pull) / 2, torch.sqrt(torch.clamp(kept, min=0))
    rings = half_trace.abs() < radius
    angle = torch.acos(torch.where(rings, half_trace / torch.where(rings, radius, 1.0), 0.0))
    return torch.where(rings, 2 * math.pi / angle, math.inf)


def stiffness_from_period(period: Value, dt: float, epsilon: float, *, damping: str = "explicit") -> Tensor:
    """The gamma with which a neuron rings with this period (in steps): `period` turned round, exactly.

    What it rings with halves in `shortest_half_life` steps, whatever the period.
    """
    kept = _kept(dt, epsilon, damping)
    period = torch.as_tensor(period, dtype=torch.float64)
    if kept <= 0:
        raise ValueError(f"with dt={dt:g}, epsilon={epsilon:g} nothing rings (lower dt * epsilon below 1)")
    if not (period > 2).all():
        raise ValueError(f"a period of {period.min().item():.3g} steps is too short: it takes more than 2 to ring")
    angle = 2 * math.pi / period
    # The trace of a free step is 2 sqrt(kept) cos(angle). What it lacks to 1 + kept is the pull's share, written such
    # that it does not cancel for long periods.
    share = (1 - kept**0.5) ** 2 + 4 * kept**0.5 * torch.sin(angle / 2) ** 2
    return share / (dt**2 * (1 if damping == "explicit" else kept))


def impulse_response(dt: Value, gamma: Value, epsilon: Value, steps: int, *, damping: str = "explicit") -> Tensor:
    """What is left in y of a unit force, 0 to `steps` - 1 steps after its own, uncoupled: (..., steps)."""
    dt, gamma, epsilon = _double(dt, gamma, epsilon)
    push = dt * (1 if damping == "explicit" else _kept(dt, epsilon, damping))
    # States after 0 to n - 1 steps are the columns; n more steps of all of them are one product.
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


def log_spaced(shortest: float, longest: float, count: int) -> Tensor:
    """`count` values from `shortest` to `longest`, each the same factor longer than the one before."""
    if not 0 < shortest <= longest:
        raise ValueError(f"the shortest must be above 0 and not above the longest, got {shortest:g} and {longest:g}")
    values = torch.exp(torch.linspace(math.log(shortest), math.log(longest), count, dtype=torch.float64))
    return values.clamp(shortest, longest)  # rounding must not leave the range: the shortest may be the least there is
