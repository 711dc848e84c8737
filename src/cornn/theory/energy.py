"""How large states, and differences of states, can become. Derivations: docs/theory.md.

Everything here follows from one inequality for one neuron. Let it make a step from (y, z) to (y', z') under a force s,
any real number. Then, with the energy E = gamma y**2 + z**2,

    E(y', z') <= E(y, z) + rate dt s**2,     rate = 1 / (2 epsilon - dt (gamma + epsilon**2))   explicit damping
                                             rate = 1 / (2 epsilon - dt gamma)                  implicit damping

as long as the denominator is positive, and no smaller rate will do. The coupling enters only through s, and |s| <= 1
for tanh: the bounds hold neuron by neuron, for all weights and inputs.
"""

import math

import torch
from torch import Tensor

from cornn.theory.network import Network

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
    """gamma y**2 + z**2, neuron by neuron; y and z are (..., hidden)."""
    return network.gamma * y**2 + z**2


def _stiff(network: Network) -> Tensor:
    """What a larger dt takes off the denominator of the rate."""
    return network.gamma + network.epsilon**2 if network.damping == "explicit" else network.gamma


def _slack(network: Network) -> Tensor:
    """The denominator of the rate."""
    return 2 * network.epsilon - network.dt * _stiff(network)


def energy_rate(network: Network) -> Tensor:
    """The rate of each neuron, infinite where dt is at or beyond `energy_step_limit`."""
    slack = _slack(network)
    return torch.where(slack > 0, 1 / slack, torch.inf)


def energy_step_limit(network: Network) -> Tensor:
    """The dt of each neuron below which a rate exists."""
    none = torch.where(network.epsilon > 0, math.inf, 0.0)
    return torch.where(_stiff(network) > 0, 2 * network.epsilon / _stiff(network), none)


def paper_step_limit(network: Network) -> Tensor:
    """eq:ndt (explicit) and eq:dt (implicit): the dt up to which the rate is 1 at most. Not positive: never."""
    more = 2 * network.epsilon - 1
    return torch.where(_stiff(network) > 0, more / _stiff(network), torch.where(more >= 0, math.inf, -math.inf))


def energy_bound(network: Network, steps: int, start: Tensor | float = 0.0) -> Tensor:
    """A bound on the energy of each neuron after 0 to `steps` steps, (steps + 1, hidden). `start` is that of step 0."""
    n = torch.arange(steps + 1, dtype=torch.float64)[:, None]
    # 0 * inf is not a number; before the first step nothing has been added.
    return start + torch.where(n > 0, n * network.dt * energy_rate(network), torch.zeros((), dtype=torch.float64))


def separation_bound(network: Network, steps: int) -> Tensor:
    """A bound on the energy of the difference of two runs from the same start: forces differ by 2 at most."""
    return 4 * energy_bound(network, steps)


def state_bound(network: Network, steps: int) -> tuple[Tensor, Tensor]:
    """The least bounds on |y_n| and |z_n| from a zero start that hold for all weights and inputs; (steps + 1, hidden).

    A neuron is a linear filter of its force, and |force| <= 1: what it can reach is the sum of the moduli of its
    impulse response. A force of the right signs comes as near to it as one likes.
    """
    y, z = network.dt * network.push, network.push
    ys, zs = [torch.zeros_like(y)], [torch.zeros_like(z)]
    for _ in range(steps):
        # An unstable neuron leaves the range of numbers, and its response is inf - inf then.
        ys.append(ys[-1] + y.abs().nan_to_num(math.inf, math.inf))
        zs.append(zs[-1] + z.abs().nan_to_num(math.inf, math.inf))
        z = network.kept * z - network.push * network.gamma * y
        y = y + network.dt * z
    return torch.stack(ys), torch.stack(zs)


def ode_energy_bound(time: Tensor, gamma: Tensor | float, epsilon: Tensor | float) -> tuple[Tensor, Tensor]:
    """Bounds on y**2 and z**2 of one neuron of the ODE after `time` from a zero start: time / (2 epsilon) as energy."""
    whole = time / (2 * epsilon)
    return whole / gamma, whole


def ode_separation_bound(time: Tensor, gamma: Tensor | float, epsilon: Tensor | float) -> tuple[Tensor, Tensor]:
    """The same for the squared differences of two solutions of the ODE under different inputs."""
    y, z = ode_energy_bound(time, gamma, epsilon)
    return 4 * y, 4 * z
