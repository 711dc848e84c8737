"""The paper's formulas as printed, whether true or not; `register` has the verdicts.

Labels are those of the paper's source. m is the number of neurons, n and k are steps, Y is the largest |target|.
"""

import math

import torch
from torch import Tensor

from cornn.theory._network import Network

__all__ = [
    "approximate_product",
    "early_gradient",
    "energy_bound",
    "explicit_loss_gradient",
    "explicit_step_limit",
    "lag_gradient",
    "late_gradient",
    "loss_gradient",
    "ode_gradient",
    "order_of_gradient",
    "safe_training_steps",
    "step_gradient",
    "strict_product",
    "sum_gradient",
    "weight_gradient",
]


def energy_bound(network: Network, steps: int) -> Tensor:
    """Return eq:enb, eq:nenb: the bound m n dt on gamma |y|**2 + |z|**2, after 0 to `steps` steps, (steps + 1)."""
    return network.dt.sum() * torch.arange(steps + 1, dtype=torch.float64)


def explicit_step_limit(gamma: float, epsilon: float, c: float) -> float:
    """Return eq:ndt1, a limit on dt.

    Its maximum over c is eq:ndt, at c = epsilon (2 epsilon - 1) / (gamma + epsilon**2).
    """
    return min(c / epsilon, ((2 - c) * epsilon - 1) / gamma)


def strict_product(dt: float, r: float, lag: int) -> float:
    """Return the product in eq:norm2, (1 + 3 dt**r)**(n - k), for n - k = `lag`."""
    return (1 + 3 * dt**r) ** lag


def approximate_product(dt: float, r: float, lag: int) -> float:
    """Return the approximation of that product in eq:norm2, 1 + 3 (n - k) dt**r, for n - k = `lag`."""
    return 1 + 3 * lag * dt**r


def lag_gradient(state: float, target: float, factor: float, dt: float, r: float, lag: int) -> float:
    """Return eq:norm20, a bound on |dE_n^(k)/dtheta|.

    Args:
        state: Maximum norm of y_n.
        target: Maximum norm of the target.
        factor: Maximum norm of the factor of theta.
        dt: Step size.
        r: Exponent of eq:assm.
        lag: n - k.
    """
    return (state + target) * approximate_product(dt, r, lag) * dt / (1 + dt) * factor


def weight_gradient(m: int, target: float, dt: float, r: float, n: int, k: int) -> float:
    """Return eq:norm3, a bound on |dE_n^(k)/dW|."""
    states = m * math.sqrt(n * k) * dt + target * math.sqrt(m * k * dt)
    return states * approximate_product(dt, r, n - k) * dt / (1 + dt)


def early_gradient(m: int, target: float, dt: float) -> float:
    """Return eq:norm30, a bound on |dE_n^(k)/dW| for lags of a few steps."""
    return dt / (1 + dt) * (m + math.sqrt(m) * target)


def late_gradient(m: int, target: float, dt: float, r: float) -> float:
    """Return eq:norm4, a bound on |dE_n^(k)/dW| for k much smaller than n."""
    return 3 * dt ** (r + 0.5) / (1 + dt) * (m + math.sqrt(m) * target)


def step_gradient(m: int, target: float, dt: float) -> float:
    """Return eq:norm5, a bound on |dE_n^(k)/dtheta|."""
    return 3 * dt / (1 + dt) * (m + math.sqrt(m) * target)


def sum_gradient(m: int, target: float, dt: float, n: int) -> float:
    """Return eq:norm6, a bound on |dE_n/dtheta|."""
    return n * step_gradient(m, target, dt)


def loss_gradient(m: int, target: float) -> float:
    """Return prop:3, eq:gbd, a bound on |dE/dtheta|."""
    return 1.5 * (m + math.sqrt(m) * target)


def explicit_loss_gradient(m: int, target: float, gamma: float, constant: float) -> float:
    """Return prop:n3, eq:ngbd, a bound on |dE/dtheta|; `constant` is the C of eq:nassm."""
    return constant * loss_gradient(m, target) / gamma


def ode_gradient(network: Network, time: Tensor, start: float = 0.0) -> Tensor:
    """Return prop:n3_cont, eq:nbd3, a bound on |y_theta|**2 + |z_theta|**2 / gamma; all neurons share one gamma."""
    gamma = network.gamma[0]
    columns = [matrix.abs().sum(0).max() for matrix in (network.W, network.W_z)]
    C = torch.maximum(columns[0] / gamma, 1 + columns[1])
    grown = start * torch.exp(C * time) if start else 0.0
    return grown + network.hidden_size * time**2 / (2 * gamma**2)


def order_of_gradient(dt: float, k: int, gamma: float, epsilon: float) -> tuple[float, float, float]:
    """Return prop:n4, eq:ngulb: the terms of the claimed order at step k, without constants."""
    delta = 1 / (1 + epsilon * dt)
    slope = 1 / math.cosh(math.sqrt(k * dt) * (1 + dt)) ** 2 / gamma
    return slope * dt**1.5, slope * delta * (1 + delta) * dt**2.5, dt**3


def safe_training_steps(m: int, target: float, learning_rate: float, dt: float, r: float = 0.5) -> float:
    """Return eq:gd3: the number of steps of gradient descent for which eq:assm is claimed to hold."""
    return (1 + dt) / (learning_rate * loss_gradient(m, target) * m * dt ** (1 - r))
