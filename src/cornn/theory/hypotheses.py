"""The paper's conditions on the weights: eq:assm (implicit damping, gamma = epsilon = 1) and eq:nassm (explicit).

With one value of dt, gamma and epsilon for all neurons these are the paper's formulas; with one a neuron, each row of
the matrices is held against the constants of its own neuron.
"""

import torch
from torch import Tensor

from cornn.theory.network import Network

__all__ = ["assumption", "eta", "largest_r", "left_sides", "row_sums", "smallest_constant"]


def row_sums(matrix: Tensor) -> Tensor:
    """Their largest is the matrix's norm for maximum norms, the paper's ||.||_inf."""
    return matrix.abs().sum(-1)


def left_sides(network: Network) -> Tensor:
    """The left side of eq:nassm, or of eq:assm with its ones put back as gamma and epsilon; one value a neuron."""
    stiff = network.push * (network.gamma + row_sums(network.W))
    return torch.maximum(stiff, network.push * row_sums(network.W_z))


def eta(network: Network) -> float:
    """The left side of eq:assm (implicit damping) or eq:nassm (explicit)."""
    return left_sides(network).max().item()


def assumption(network: Network) -> tuple[float, float]:
    """Both sides of eq:assm as it is printed, with r = 1/2, whatever gamma, epsilon and damping are: the paper's figure
    has them. Of the neuron where the left side is most of the right one."""
    rows = torch.maximum(1 + row_sums(network.W), row_sums(network.W_z)) * network.dt / (1 + network.dt)
    limits = network.dt**0.5
    most = (rows / limits).argmax()
    return rows[most].item(), limits[most].item()


def largest_r(network: Network) -> float:
    """The largest r with eta <= dt**r. The paper asks for 1/2 at least."""
    return (torch.log(left_sides(network)) / torch.log(network.dt)).min().item()


def smallest_constant(network: Network, r: float) -> float:
    """The smallest C of eq:nassm, eta <= C dt**r. The paper gives no value to compare it with."""
    return (left_sides(network) / network.dt**r).max().item()
