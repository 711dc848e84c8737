"""A layer of any registered update: `cornn.engine.register`."""

import torch
from torch import nn

from cornn import engine
from cornn._random import uniform_
from cornn.baselines.layer import Arguments, Cell, Layer

__all__ = ["CustomRNN", "CustomRNNCell"]


class CustomRNNCell(Cell):
    """Weights and step of `CustomRNN`. `constants` has one row per parameter of the update."""

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, update: str = "leaky", device=None, dtype=None
    ) -> None:
        super().__init__(input_size, hidden_size)
        rule = engine.find_update(update)
        self.update, self.states = update, rule.state
        rows, where = rule.drives * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(rows, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(rule.products * hidden_size, rule.states * hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(rows, **where)) if bias else None
        self.constants = nn.Parameter(torch.empty(len(rule.parameters), hidden_size, **where))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw weights and biases from U(±1/sqrt(hidden)), and set the constants to the update's initial values."""
        bound = self.hidden_size**-0.5
        for parameter in (self.weight_ih, self.weight_hh, self.bias):
            uniform_(parameter, -bound, bound, generator)
        for row, value in zip(self.constants, engine.find_update(self.update).parameters.values(), strict=True):
            row.fill_(value)

    def arguments(self) -> Arguments:
        return Arguments(self.weight_ih, self.bias, self.weight_hh, self.constants)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, update={self.update!r}"


class CustomRNN(Layer):
    """A layer of an update of your own: `output, state = layer(input)`, with the arguments and shapes of `nn.LSTM`.

    Weights, biases and the parameters of the update, one per neuron, are trained. The state has the tensors that the
    update names. A saved model stores the name of the update: register it again before you load the model. The other
    arguments are those of `CoRNN`.

    Args:
        update: Name of an update in `cornn.engine.UPDATES`.

    Examples:
        >>> layer = CustomRNN(3, 64, update="fastgrnn")
        >>> output, h = layer(torch.randn(100, 8, 3))
    """

    kind = CustomRNNCell
