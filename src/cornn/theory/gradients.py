"""Bounds on the growth of gradients, for all inputs, from the weights alone. Derivations: docs/theory.md.

The Jacobian of the state X_n = (y_n, z_n) with respect to X_k is a product of n - k one-step Jacobians. Each depends on
the input only through the slopes of tanh, which lie between 0 and 1. Products that would overflow are
bounded by their logarithms.
"""

import math

import torch
from torch import Tensor

from cornn.theory._network import Network
from cornn.theory._threads import spectral_norm
from cornn.theory.energy import energy_rate, state_bound
from cornn.theory.hypotheses import row_sums
from cornn.theory.small_gain import log_growth_bound

__all__ = ["energy_growth", "loss_gradient_bounds", "ode_gradient_bound", "ode_gradient_constant", "step_norm"]


def step_norm(network: Network) -> float:
    """Return the largest possible max norm of a one-step Jacobian; step_norm**(n - k) bounds a product.

    Each row of a one-step Jacobian depends on one slope only, and its absolute row sum is convex in that slope, so the
    maximum is at slope 0 or 1.

    Args:
        network: The network.

    Returns:
        The norm induced by the maximum norm.
    """
    dt, push, keep, gamma = network.dt, network.push, network.keep, network.gamma
    eye = torch.eye(network.hidden_size, dtype=torch.float64)
    largest = 0.0
    for slope in (0.0, 1.0):
        B = push[:, None] * (slope * network.W - gamma[:, None] * eye)
        C = keep[:, None] * eye + push[:, None] * slope * network.W_z
        y_rows = row_sums(eye + dt[:, None] * B) + dt * row_sums(C)
        largest = max(largest, y_rows.max().item(), (row_sums(B) + row_sums(C)).max().item())
    return largest


def energy_growth(network: Network) -> float:
    """Return a bound on the growth per step of perturbations in the energy norm, sqrt(sum of gamma y**2 + z**2).

    A one-step Jacobian has an energy norm of at most 1 + energy_growth, and a product one of at most
    (1 + energy_growth)**(n - k). For small dt the growth is dt times a constant that does not depend on dt, so that the
    product stays below e**(constant * time).

    Args:
        network: The network.

    Returns:
        The growth per step; infinite where no finite energy rate exists.
    """
    scale = torch.sqrt(energy_rate(network) * network.dt)[:, None]
    if not (scale.isfinite().all() and (network.gamma > 0).all()):
        return math.inf
    coupling = scale * torch.cat((network.W / torch.sqrt(network.gamma), network.W_z), 1)
    squared = spectral_norm(coupling).item() ** 2
    return math.sqrt(1 + squared) - 1


def loss_gradient_bounds(
    network: Network,
    steps: int,
    *,
    target: float = 0.0,
    largest_input: float = 1.0,
    log_growth: Tensor | None = None,
) -> dict[str, float]:
    """Return bounds on |dE/dtheta| for the paper's loss (eq:lf1), E = sum_n |y_n - target_n|**2 / (2 steps).

    Args:
        network: The network, with tanh and a zero start.
        steps: Number of steps.
        target: Largest |target| of a neuron, the paper's Y bar.
        largest_input: Largest |u|, for the bound on V.
        log_growth: The result of `small_gain.log_growth_bound`, if it is known.

    Returns:
        "V", "W", "W_z" and "b" -> a bound on every entry of the gradient.
    """
    ys, zs = state_bound(network, steps)
    misfit = torch.linalg.vector_norm(ys[1:] + target, dim=1)
    # One entry moves one neuron, its z by push and its y by dt * push, times what the entry multiplies.
    first = (network.push * torch.sqrt(1 + network.dt**2)).max()
    ones = torch.ones(steps, dtype=torch.float64)
    factors = {"V": largest_input * ones, "W": ys.amax(1)[:-1], "W_z": zs.amax(1)[:-1], "b": ones}
    log_growth = log_growth_bound(network, steps) if log_growth is None else log_growth
    growth = torch.exp(log_growth[:steps]).flip(0)
    rows = torch.stack(list(factors.values()))
    positive = rows > 0
    # Sum factor times growth up to each step; zeros stay zero where the growth overflows.
    sums = [
        torch.where(positive[:, : n + 1], growth[steps - n - 1 :] * rows[:, : n + 1], 0.0).sum(1) for n in range(steps)
    ]
    return dict(zip(factors, (misfit * first * torch.stack(sums, 1)).mean(1).tolist(), strict=True))


def ode_gradient_constant(network: Network) -> float:
    """Return the constant C of the corrected prop:n3_cont.

    It is the C in G' <= C G + forcing, with G = sum of y_theta**2 + z_theta**2 / gamma.
    """
    weights = 1 / network.gamma
    W, W_z = network.W.abs(), network.W_z.abs()
    on_y = (weights[:, None] * W).sum(0)
    on_z = W.sum(1) + W_z.sum(1) + network.gamma * (weights[:, None] * W_z).sum(0) + 1 - 2 * network.epsilon
    return max(on_y.max().item(), on_z.max().item(), 0.0)


def ode_gradient_bound(network: Network, time: Tensor, start: float = 0.0) -> Tensor:
    """Return a bound on G = sum of y_theta**2 + z_theta**2 / gamma of the ODE, for theta an entry of W.

    Args:
        network: The network.
        time: Times, (...).
        start: G at time 0.

    Returns:
        The bound, (...).
    """
    C = ode_gradient_constant(network)
    grown = C * time
    # (e**x - 1 - x) / x**2, which cancels for small x.
    shape = (
        torch.where(grown < 1e-3, 0.5 + grown / 6 + grown**2 / 24, (torch.expm1(grown) - grown) / grown**2) * time**2
    )
    force = (1 / network.gamma).max() * (1 / (2 * network.epsilon * network.gamma)).max()
    return (start * torch.exp(C * time) if start else 0.0) + force * shape
