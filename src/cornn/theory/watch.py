"""A few numbers that say how a layer stands, cheap enough to be logged while it is trained."""

import torch
from torch import Tensor, nn

from cornn.theory.energy import energy, energy_bound
from cornn.theory.hypotheses import assumption, eta, largest_r, row_sums, smallest_constant
from cornn.theory.measure import finite_prefix, gradient_decay, simulate
from cornn.theory.network import network_from_layer

__all__ = ["watch"]


@torch.no_grad()
def watch(layer: nn.Module, input: Tensor, *, sequences: int = 2) -> dict[str, float]:
    """The hypotheses, the energy and the gradient by lag of a layer now, of several the first, on the first `sequences`
    of an input.

    input: (time, batch, features), the layer's own, whatever `batch_first` says. It is followed once forwards and once
        backwards in double precision on the CPU.

    assumption, assumption_limit: the two sides of eq:assm as printed, with r = 1/2
    eta, r, constant: the left side with this layer's gamma, epsilon and damping, the largest r and the smallest C
    W_norm, W_z_norm: ||W||_inf, ||W_z||_inf
    energy, energy_share: the largest gamma y**2 + z**2 of a neuron, and the largest share of its bound (0 if there is
        none)
    gradient_quarter, gradient_half, gradient_first: log10 of |dE_n/dX_k| over |dE_n/dX_n| for k three quarters, one
        half and none of the way from the first step to the last
    """
    network = network_from_layer(layer)
    left, right = assumption(network)
    trajectory = finite_prefix(simulate(network, input[:, :sequences]))
    own = energy(network, trajectory.y, trajectory.z)[1:]
    bound = energy_bound(network, len(trajectory))[1:, None]
    ratio = gradient_decay(network, trajectory).mean(1)
    steps = len(ratio)
    return {
        "assumption": left,
        "assumption_limit": right,
        "eta": eta(network),
        "r": largest_r(network),
        "constant": smallest_constant(network, 0.5),
        "W_norm": row_sums(network.W).max().item(),
        "W_z_norm": row_sums(network.W_z).max().item(),
        "energy": own.max().item(),
        "energy_share": (own / bound).max().item() if network.activation == "tanh" else 0.0,
        "gradient_quarter": ratio[steps - 1 - (steps - 1) // 4].item(),
        "gradient_half": ratio[(steps - 1) // 2].item(),
        "gradient_first": ratio[0].item(),
    }
