"""Recurrent layers in an ONNX graph: ours as scans of their equations, PyTorch's as ONNX operators."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from cornn import baselines
from cornn._stacking import Stack
from cornn.export.equations import array, equation
from cornn.export.graph import INT32, Graph
from cornn.layers import CoRNN

__all__ = ["LAYERS", "Timing", "add_layer", "state_names"]


@dataclass(frozen=True)
class Timing:
    """Names of the values that describe the timing of each step, or None."""

    lengths: str | None = None  # (batch)
    live: str | None = None  # (time, batch, 1), whether the step is within the sequence
    spans: str | None = None  # (time, batch, 1), factors on dt


LayerResult = tuple[str, list[list[str]]]
"""Outputs of every step, (time, batch, directions * hidden), or "" if not requested; and for each component of the
state its last value for each layer and direction, (batch, hidden)."""


def add_layer(graph: Graph, layer: nn.Module, input: str, state: list[str], timing: Timing, every: bool) -> LayerResult:
    """Add a layer over (time, batch, features); components of `state`: (layers * directions, batch, hidden)."""
    return LAYERS[type(layer)](graph, layer, input, state, timing, every)


def _stack(graph: Graph, layer: Stack, input: str, state: list[str], timing: Timing, every: bool) -> LayerResult:
    output, ends = input, []
    for number in range(layer.num_layers):
        every_step = every or number < layer.num_layers - 1
        outputs = []
        for reverse in (False, True) if layer.bidirectional else (False,):
            before = [graph.part(part, len(ends)) for part in state]
            end, collected = _scan(graph, layer.cell(number, reverse), output, before, timing, every_step, reverse)
            ends.append(end)
            outputs += collected
        output = graph("Concat", *outputs, axis=-1) if len(outputs) > 1 else "".join(outputs)
    return output, [list(part) for part in zip(*ends, strict=True)]


def _scan(
    graph: Graph, cell: Any, input: str, before: list[str], timing: Timing, every: bool, reverse: bool
) -> tuple[list[str], list[str]]:
    """Scan one cell; return the last state, and the first component at every step if `every`."""
    V, b, step_of_cell = equation(graph, cell)
    extras = [name for name in (timing.spans, timing.live) if name is not None]

    def step(body: Graph, states: list[str], elements: list[str]) -> tuple[list[str], list[str]]:
        rest: dict[str | None, str] = dict(zip(extras, elements[1:], strict=True))
        after = step_of_cell(body, states, elements[0], rest.get(timing.spans))
        if timing.live is not None:
            # A sequence keeps its state past its end; backwards, it keeps the initial state until its end is reached.
            pairs = zip(after, states, strict=True)
            after = [body("Where", rest[timing.live], new, old) for new, old in pairs]
        return after, after[:1] if every else []

    return graph.scan(step, before, [graph.linear(input, V, b), *extras], reverse=reverse)


def _pytorch_layer(operator: str, gates: tuple[int, ...], **attributes: int) -> Callable[..., LayerResult]:
    """Return a function that adds an ONNX operator; `gates`: position in PyTorch of each ONNX gate."""

    def run(graph: Graph, layer: nn.RNNBase, input: str, state: list[str], timing: Timing, every: bool) -> LayerResult:
        directions, hidden, output = 2 if layer.bidirectional else 1, layer.hidden_size, input
        options = dict(attributes, hidden_size=hidden, direction="bidirectional" if directions == 2 else "forward")
        if operator == "RNN":
            options["activations"] = [layer.nonlinearity.capitalize()] * directions  # pyright: ignore
        lengths = "" if timing.lengths is None else graph("Cast", timing.lengths, to=INT32)
        last: list[list[str]] = [[] for _ in state]

        def weights(kind: str, number: int) -> np.ndarray:
            names = [f"{kind}_l{number}{suffix}" for suffix in ("", "_reverse")[:directions]]
            tables = [array(getattr(layer, name)) for name in names]
            blocks = [table.reshape(len(gates), hidden, -1)[list(gates)] for table in tables]
            return np.stack([block.reshape(table.shape) for block, table in zip(blocks, tables, strict=True)])

        for number in range(layer.num_layers):
            maps = [graph.weight(weights(kind, number)) for kind in ("weight_ih", "weight_hh")]
            biases = [weights(kind, number) for kind in ("bias_ih", "bias_hh")] if layer.bias else []
            maps.append(graph.weight(np.concatenate(biases, 1)) if biases else "")
            places = graph.weight(np.arange(number * directions, (number + 1) * directions))
            before = [graph("Gather", part, places, axis=0) for part in state]
            steps, *ends = graph.several(operator, 1 + len(state), output, *maps, lengths, *before, **options)
            for part, end in zip(last, ends, strict=True):
                part += [graph.part(end, direction) for direction in range(directions)]
            # (time, directions, batch, hidden) -> (time, batch, directions * hidden)
            flat = graph.weight(np.array([0, 0, directions * hidden]))
            output = graph("Reshape", graph("Transpose", steps, perm=[0, 2, 1, 3]), flat)
        return output, last

    return run


LAYERS: dict[type[nn.Module], Callable[..., LayerResult]] = {
    CoRNN: _stack,
    nn.LSTM: _pytorch_layer("LSTM", (0, 3, 1, 2)),
    nn.GRU: _pytorch_layer("GRU", (1, 0, 2), linear_before_reset=1),
    nn.RNN: _pytorch_layer("RNN", (0,)),
    baselines.TanhRNN: _stack,
    baselines.FastRNN: _stack,
    baselines.FastGRNN: _stack,
    baselines.AntisymmetricRNN: _stack,
    baselines.GatedAntisymmetricRNN: _stack,
    baselines.ExpRNN: _stack,
    baselines.DTRIV: _stack,
    baselines.LipschitzRNN: _stack,
    baselines.HORN: _stack,
    baselines.CustomRNN: _stack,
}
"""Layer that can be exported -> function that adds it to a graph."""


def state_names(layer: nn.Module) -> tuple[str, ...]:
    """Return the names of the state components of a layer."""
    if isinstance(layer, Stack):
        return layer.cell().states
    return ("h", "c") if isinstance(layer, nn.LSTM) else ("h",)
