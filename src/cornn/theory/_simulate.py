"""The states of a network along an input."""

from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.functional import ACTIVATIONS, advance
from cornn.theory._network import Network

__all__ = ["Trajectory", "finite_prefix", "simulate"]


@dataclass(frozen=True)
class Trajectory:
    """The states of a network along an input.

    Attributes:
        input: The input, (time, batch, features).
        y: Positions, (time + 1, batch, hidden); index 0 is the initial state.
        z: Velocities, (time + 1, batch, hidden).
        slopes: Derivatives of the activation, (time, batch, hidden).
    """

    input: Tensor
    y: Tensor
    z: Tensor
    slopes: Tensor

    def __len__(self) -> int:
        return len(self.slopes)


@torch.no_grad()
def simulate(network: Network, input: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Trajectory:
    """Simulate a network on an input, in double precision on the CPU.

    Args:
        network: The network.
        input: Input, (time, batch, features).
        state: Initial (y, z), each (batch, hidden). Default: zeros.

    Returns:
        The trajectory.

    Raises:
        ValueError: If the input has another shape, no steps, no sequences, or values that are not finite,
            or if the state has another shape.

    Examples:
        >>> import torch
        >>> from cornn import theory
        >>> network = theory.network(torch.eye(3), torch.eye(3), dt=0.1, gamma=1.0, epsilon=1.0)
        >>> theory.measure.simulate(network, torch.rand(50, 4, 3)).y.shape
        torch.Size([51, 4, 3])
    """
    if input.dim() != 3 or input.shape[2] != network.V.shape[1]:
        raise ValueError(f"input must be (time, batch, {network.V.shape[1]}), got {tuple(input.shape)}")
    if 0 in input.shape[:2]:
        raise ValueError(f"input has shape {tuple(input.shape)}: it needs at least one step and one sequence")
    input = input.detach().to("cpu", torch.float64)
    if not input.isfinite().all():
        raise ValueError("input contains NaN or infinite values: replace them before measuring")
    drive = input @ network.V.T + network.b
    rest = torch.zeros_like(drive[0])
    y, z = (part.detach().to("cpu", torch.float64) for part in state or (rest, rest))
    for name, part in (("y", y), ("z", z)):
        if part.shape != rest.shape:
            raise ValueError(f"state {name} has shape {tuple(part.shape)}, expected {tuple(rest.shape)}")
    coupling = torch.cat((network.W, network.W_z), 1).T.contiguous()
    activation = ACTIVATIONS[network.activation]
    ys, zs, arguments = [y], [z], []
    for now in drive.unbind(0):
        argument = torch.addmm(now, torch.cat((y, z), 1), coupling)
        force = activation.value(argument)
        y, z = advance(force, y, z, network.dt, network.gamma, network.epsilon, damping=network.damping)
        ys.append(y)
        zs.append(z)
        arguments.append(argument)
    return Trajectory(input, torch.stack(ys), torch.stack(zs), activation.slope(torch.stack(arguments)))


def finite_prefix(trajectory: Trajectory, limit: float = 1e100) -> Trajectory:
    """Truncate a trajectory before its first state above `limit`, since unstable networks overflow.

    Args:
        trajectory: The trajectory.
        limit: Largest |y| and |z| to keep.

    Returns:
        The trajectory up to there, at least one step.
    """
    inside = ((trajectory.y.abs() < limit) & (trajectory.z.abs() < limit)).all(-1).all(-1)
    steps = len(trajectory) if inside.all() else max(1, inside.long().argmin().item() - 1)
    return Trajectory(
        trajectory.input[:steps], trajectory.y[: steps + 1], trajectory.z[: steps + 1], trajectory.slopes[:steps]
    )
