"""ReLU GRU: a gated recurrent unit whose candidate is a ReLU.

Source: Dey and Salem, Gate-variants of gated recurrent unit (GRU) neural networks, 2017 (arXiv:1701.05923).

    z, r = sigma(W x + U h + b) for the two gates
    h <- (1 - z) * h + z * relu(W_h x + U_h (r * h) + b_h)
"""

from collections.abc import Callable

import torch
from torch import Tensor

from cornn.baselines.layer import Layer
from cornn.baselines.stepwise import Step, StepwiseCell

__all__ = ["ReLUGRU", "ReLUGRUCell", "gru_step"]


def gru_step(drive: Tensor, h: Tensor, weight: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    """Return the next h; drive: (batch, 3 * hidden), weight: (3 * hidden, hidden), both update, reset, candidate.

    The reset acts before the product, as in the first GRU; PyTorch's own acts after it.
    """
    hidden = h.shape[-1]
    for_gates, for_candidate = weight.split((2 * hidden, hidden))
    gates, candidate = drive.split((2 * hidden, hidden), -1)
    z, r = torch.sigmoid(gates + h @ for_gates.T).chunk(2, -1)
    return h + z * (activation(candidate + (r * h) @ for_candidate.T) - h)


class ReLUGRUCell(StepwiseCell):
    """Weights and step of `ReLUGRU`. All of them start in U(+-1 / sqrt(hidden_size)), as PyTorch's GRU does."""

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, *, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size)
        self.add_weights(bias, {"device": device, "dtype": dtype}, gates=3)
        self.reset_parameters()

    def stepper(self) -> Step:
        weight = self.weight_hh
        return lambda drive, state, span: (gru_step(drive, state[0], weight, torch.relu),)


class ReLUGRU(Layer):
    """A GRU whose candidate is a ReLU: `output, h = layer(input)`, with the arguments and shapes of `nn.GRU`."""

    kind = ReLUGRUCell
