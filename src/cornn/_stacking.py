"""The interface of `nn.LSTM` around any recurrent cell: layers, directions, packed input, dropout, checkpoints.

A cell is a module without submodules that has `states` (the names of the tensors in its state),
`reset_parameters(generator)`, and

    sequence(input, state, *, timespans, lengths, every, backend, precision) -> (output, parts)

for time-major input (time, batch, features) and a state (states, batch, hidden); None is the initial state of the cell.
The parts are the tensors of the last state, each (1, batch, hidden). They are not views: users may change them
in place.
"""

import warnings
from collections.abc import Callable
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from torch.utils.checkpoint import checkpoint

from cornn._layer_arguments import arrange_timespans, check_count, check_input, check_lengths, check_state, check_tensor
from cornn._torch_private import call_pre_hooks, current_transform_level, fix_weights
from cornn.engine import check_backend, check_precision

__all__ = ["Stack"]

NO_STEPS = "input has no time steps: a sequence needs at least one"


def _equal(first: Tensor | None, other: Tensor | None) -> bool:
    return first is other if first is None or other is None else torch.equal(first, other)


def _reverse(sequence: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each sequence within its own length."""
    if lengths is None:
        return sequence.flip(0)
    clock = torch.arange(sequence.shape[0], device=sequence.device).unsqueeze(1)
    source = torch.where(clock < lengths, lengths - 1 - clock, clock)
    source = source.reshape(source.shape + (1,) * (sequence.dim() - 2)).expand(sequence.shape)
    return sequence.gather(0, source)


class Stack(nn.Module):
    """Layers and directions of cells, behind the interface of `nn.LSTM`.

    Args:
        cell: Function that builds a cell for a given number of input features.
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
    """

    oscillating = False
    """Whether the cells are those of `CoRNN`, which streams can run."""

    def __init__(
        self,
        cell: Callable[[int], nn.Module],
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
    ) -> None:
        super().__init__()
        check_count("num_layers", num_layers)
        if isinstance(dropout, bool) or not isinstance(dropout, Real) or not 0 <= dropout <= 1:
            raise ValueError(f"dropout must be a probability between 0 and 1, got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn("dropout acts between layers, so it has no effect with num_layers=1", stacklevel=3)
        if checkpoint_every is not None:
            check_count("checkpoint_every", checkpoint_every)
        check_backend(backend)
        check_precision(precision)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.checkpoint_every = checkpoint_every
        self.backend = backend
        self.precision = precision
        directions = 2 if bidirectional else 1
        self.cells: Any = nn.ModuleDict()  # the interface of a cell is described at the top of this file
        for layer in range(num_layers):
            features = input_size if layer == 0 else hidden_size * directions
            for reverse in range(directions):
                self.cells[_name(layer, bool(reverse))] = cell(features)

    def cell(self, layer: int = 0, reverse: bool = False) -> Any:
        """Return the cell of one layer and direction; it shares its parameters with this layer.

        Args:
            layer: Index of the stacked layer.
            reverse: Whether to return the cell of the backward direction.
        """
        name = _name(layer, reverse)
        if name not in self.cells:
            raise ValueError(f"no cell {name!r}: this layer has {', '.join(self.cells)}")
        return self.cells[name]

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise all weights again.

        Args:
            generator: A CPU generator; PyTorch's default one if None. The same seed gives the same weights on any
                device.
        """
        for cell in self.cells.values():
            cell.reset_parameters(generator)

    def extra_repr(self) -> str:
        usual = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0.0, "bidirectional": False}
        usual |= {"checkpoint_every": None, "backend": "auto", "precision": "exact"}
        changed = [f"{name}={getattr(self, name)!r}" for name in usual if getattr(self, name) != usual[name]]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *changed])

    proj_size = 0  # as in `nn.LSTM`; a projection of the output is not available

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters of each layer and direction, as in `nn.LSTM`."""
        return [list(cell.parameters()) for cell in self.cells.values()]

    def flatten_parameters(self) -> None:
        """Do nothing; code written for `nn.LSTM` calls this."""

    def forward(
        self,
        input: Tensor | PackedSequence,
        state: Tensor | tuple[Tensor, ...] | None = None,
        *,
        hx: Tensor | tuple[Tensor, ...] | None = None,
        timespans: Tensor | PackedSequence | None = None,
    ) -> tuple[Tensor | PackedSequence, Tensor | tuple[Tensor, ...]]:
        """Run the layer over a sequence.

        Args:
            input: Shape `(time, batch, input_size)`, `(batch, time, input_size)` with `batch_first`,
                `(time, input_size)` unbatched, or a `PackedSequence`.
            state: Initial state: the tensors of the state, each of shape `(num_layers * directions, batch,
                hidden_size)`, or `(num_layers * directions, hidden_size)` unbatched. Zeros if None.
            hx: Another name of `state`, as in `nn.LSTM`.
            timespans: Durations of the steps, for data sampled at irregular times, in units of the usual step: shape
                `(time)`, or one per step and sequence in the layout of the input. Both directions use the same value
                at a step. They are factors on dt; with the default constants of `CoRNN` they are exact durations.

        Returns:
            The output, shape `(time, batch, directions * hidden_size)` in the layout of the input, and the state
            after the last step, in the shapes of `state`.
        """
        if hx is not None:
            if state is not None:
                raise ValueError("state and hx are two names of one argument: give one of them")
            state = hx
        if state is None and timespans is None and self._is_single() and type(input) is Tensor and input.dim() == 3:
            return self._run_single(input)
        return self._run(input, state, timespans, every=True)

    def last_state(
        self,
        input: Tensor | PackedSequence,
        state: Tensor | tuple[Tensor, ...] | None = None,
        *,
        timespans: Tensor | PackedSequence | None = None,
        lengths: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        """Return only the last state of `forward`, without storing the output of every step.

        Args:
            input: As in `forward`.
            state: As in `forward`.
            timespans: As in `forward`.
            lengths: Number of steps of each sequence of a padded input, shape `(batch)`, instead of packing it. The
                padding has no effect, but must be finite.

        Returns:
            The tensors of the state, in the shapes of `state`.
        """
        return self._run(input, state, timespans, every=False, lengths=lengths)[1]

    def _is_single(self) -> bool:
        return self.num_layers == 1 and not self.bidirectional and self.checkpoint_every is None

    def _run_single(self, input: Tensor) -> tuple[Tensor, Tensor | tuple[Tensor, ...]]:
        """Run the usual call as `_run` does, without the other cases: their checks would slow short sequences."""
        cell = self.cells["l0"]
        if self.batch_first:
            input = input.transpose(0, 1)
        call_pre_hooks(cell, input)
        input = check_input(input, cell.weight_ih, (3,), "")
        if input.shape[0] == 0:
            raise ValueError(NO_STEPS)
        options = {"every": True, "backend": self.backend, "precision": self.precision}
        output, parts = cell.sequence(input, None, timespans=None, lengths=None, **options)
        state = parts if len(parts) > 1 else parts[0]
        return output.transpose(0, 1) if self.batch_first else output, state

    def _run(self, input, state, timespans, every: bool, lengths: Tensor | None = None):
        packed, unbatched, batch_first, order, back = None, False, self.batch_first, None, None
        if isinstance(input, PackedSequence):
            if lengths is not None:
                raise ValueError("a packed input already contains its lengths: omit lengths")
            packed, order, back = input, input.sorted_indices, input.unsorted_indices
            input, ends = pad_packed_sequence(PackedSequence(packed.data, packed.batch_sizes))
            lengths = ends.to(input.device)
            if isinstance(timespans, PackedSequence):
                if not torch.equal(timespans.batch_sizes, packed.batch_sizes) or not _equal(
                    timespans.sorted_indices, order
                ):
                    raise ValueError(
                        "timespans and input are packed with different lengths: pack both with the same lengths"
                    )
                timespans, batch_first = pad_packed_sequence(timespans)[0], False
        elif isinstance(timespans, PackedSequence):
            raise ValueError("timespans are packed but the input is not: pack both or neither")
        else:
            check_tensor(input)
            if input.dim() == 2:
                input, unbatched, batch_first = input.unsqueeze(1), True, False
            elif batch_first and input.dim() == 3:
                input = input.transpose(0, 1)
        first_cell = next(iter(self.cells.values()))
        call_pre_hooks(first_cell, input)  # the weights of the previous call may have another type or device
        layout = "(batch, time, features)" if self.batch_first else "(time, batch, features)"
        input = check_input(input, first_cell.weight_ih, (3,), f"{layout}, or (time, features) unbatched")
        if input.shape[0] == 0:
            raise ValueError(NO_STEPS)
        if timespans is not None:
            timespans = arrange_timespans(timespans, input, batch_first)
        if lengths is not None and packed is None:
            lengths = check_lengths(lengths, input)

        names = first_cell.states
        shape = (len(self.cells), input.shape[1], self.hidden_size)
        if unbatched and state is not None:
            parts = check_state(state, names, (shape[0], shape[2]), input)
            state = tuple(part.unsqueeze(1) for part in parts)
        first = None if state is None else torch.stack(check_state(state, names, shape, input))
        if order is not None:
            first = None if first is None else first.index_select(2, order)
            timespans = None if timespans is None else timespans.index_select(1, order)

        output, parts = self._layers(input, first, timespans, lengths, every)

        if back is not None:
            parts = tuple(part.index_select(1, back) for part in parts)
        if unbatched:
            parts = tuple(part.squeeze(1).clone() for part in parts)  # a view could not be changed in place
        state = parts if len(names) > 1 else parts[0]
        if not every:
            return output, state
        if packed is not None:
            data = pack_padded_sequence(output, ends).data
            return PackedSequence(data, packed.batch_sizes, order, back), state
        if unbatched:
            return output.squeeze(1), state
        return output.transpose(0, 1) if batch_first else output, state

    def _layers(self, input, first, timespans, lengths, every: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run all cells; return the output and the parts of the last state, (cells, batch, hidden) each."""
        output, ends = input, []
        reversed_spans = None
        if self.bidirectional and timespans is not None:
            reversed_spans = _reverse(timespans, lengths)
        for layer in range(self.num_layers):
            each_step = every or layer < self.num_layers - 1
            start = None if first is None else first[:, len(ends)]
            forwards, end = self._cell(_name(layer, False), output, start, timespans, lengths, each_step)
            ends.append(end)
            if self.bidirectional:
                start = None if first is None else first[:, len(ends)]
                mirrored = _reverse(output, lengths)
                backwards, end = self._cell(_name(layer, True), mirrored, start, reversed_spans, lengths, each_step)
                ends.append(end)
                forwards = torch.cat((forwards, _reverse(backwards, lengths)), -1) if each_step else forwards
            output = forwards
            if layer < self.num_layers - 1:
                output = nn.functional.dropout(output, self.dropout, self.training)
        if len(ends) == 1:
            return output, ends[0]
        return output, tuple(torch.cat(parts) for parts in zip(*ends, strict=True))

    def _cell(self, name, input, state, timespans, lengths, every: bool) -> tuple[Tensor, tuple[Tensor, ...]]:
        """Run one cell over the sequence; with `checkpoint_every`, keep only the states between segments."""
        cell, size = self.cells[name], self.checkpoint_every
        if name != "l0":  # its hooks have been called before the input was checked
            call_pre_hooks(cell, input)
        options = {"every": every, "backend": self.backend, "precision": self.precision}
        if size is None or input.shape[0] <= size:
            return cell.sequence(input, state, timespans=timespans, lengths=lengths, **options)
        # PyTorch's checkpoint would fail later, with an unrelated message.
        if torch.is_grad_enabled() and not torch.compiler.is_compiling() and current_transform_level():
            raise NotImplementedError(
                "checkpoint_every does not work with gradients under torch.vmap and torch.func: "
                "set the layer's checkpoint_every to None"
            )
        weights = []
        if not torch.compiler.is_compiling():
            cell, weights = fix_weights(cell)

        def run_segment(part, state, span, rest, *_) -> tuple[Tensor, tuple[Tensor, ...]]:
            return cell.sequence(part, state, timespans=span, lengths=rest, **options)

        outputs = []
        # split, not slicing: the gradient of a slice is as long as the whole sequence.
        parts = input.split(size)
        spans = [None] * len(parts) if timespans is None else timespans.split(size)
        for number, (part, span) in enumerate(zip(parts, spans, strict=True)):
            rest = None if lengths is None else (lengths - number * size).clamp(0, len(part))
            # Without keywords: autograd notices changes only of the tensors that a checkpoint gets by position.
            arguments = part, state, span, rest, *weights
            output, ends = checkpoint(run_segment, *arguments, use_reentrant=False, preserve_rng_state=False)
            state = torch.cat(ends)
            if every:
                outputs.append(output)
        return torch.cat(outputs) if every else output, ends


def _name(layer: int, reverse: bool) -> str:
    return f"l{layer}_reverse" if reverse else f"l{layer}"
