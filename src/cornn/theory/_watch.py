"""A few numbers to log during training, cheap to compute."""

import torch
from torch import Tensor, nn

from cornn.functional import ACTIVATIONS
from cornn.theory._network import network_from_layer
from cornn.theory.energy import energy, energy_bound
from cornn.theory.hypotheses import assumption, eta, largest_r, row_sums, smallest_constant
from cornn.theory.measure import finite_prefix, gradient_decay, simulate

__all__ = ["watch"]


@torch.no_grad()
def watch(layer: nn.Module, input: Tensor, *, sequences: int = 2) -> dict[str, float]:
    """Measure hypotheses, energy and gradients of a layer, for logging during training.

    Simulates the first sequences once forward and once backward, in double precision on the CPU.

    Args:
        layer: A `CoRNN` or `CoRNNCell`. Of several layers, the first is measured.
        input: Input of the layer, (time, batch, features), also for layers with `batch_first`.
        sequences: Number of sequences to use.

    Returns:
        A dictionary with these entries:

        - `assumption`, `assumption_limit`: both sides of eq:assm as printed, with r = 1/2
        - `eta`, `r`, `constant`: eta for this layer's gamma, epsilon and damping, the largest r, the smallest C
        - `W_norm`, `W_z_norm`: ||W||_inf and ||W_z||_inf
        - `energy`, `energy_share`: the largest energy gamma y**2 + z**2 of a neuron, and its largest share of the bound
          (0 if there is no bound)
        - `gradient_quarter`, `gradient_half`, `gradient_first`: log10 of |dE_n/dX_k| / |dE_n/dX_n|, for k a quarter of
          the sequence before its end, in its middle, and at its first step

    Examples:
        >>> import torch
        >>> from cornn import CoRNN, theory
        >>> numbers = theory.watch(CoRNN(2, 16), torch.rand(100, 4, 2))
        >>> numbers["energy_share"] <= 1
        True
    """
    network = network_from_layer(layer)
    left, right = assumption(network)
    trajectory = finite_prefix(simulate(network, input[:, :sequences] if input.dim() == 3 else input))
    energies = energy(network, trajectory.y, trajectory.z)[1:]
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
        "energy": energies.max().item(),
        "energy_share": (energies / bound).max().item() if ACTIVATIONS[network.activation].unit_bounded else 0.0,
        "gradient_quarter": ratio[steps - 1 - (steps - 1) // 4].item(),
        "gradient_half": ratio[(steps - 1) // 2].item(),
        "gradient_first": ratio[0].item(),
    }
