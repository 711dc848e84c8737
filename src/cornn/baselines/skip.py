"""Skip LSTM and Skip GRU: a binary gate, trained by the straight-through estimator, skips steps of the sequence.

Source: Campos, Jou, Giro-i-Nieto, Torres and Chang, Skip RNN: learning to skip state updates, ICLR 2018.

    u = round(chance),    s <- u * S(s, x) + (1 - u) * s
    d = sigma(w . s + b)
    chance <- u * d + (1 - u) * (chance + min(d, 1 - chance))

The chance starts at one, so the first step is never skipped. The gradient of round is taken to be one.
"""

import torch
from torch import Tensor, nn

from cornn.baselines.layer import Layer
from cornn.baselines.relu_gru import gru_step
from cornn.baselines.stepwise import Step, StepwiseCell

__all__ = ["SkipGRU", "SkipGRUCell", "SkipLSTM", "SkipLSTMCell", "lstm_step", "round_straight_through"]


def round_straight_through(chance: Tensor) -> Tensor:
    """Round to 0 or 1, with the gradient of the identity."""
    # In this order the value is exact: the added term is exactly zero.
    return chance.round().detach() + (chance - chance.detach())


def lstm_step(drive: Tensor, h: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the next (h, c); gates in PyTorch's order: input, forget, cell, output."""
    i, f, g, o = (drive + h @ weight.T).chunk(4, -1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


class _SkipCell(StepwiseCell):
    """The gate around a recurrent step.

    The chance and the number of steps taken are one number per sequence; the state repeats it for every neuron.
    """

    gates: int

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, *, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size)
        where = {"device": device, "dtype": dtype}
        self.add_weights(bias, where, self.gates)
        self.weight_skip = nn.Parameter(torch.empty(hidden_size, **where))
        self.bias_skip = nn.Parameter(torch.empty(1, **where)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise like PyTorch's LSTM and GRU, and the gate's bias with 1, so that few steps are skipped."""
        super().reset_parameters(generator)
        if self.bias_skip is not None:
            self.bias_skip.fill_(1.0)

    def initial_state(self) -> Tensor:
        state = self.weight_ih.new_zeros(len(self.states), self.hidden_size)
        state[-2] = 1.0
        return state

    def advance(self, drive: Tensor, state: tuple[Tensor, ...], weight: Tensor) -> tuple[Tensor, ...]:
        """Return the state after this step, without chance and count; its last part is the input of the gate."""
        raise NotImplementedError

    def stepper(self) -> Step:
        weight, for_gate, bias = self.weight_hh, self.weight_skip.unsqueeze(-1), self.bias_skip

        def step(drive: Tensor, state: tuple[Tensor, ...], span: Tensor | None) -> tuple[Tensor, ...]:
            *old, chance, steps = state
            chance, steps = chance[:, :1], steps[:, :1]
            u = round_straight_through(chance)
            advanced = self.advance(drive, (*old,), weight)
            new = [u * now + (1 - u) * other for now, other in zip(advanced, old, strict=True)]
            total = new[-1] @ for_gate
            growth = torch.sigmoid(total if bias is None else total + bias)
            chance = u * growth + (1 - u) * (chance + torch.minimum(growth, 1 - chance))
            return *new, chance.expand_as(new[0]), (steps + u).expand_as(new[0])

        return step


class SkipLSTMCell(_SkipCell):
    """Weights and step of `SkipLSTM`. As in the authors' program the gate reads c."""

    states = ("h", "c", "chance", "taken")
    gates = 4

    def advance(self, drive: Tensor, state: tuple[Tensor, ...], weight: Tensor) -> tuple[Tensor, ...]:
        h, c = state
        return lstm_step(drive, h, c, weight)


class SkipGRUCell(_SkipCell):
    """Weights and step of `SkipGRU`. The gate reads h."""

    states = ("h", "chance", "taken")
    gates = 3

    def advance(self, drive: Tensor, state: tuple[Tensor, ...], weight: Tensor) -> tuple[Tensor, ...]:
        return (gru_step(drive, state[0], weight, torch.tanh),)


class SkipLSTM(Layer):
    """An LSTM that learns which steps to skip: `output, (h, c, chance, taken) = layer(input)`.

    Arguments and shapes are those of `nn.LSTM`. `chance` and `taken` contain one number per sequence, repeated for each
    neuron. `taken` is the number of steps that were not skipped, differentiable by the straight-through estimator: add
    `price * taken[..., 0].mean()` to the loss, with a price such as 1e-4, to make the layer skip more.

    The default initial state has a chance of one, and zeros elsewhere.
    """

    kind = SkipLSTMCell


class SkipGRU(Layer):
    """A GRU that learns which steps to skip: `output, (h, chance, taken) = layer(input)`. See `SkipLSTM`."""

    kind = SkipGRUCell
