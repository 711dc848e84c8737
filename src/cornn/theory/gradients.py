"""How fast gradients can grow: bounds that stand, for all inputs, from the weights alone. Derivations: docs/theory.md.

A Jacobian is that of the state X_n = (y_n, z_n) for X_k, a product of n - k step Jacobians, each of which depends on
the inputs only through the slopes of tanh, between 0 and 1. Bounds are returned as natural logarithms, since they
leave the range of floating point.
"""

import math

import torch
from torch import Tensor

from cornn.theory.energy import energy_rate, state_bound
from cornn.theory.hypotheses import row_sums
from cornn.theory.network import Network
from cornn.theory.small_gain import log_growth_bound

__all__ = ["energy_growth", "loss_gradient_bounds", "ode_gradient_bound", "ode_gradient_constant", "step_norm"]


def step_norm(network: Network) -> float:
    """The largest norm, for maximum norms, that a step Jacobian can have: (step_norm)**(n - k) is the strict product.

    A row of a step Jacobian depends on one slope only and the sum of its moduli is convex in it, so that the largest
    is found with a slope of 0 or 1.
    """
    dt, push, kept, gamma = network.dt, network.push, network.kept, network.gamma
    eye = torch.eye(network.hidden_size, dtype=torch.float64)
    largest = 0.0
    for slope in (0.0, 1.0):
        B = push[:, None] * (slope * network.W - gamma[:, None] * eye)
        C = kept[:, None] * eye + push[:, None] * slope * network.W_z
        y_rows = row_sums(eye + dt[:, None] * B) + dt * row_sums(C)
        largest = max(largest, y_rows.max().item(), (row_sums(B) + row_sums(C)).max().item())
    return largest


def energy_growth(network: Network) -> float:
    """A step Jacobian's norm, for the norm sqrt(sum of gamma y**2 + z**2), is 1 + energy_growth at the most.

    (1 + energy_growth)**(n - k) bounds a product. For small dt it is dt times a constant that does not depend on dt,
    so that the product stays below e**(constant * time). Infinite where no energy rate exists.
    """
    scale = torch.sqrt(energy_rate(network) * network.dt)[:, None]
    if not (scale.isfinite().all() and (network.gamma > 0).all()):
        return math.inf
    coupling = scale * torch.cat((network.W / torch.sqrt(network.gamma), network.W_z), 1)
    squared = torch.linalg.matrix_norm(coupling, 2).item() ** 2
    return math.sqrt(1 + squared) - 1


def loss_gradient_bounds(
    network: Network, steps: int, *, target: float = 0.0, largest_input: float = 1.0
) -> dict[str, float]:
    """Bounds on |dE/dtheta| for an entry theta of V, W, W_z or b, of the paper's loss (eq:lf1),
    E = sum_n |y_n - target_n|**2 / (2 steps).

    target: the largest |target| of a neuron, the paper's Y bar.
    largest_input: the largest |u|, which the bound for V needs.
    """
    ys, zs = state_bound(network, steps)
    misfit = torch.linalg.vector_norm(ys[1:] + target, dim=1)
    # One entry moves one neuron, its z by push and its y by dt * push, times what the entry multiplies.
    first = (network.push * torch.sqrt(1 + network.dt**2)).max()
    ones = torch.ones(steps, dtype=torch.float64)
    factors = {"V": largest_input * ones, "W": ys.amax(1)[:-1], "W_z": zs.amax(1)[:-1], "b": ones}
    growth = torch.exp(log_growth_bound(network, steps)[:steps])

    def grown(factor: Tensor) -> Tensor:
        """What is 0 stays 0, also where the growth leaves the range of numbers."""
        return torch.where(factor > 0, growth[: len(factor)].flip(0) * factor, 0.0).sum()

    found = {}
    for name, factor in factors.items():
        sums = torch.stack([grown(factor[: n + 1]) for n in range(steps)])
        found[name] = (misfit * first * sums).mean().item()
    return found


def ode_gradient_constant(network: Network) -> float:
    """The C of the corrected prop:n3_cont: G' <= C G + forcing, for G = sum y_theta**2 + z_theta**2 / gamma."""
    weights = 1 / network.gamma
    W, W_z = network.W.abs(), network.W_z.abs()
    on_y = (weights[:, None] * W).sum(0)
    on_z = W.sum(1) + W_z.sum(1) + network.gamma * (weights[:, None] * W_z).sum(0) + 1 - 2 * network.epsilon
    return max(on_y.max().item(), on_z.max().item(), 0.0)


def ode_gradient_bound(network: Network, time: Tensor, start: float = 0.0) -> Tensor:
    """A bound on sum y_theta**2 + z_theta**2 / gamma of the ODE after `time`, for theta an entry of W."""
    C = ode_gradient_constant(network)
    grown = C * time
    # (e**x - 1 - x) / x**2, which cancels for small x.
    shape = (
        torch.where(grown < 1e-3, 0.5 + grown / 6 + grown**2 / 24, (torch.expm1(grown) - grown) / grown**2) * time**2
    )
    force = (1 / network.gamma).max() * (1 / (2 * network.epsilon * network.gamma)).max()
    return (start * torch.exp(C * time) if start else 0.0) + force * shape
