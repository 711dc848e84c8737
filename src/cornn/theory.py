"""The linear picture of one oscillator: how long a neuron remembers, and which stiffness makes it so.

Without coupling and input, a step multiplies (y, z) by a 2 x 2 matrix. Its larger eigenvalue, lam, is what a neuron
keeps of its past in a step, and log(1/2) / log(lam) is its half-life in steps.
"""

import math

import torch
from torch import Tensor

__all__ = ["half_life", "log_spaced", "shortest_half_life", "stiffness"]


def _kept_velocity(dt: float, epsilon: float, damping: str) -> float:
    """The determinant of the step, which is also what it keeps of z: 1 - dt * epsilon, or 1 / (1 + dt * epsilon)."""
    return 1 - dt * epsilon if damping == "explicit" else 1 / (1 + dt * epsilon)


def half_life(dt: float, gamma: float | Tensor, epsilon: float, *, damping: str = "explicit") -> Tensor:
    """Steps after which an uncoupled neuron has lost half of what it held; infinite for gamma = 0."""
    kept = _kept_velocity(dt, epsilon, damping)
    gamma = torch.as_tensor(gamma, dtype=torch.float64)
    pull = dt**2 * gamma * (1 if damping == "explicit" else kept)
    half_trace = (1 + kept - pull) / 2
    root = torch.sqrt(torch.clamp(half_trace**2 - kept, min=0))
    largest = torch.where(
        half_trace**2 >= kept, half_trace.abs() + root, torch.full_like(half_trace, max(kept, 0) ** 0.5)
    )
    return math.log(0.5) / torch.log(largest)


def shortest_half_life(dt: float, epsilon: float, *, damping: str = "explicit") -> float:
    """Steps; at critical damping. A stiffer neuron rings, but forgets no faster."""
    kept = _kept_velocity(dt, epsilon, damping)
    return 0.0 if kept <= 0 else math.log(0.5) / math.log(kept**0.5)


def stiffness(half_life: float | Tensor, dt: float, epsilon: float, *, damping: str = "explicit") -> Tensor:
    """The gamma with which an overdamped neuron has this half-life (in steps): `half_life` turned round, exactly."""
    kept = _kept_velocity(dt, epsilon, damping)
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
    return torch.exp(torch.linspace(math.log(shortest), math.log(longest), count, dtype=torch.float64))
