"""Evaluate the paper's formulas for a product of Jacobians (eq:vg2) and for the gradient derived from it (eq:vg8).

The paper states remainders of order dt and dt**3. Measured, they grow with the square of the time between the two
steps, so the formulas are accurate at short lags only.
"""

import torch
from torch import Tensor

from cornn.theory._network import Network
from cornn.theory.measure import Trajectory, jacobian, jacobian_blocks

__all__ = ["leading_gradient", "leading_remainder"]


@torch.no_grad()
def leading_remainder(network: Network, trajectory: Trajectory) -> tuple[Tensor, Tensor]:
    """Return the max norms of dX_n/dX_0 and of the remainder of eq:vg2, for n = 1, 2, ...

    Args:
        network: The network.
        trajectory: A trajectory of this network.

    Returns:
        Norms of the exact Jacobian and of the remainder, each (time, batch).
    """
    batch, m = trajectory.slopes.shape[1:]
    dt = network.dt[:, None]
    eye = torch.eye(m, dtype=torch.float64).expand(batch, m, m)
    exact = torch.eye(2 * m, dtype=torch.float64).expand(batch, 2 * m, 2 * m)
    for_velocity, for_position, sums = eye, torch.zeros_like(eye), torch.zeros_like(eye)
    norms, remainders = [], []
    for slope in trajectory.slopes:
        B, C = jacobian_blocks(network, slope)
        exact = jacobian(network, slope) @ exact
        for_velocity, for_position = C @ for_velocity, C @ for_position + B
        sums = sums + for_velocity
        leading = torch.cat((torch.cat((eye, dt * sums), -1), torch.cat((for_position, for_velocity), -1)), -2)
        norms.append(exact.abs().sum(-1).amax(-1))
        remainders.append((exact - leading).abs().sum(-1).amax(-1))
    return torch.stack(norms), torch.stack(remainders)


@torch.no_grad()
def leading_gradient(network: Network, trajectory: Trajectory) -> Tensor:
    """Return the leading terms of eq:vg8 without their last factor y_{k-1}^j, for E_n = |y_n|**2 / 2.

    They approximate the gradient for the activation's argument at step k, which equals dE_n^(k)/db.

    Args:
        network: The network.
        trajectory: A trajectory of this network.

    Returns:
        The leading terms, (time, batch, hidden); entry k - 1 belongs to step k.
    """
    last = carried = trajectory.y[-1]
    gradients = []
    for slope in trajectory.slopes.flip(0):
        gradients.append(network.push * network.dt * slope * carried)
        _, C = jacobian_blocks(network, slope)
        carried = last + (carried.unsqueeze(-2) @ C).squeeze(-2)
    return torch.stack(gradients).flip(0)
