"""The paper's formulas as they are printed, whether they stand or not: `register` says which do.

Labels are those of paper.tex. m neurons, n and k steps, Y the largest |target|.
"""

import math

import torch
from torch import Tensor

from cornn.theory.network import Network

__all__ = [
    "approximate_product",
    "energy_bound",
    "explicit_loss_gradient",
    "explicit_step_limit",
    "lag_gradient",
    "loss_gradient",
    "ode_gradient",
    "order_of_gradient",
    "safe_training_steps",
    "step_gradient",
    "strict_product",
    "sum_gradient",
]


def energy_bound(network: Network, steps: int) -> Tensor:
    """eq:enb, eq:nenb: m n dt, on |y|**2 + |z|**2 for gamma = 1 and on gamma |y|**2 + |z|**2 in general."""
    return network.dt.sum() * torch.arange(steps + 1, dtype=torch.float64)


def explicit_step_limit(gamma: float, epsilon: float, c: float) -> float:
    """eq:ndt1. Its largest value over c is eq:ndt, at c = epsilon (2 epsilon - 1) / (gamma + epsilon**2)."""
    return min(c / epsilon, ((2 - c) * epsilon - 1) / gamma)


def strict_product(dt: float, r: float, lag: int) -> float:
    """The product in eq:norm2, (1 + 3 dt**r)**(n - k)."""
    return (1 + 3 * dt**r) ** lag


def approximate_product(dt: float, r: float, lag: int) -> float:
    """What eq:norm2 goes on with: 1 + 3 (n - k) dt**r."""
    return 1 + 3 * lag * dt**r


def lag_gradient(state: float, target: float, factor: float, dt: float, r: float, lag: int) -> float:
    """eq:norm20, on |dE_n^(k)/dtheta|: state and target are maximum norms, factor that of what theta multiplies."""
    return (state + target) * approximate_product(dt, r, lag) * dt / (1 + dt) * factor


def step_gradient(m: int, target: float, dt: float) -> float:
    """eq:norm5, on |dE_n^(k)/dtheta|."""
    return 3 * dt / (1 + dt) * (m + math.sqrt(m) * target)


def sum_gradient(m: int, target: float, dt: float, n: int) -> float:
    """eq:norm6, on |dE_n/dtheta|."""
    return n * step_gradient(m, target, dt)


def loss_gradient(m: int, target: float) -> float:
    """prop:3, eq:gbd, on |dE/dtheta|."""
    return 1.5 * (m + math.sqrt(m) * target)


def explicit_loss_gradient(m: int, target: float, gamma: float, constant: float) -> float:
    """prop:n3, eq:ngbd, on |dE/dtheta|; `constant` is the C of eq:nassm."""
    return constant * loss_gradient(m, target) / gamma


def ode_gradient(network: Network, time: Tensor, start: float = 0.0) -> Tensor:
    """prop:n3_cont, eq:nbd3, on |y_theta|**2 + |z_theta|**2 / gamma; for one gamma."""
    gamma = network.gamma[0]
    columns = [matrix.abs().sum(0).max() for matrix in (network.W, network.W_z)]
    C = torch.maximum(columns[0] / gamma, 1 + columns[1])
    grown = start * torch.exp(C * time) if start else 0.0
    return grown + network.hidden_size * time**2 / (2 * gamma**2)


def order_of_gradient(dt: float, k: int, gamma: float, epsilon: float) -> tuple[float, float, float]:
    """prop:n4, eq:ngulb: the terms whose orders are claimed, at step k, constants left out."""
    delta = 1 / (1 + epsilon * dt)
    slope = 1 / math.cosh(math.sqrt(k * dt) * (1 + dt)) ** 2 / gamma
    return slope * dt**1.5, slope * delta * (1 + delta) * dt**2.5, dt**3


def safe_training_steps(m: int, target: float, learning_rate: float, dt: float, r: float = 0.5) -> float:
    """eq:gd3: for how many steps of gradient descent eq:assm is said to hold."""
    return (1 + dt) / (learning_rate * loss_gradient(m, target) * m * dt ** (1 - r))
