"""Base classes of the rivals: cells, cells with one product per step for the engine, and layers like `nn.LSTM`."""

from collections.abc import Callable
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from cornn import engine
from cornn._layer_arguments import check_input, check_sizes, check_state
from cornn._random import uniform_
from cornn._stacking import Stack

__all__ = ["Arguments", "Cell", "Layer", "RecurrentCell", "skew"]


class Arguments(NamedTuple):
    """The weights of a cell as the engine takes them: see `engine.run`."""

    input_weight: Tensor
    bias: Tensor | None
    weight: Tensor
    parameters: Tensor


def skew(values: Tensor, size: int) -> Tensor:
    """Return the skew-symmetric matrix whose upper triangle, row by row, is `values`."""
    row, column = torch.triu_indices(size, size, 1, device=values.device).unbind(0)
    upper = values.new_zeros(size * size).scatter(0, row * size + column, values).reshape(size, size)
    return upper - upper.mT


class RecurrentCell(nn.Module):
    """The sizes and the names of a cell. A subclass creates its parameters, which include `weight_ih`."""

    states: tuple[str, ...] = ("h",)
    recurrent_weights: tuple[str, ...] = ("weight_hh",)  # those with the learning rate `recurrent_rate`
    weight_ih: Tensor

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        check_sizes(input_size, hidden_size)
        self.input_size = input_size
        self.hidden_size = hidden_size

    def add_weights(self, bias: bool, where: dict, gates: int = 1) -> None:
        """Create weight_ih, weight_hh and bias, with `gates` rows per neuron."""
        rows = gates * self.hidden_size
        self.weight_ih = nn.Parameter(torch.empty(rows, self.input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(rows, self.hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(rows, **where)) if bias else None

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters from U(±1/sqrt(hidden)), as PyTorch's recurrent layers do."""
        for parameter in self.parameters():
            uniform_(parameter, -(self.hidden_size**-0.5), self.hidden_size**-0.5, generator)

    def extra_repr(self) -> str:
        return f"{self.input_size}, {self.hidden_size}"


class Cell(RecurrentCell):
    """One step of a network with one product per step: `state = cell(input, state)`.

    A subclass names its `update`, a key of `engine.UPDATES`, and returns its parameters as the arguments of the engine
    in `arguments`.
    """

    update: str

    def arguments(self) -> Arguments:
        raise NotImplementedError(f"{type(self).__name__} must define arguments()")

    def _constants(self, *values: float) -> Tensor:
        """Return constants that are not trained, (parameters, hidden)."""
        return torch.stack([self.weight_ih.new_full((self.hidden_size,), value) for value in values])

    def forward(self, input: Tensor, state: Tensor | tuple[Tensor, ...] | None = None) -> Tensor | tuple[Tensor, ...]:
        """Compute the next state.

        Args:
            input: Shape `(batch, input_size)` or `(input_size)`.
            state: The state, a tensor or a tuple of tensors, each of shape `(batch, hidden_size)` or
                `(hidden_size)`; zeros if None.
        """
        input = check_input(input, self.weight_ih, ranks=(1, 2), kind="(batch, features) or (features)")
        parts = check_state(state, self.states, (*input.shape[:-1], self.hidden_size), input)
        with engine.no_autocast(input.device.type):
            input_weight, bias, weight, parameters = self.arguments()
            drive = nn.functional.linear(input, input_weight, bias)
            after = engine.find_update(self.update).step(drive, parts, weight, parameters.unbind(0))
        return after[0] if len(after) == 1 else after

    def sequence(self, input: Tensor, state: Tensor | None, **options) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run all steps; return the output of every step (possibly empty if not `every`) and the last state."""
        with engine.no_autocast(input.device.type):
            arguments = self.arguments()
        return engine.run(input, state, *arguments, update=engine.find_update(self.update), **options)


class Layer(Stack):
    """A layer of cells of one kind, with the arguments of `nn.LSTM`.

    Args:
        input_size: Number of input features.
        hidden_size: Number of neurons per layer and direction.
        num_layers: Number of stacked layers.
        bias: Whether the cells have a bias.
        batch_first: Whether input and output have shape `(batch, time, features)`.
        dropout: Dropout probability between stacked layers.
        bidirectional: Whether to run a second set of cells backwards in time.
        checkpoint_every: Steps between the states kept for the backward pass; all are kept if None.
        backend: "auto", "reference", or one of `cornn.engine.BACKENDS`.
        precision: One of `cornn.engine.PRECISIONS`.
        device: Device of the parameters.
        dtype: Type of the parameters.
        **options: Arguments of the cell, as the class lists them.
    """

    kind: ClassVar[Callable[..., nn.Module]]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        checkpoint_every: int | None = None,
        backend: str = "auto",
        precision: str = "exact",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        **options,
    ) -> None:
        where = {"device": device or torch.get_default_device(), "dtype": dtype or torch.get_default_dtype()}
        super().__init__(
            lambda features: type(self).kind(features, hidden_size, bias, **where, **options),
            input_size,
            hidden_size,
            num_layers,
            bias,
            batch_first,
            dropout,
            bidirectional,
            checkpoint_every=checkpoint_every,
            backend=backend,
            precision=precision,
        )
        self.options = options
