"""The linear picture of one oscillator: how it swings, when it is stable, how long it remembers.

Without coupling and input, a step multiplies (y, z) by the 2 x 2 matrix

    [ 1 - dt pull   dt kept ]        explicit damping: kept = 1 - dt epsilon,        pull = dt gamma
    [ -pull         kept    ]        implicit damping: kept = 1 / (1 + dt epsilon),  pull = dt gamma kept

whose determinant is `kept`. Its larger eigenvalue is what a neuron keeps of its past in a step. All functions take
numbers or tensors that broadcast, and return float64 tensors.
"""

import math
from typing import TypeVar

import torch
from torch import Tensor

__all__ = [
    "damping_ratio",
    "half_life",
    "log_spaced",
    "natural_frequency",
    "shortest_half_life",
    "spectral_radius",
    "stability_limit",
    "step_matrix",
    "stiffness",
]

Value = float | Tensor


def _double(*values: Value) -> list[Tensor]:
    return [torch.as_tensor(value, dtype=torch.float64) for value in values]


Single = TypeVar("Single", float, Tensor)


def _kept(dt: Single, epsilon: Single, damping: str) -> Single:
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
    return epsilon / (2 * torch.sqrt(gamma))


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
    gamma, epsilon = _double(gamma, epsilon)
    root = torch.sqrt(epsilon**2 + 4 * gamma)
    # The first form of the explicit limit cancels for small gamma; this one is the same number.
    return 4 / (root + epsilon) if damping == "explicit" else (root + epsilon) / gamma


def half_life(dt: Value, gamma: Value, epsilon: Value, *, damping: str = "explicit") -> Tensor:
    """Steps after which an uncoupled neuron has lost half of what it held; infinite if it loses nothing."""
    radius = spectral_radius(dt, gamma, epsilon, damping=damping)
    # Without stiffness the radius is 1, but for a rounding.
    holds = (radius >= 1) | (torch.as_tensor(gamma) == 0)
    return torch.where(holds, math.inf, math.log(0.5) / torch.log(radius))


def shortest_half_life(dt: float, epsilon: float, *, damping: str = "explicit") -> float:
    """Steps; at critical damping. A stiffer neuron rings, but forgets no faster."""
    kept = _kept(dt, epsilon, damping)
    return 0.0 if kept <= 0 else math.log(0.5) / math.log(kept**0.5)


def stiffness(half_life: Value, dt: float, epsilon: float, *, damping: str = "explicit") -> Tensor:
    """The gamma with which an overdamped neuron has this half-life (in steps): `half_life` turned round, exactly."""
    kept = _kept(dt, epsilon, damping)
    half_life = torch.as_tensor(half_life, dtype=torch.float64)
    shortest = shortest_half_life(dt, epsilon, damping=damping)
    if (half_life < shortest).any():
        raise ValueError(
            f"a half-life of {half_life.min().item():.3g} steps is too short for dt={dt:g}, epsilon={epsilon:g}: "
            f"the shortest is {shortest:.3g} (raise dt * epsilon)"
        )
    lam = 0.5 ** (1 / half_life)
    return (1 - lam) * (lam - kept) / (dt**2 * lam * (1 if damping == "explicit" else kept))


def log_spaced(shortest: float, longest: float, count: int) -> Tensor:
    """`count` values from `shortest` to `longest`, each the same factor longer than the one before."""
    values = torch.exp(torch.linspace(math.log(shortest), math.log(longest), count, dtype=torch.float64))
    return values.clamp(shortest, longest)  # rounding must not leave the range: the shortest may be the least there is
