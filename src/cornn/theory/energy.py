"""Bounds on states and on differences of states. Derivations: docs/theory.md.

Everything follows from one inequality for one neuron. A step under a force s (any real number) takes it from (y, z) to
(y', z'). Then, with the energy E = gamma y**2 + z**2,

    E(y', z') <= E(y, z) + rate dt s**2,     rate = 1 / (2 epsilon - dt (gamma + epsilon**2))   explicit damping
                                             rate = 1 / (2 epsilon - dt gamma)                  implicit damping

if the denominator is positive, and no smaller rate is valid. The coupling enters only through s, and |s| <= 1 for tanh:
the bounds hold per neuron, for all weights and inputs.
"""

import math

import torch
from torch import Tensor

from cornn.theory._network import Network

__all__ = [
    "energy",
    "energy_bound",
    "energy_rate",
    "energy_step_limit",
    "ode_energy_bound",
    "ode_separation_bound",
    "paper_step_limit",
    "separation_bound",
    "state_bound",
]


def energy(network: Network, y: Tensor, z: Tensor) -> Tensor:
    """Return the energy gamma y**2 + z**2 per neuron; y, z and the result are (..., hidden)."""
    return network.gamma * y**2 + z**2


def _stiff(network: Network) -> Tensor:
    """Return the factor of dt in the denominator of the rate."""
    return network.gamma + network.epsilon**2 if network.damping == "explicit" else network.gamma


def energy_rate(network: Network) -> Tensor:
    """Return the rate per neuron, (hidden); infinite where dt is at or above `energy_step_limit`."""
    denominator = 2 * network.epsilon - network.dt * _stiff(network)
    return torch.where(denominator > 0, 1 / denominator, torch.inf)


def energy_step_limit(network: Network) -> Tensor:
    """Return the limit of dt per neuron below which a finite rate exists, (hidden)."""
    none = torch.where(network.epsilon > 0, math.inf, 0.0)
    return torch.where(_stiff(network) > 0, 2 * network.epsilon / _stiff(network), none)


def paper_step_limit(network: Network) -> Tensor:
    """Return the paper's limit of dt per neuron, (hidden): eq:ndt (explicit damping) or eq:dt (implicit).

    Up to this dt the rate is at most 1. A limit that is not positive means that no dt qualifies.
    """
    more = 2 * network.epsilon - 1
    return torch.where(_stiff(network) > 0, more / _stiff(network), torch.where(more >= 0, math.inf, -math.inf))


def energy_bound(network: Network, steps: int, start: Tensor | float = 0.0) -> Tensor:
    """Return a bound on the energy per neuron after 0 to `steps` steps.

    Args:
        network: The network, with tanh.
        steps: Number of steps.
        start: Energy at step 0, a number or (hidden).

    Returns:
        The bound, (steps + 1, hidden).
    """
    n = torch.arange(steps + 1, dtype=torch.float64)[:, None]
    # 0 * inf is NaN; at step 0 nothing has been added yet.
    return start + torch.where(n > 0, n * network.dt * energy_rate(network), torch.zeros((), dtype=torch.float64))


def separation_bound(network: Network, steps: int) -> Tensor:
    """Return a bound on the energy of the difference of two runs from the same start, (steps + 1, hidden).

    The forces of the two runs differ by at most 2, hence the factor 4.
    """
    return 4 * energy_bound(network, steps)


def state_bound(network: Network, steps: int) -> tuple[Tensor, Tensor]:
    """Return the smallest bounds on |y_n| and |z_n|, from a zero start, that hold for all weights and inputs.

    A neuron is a linear filter of its force, and |force| <= 1, so the bound is the sum of the absolute values of the
    impulse response. A force with matching signs comes arbitrarily close to it.

    Args:
        network: The network, with tanh.
        steps: Number of steps.

    Returns:
        Bounds on |y| and |z|, each (steps + 1, hidden).
    """
    y, z = network.dt * network.push, network.push
    ys, zs = [torch.zeros_like(y)], [torch.zeros_like(z)]
    for _ in range(steps):
        # The response of an unstable neuron overflows and becomes inf - inf.
        ys.append(ys[-1] + y.abs().nan_to_num(math.inf, math.inf))
        zs.append(zs[-1] + z.abs().nan_to_num(math.inf, math.inf))
        z = network.keep * z - network.push * network.gamma * y
        y = y + network.dt * z
    return torch.stack(ys), torch.stack(zs)


def ode_energy_bound(time: Tensor, gamma: Tensor | float, epsilon: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return bounds on y**2 and z**2 of one neuron of the ODE after `time`, from a zero start.

    The energy is at most time / (2 epsilon).
    """
    bound = time / (2 * epsilon)
    return bound / gamma, bound


def ode_separation_bound(time: Tensor, gamma: Tensor | float, epsilon: Tensor | float) -> tuple[Tensor, Tensor]:
    """Return bounds on the squared differences in y and z of two solutions of the ODE with different inputs."""
    y, z = ode_energy_bound(time, gamma, epsilon)
    return 4 * y, 4 * z
