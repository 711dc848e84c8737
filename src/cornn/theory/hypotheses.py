"""The paper's conditions on the weights: eq:assm (implicit damping, gamma = epsilon = 1) and eq:nassm (explicit).

With scalar dt, gamma and epsilon these are the paper's formulas. With one value per neuron, each row of the matrices is
checked against the constants of its own neuron.
"""

import torch
from torch import Tensor

from cornn.theory._network import Network

__all__ = ["assumption", "eta", "largest_r", "left_sides", "row_sums", "smallest_constant"]


def row_sums(matrix: Tensor) -> Tensor:
    """Return the absolute row sums, (rows). Their maximum is the paper's norm ||.||_inf."""
    return matrix.abs().sum(-1)


def left_sides(network: Network) -> Tensor:
    """Return the left side of eq:nassm, or of eq:assm generalised to any gamma and epsilon, per neuron: (hidden)."""
    stiff = network.push * (network.gamma + row_sums(network.W))
    return torch.maximum(stiff, network.push * row_sums(network.W_z))


def eta(network: Network) -> float:
    """Return the paper's eta: the left side of eq:assm (implicit damping) or eq:nassm (explicit)."""
    return left_sides(network).max().item()


def assumption(network: Network) -> tuple[float, float]:
    """Return both sides of eq:assm as printed, with r = 1/2, for any gamma, epsilon and damping.

    This is what the paper's figure shows.

    Returns:
        The left and right side, for the neuron where their ratio is largest.
    """
    rows = torch.maximum(1 + row_sums(network.W), row_sums(network.W_z)) * network.dt / (1 + network.dt)
    limits = network.dt**0.5
    worst = (rows / limits).argmax()
    return rows[worst].item(), limits[worst].item()


def largest_r(network: Network) -> float:
    """Return the largest r with eta <= dt**r, for dt below 1. The paper requires at least 1/2."""
    return (torch.log(left_sides(network)) / torch.log(network.dt)).min().item()


def smallest_constant(network: Network, r: float) -> float:
    """Return the smallest C of eq:nassm, eta <= C dt**r. The paper gives no value to compare it with."""
    return (left_sides(network) / network.dt**r).max().item()
