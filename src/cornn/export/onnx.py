"""Export a trained model to ONNX: any batch size, any length, and single samples with `state`."""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from cornn._arguments import Argument, ArgumentError
from cornn._atomic import write_file
from cornn.export.equations import array
from cornn.export.graph import DOUBLE, FLOAT, INT64, Graph, Port, Shape
from cornn.export.load import TrainedBank, TrainedModel, wrap_model
from cornn.export.recurrent import LAYERS, Timing, add_layer, state_names
from cornn.layers import CoRNN
from cornn.models import Head

__all__ = ["OnnxExport", "OnnxOptions", "build_graph", "to_onnx"]

NUMBERS = {"float32": FLOAT, "float64": DOUBLE}
"""Name of a NumPy type -> its number in ONNX."""
UNTIMED = ("this estimator was fitted without times: omit ", Argument("timespans", True))


@dataclass(frozen=True)
class OnnxOptions:
    """Optional inputs and outputs of the file."""

    state: bool = False
    """Add the state as input and output, so that a sequence can be processed in pieces."""
    lengths: bool = False
    """Add the lengths of padded sequences as input."""
    timespans: bool = False
    """Add the times since the previous sample as input, for samples at uneven times."""


@dataclass(frozen=True)
class OnnxExport:
    """An exported file and its check."""

    path: Path
    size: int  # bytes
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]
    deviation: float  # largest deviation from PyTorch, relative to the largest value


def to_onnx(model: Any, path: Path | str, options: OnnxOptions = OnnxOptions()) -> OnnxExport:  # noqa: B008
    """Export a model to ONNX, after checking it in onnxruntime against PyTorch.

    Args:
        model: A `SequenceModel`, a fitted estimator, or a model from `cornn.export.load_model`.
        path: The file to write.
        options: Optional inputs and outputs.

    Returns:
        The inputs, the outputs and the largest deviation from PyTorch.

    Raises:
        ValueError: If the model cannot be exported, or deviates from PyTorch.

    Examples:
        >>> to_onnx(model, "model.onnx", OnnxOptions(state=True)).deviation
    """
    from cornn.export.check import check

    trained = wrap_model(model)
    if isinstance(trained, TrainedBank):
        from cornn.export.onnx_bank import build_bank_graph, check_bank

        if options.state or options.lengths:
            name = "state" if options.state else "lengths"
            raise ArgumentError("an oscillator bank reads whole sequences in ONNX: omit ", Argument(name, True))
        bank = trained.estimator
        if options.timespans and bank.bank_.bank.inputs.unit is None:
            raise ArgumentError(*UNTIMED)
        content, inputs, outputs = build_bank_graph(bank)
        return _finish(Path(path), content, inputs, outputs, check_bank(content, bank))
    options = validate_options(trained, options)
    content, inputs, outputs = build_graph(trained, options)
    return _finish(Path(path), content, inputs, outputs, check(content, trained, options))


def _finish(
    path: Path, content: bytes, inputs: dict[str, Port], outputs: dict[str, Port], deviation: float
) -> OnnxExport:
    write_file(path, content)
    input_shapes, output_shapes = ({name: shape for name, (_, shape) in ports.items()} for ports in (inputs, outputs))
    return OnnxExport(path, len(content), input_shapes, output_shapes, deviation)


def validate_options(trained: TrainedModel, options: OnnxOptions) -> OnnxOptions:
    """Validate the options; an estimator that was fitted with times always gets `timespans`."""
    model, layer = trained.model, trained.model.layer
    if model.head.weight.dtype not in (torch.float32, torch.float64):
        raise ValueError(
            f"the model is {model.head.weight.dtype}, but the ONNX export needs float32 or float64: convert it"
        )
    if type(layer) not in LAYERS:
        known = ", ".join(kind.__name__ for kind in LAYERS)
        raise ValueError(f"cannot export the layer {type(layer).__name__} to ONNX: supported layers are {known}")
    if isinstance(layer, nn.RNNBase) and model.head.weight.dtype == torch.float64:
        raise ValueError(f"onnxruntime has no {type(layer).__name__} in float64: convert the model with model.float()")
    if options.lengths and model.read == "every":
        raise ArgumentError("a model that is read at every step does not use lengths: omit ", Argument("lengths", True))
    if options.state and model.read == "mean":
        raise ArgumentError(
            "a model that reads the mean of all steps needs the whole sequence: omit ", Argument("state", True)
        )
    if options.timespans and not isinstance(layer, CoRNN):
        raise ArgumentError(f"{type(layer).__name__} has no time step: omit ", Argument("timespans", True))
    if trained.estimator is not None:
        timed = trained.estimator.preparation_.unit is not None
        if options.timespans and not timed:
            raise ArgumentError(*UNTIMED)
        if options.state and layer.bidirectional:
            raise ArgumentError("a bidirectional network needs the whole sequence: omit ", Argument("state", True))
        return replace(options, timespans=timed)
    return options


def build_graph(trained: TrainedModel, options: OnnxOptions) -> tuple[bytes, dict[str, Port], dict[str, Port]]:
    """Return the file content, its inputs and its outputs, which are batch-first except for the state."""
    model, estimator, layer = trained.model, trained.estimator, trained.model.layer
    numbers = array(model.head.weight).dtype
    kind = NUMBERS[numbers.name]
    graph, directions = Graph(), 2 if layer.bidirectional else 1

    width = layer.input_size if estimator is None else len(estimator.preparation_.mean)
    inputs = {"input": _input(model.encoder, width, kind)}
    words = inputs["input"][0] == INT64
    value = graph("Transpose", "input", perm=[1, 0] if words else [1, 0, 2])
    timing, ports = _timing(graph, value, options, kind)
    inputs |= ports

    names, parts = state_names(layer), layer.num_layers * directions
    shapes: dict[str, Shape] = {name: [parts, "batch", layer.hidden_size] for name in names}
    if estimator is not None:
        shapes["seen"] = ["batch", width]
    state = {name: name if options.state else _zeros(graph, shape, numbers) for name, shape in shapes.items()}
    if options.state:
        inputs |= {name: (kind, shape) for name, shape in shapes.items()}

    after = {}
    if estimator is not None:
        from cornn.export.onnx_preprocess import add_preprocessing, add_steps

        if options.timespans:
            unit, longest = np.float32(estimator.preparation_.unit), np.float32(estimator.preparation_.longest)
            spans = add_steps(graph, str(timing.spans), unit, longest, starts=not options.state)
            timing = replace(timing, spans=spans)
        value, after["seen"] = add_preprocessing(graph, estimator.preparation_, value, state["seen"], timing)
    value = _add_module(graph, model.encoder, value)
    every = model.read == "every"
    output, last = add_layer(graph, layer, value, [state[name] for name in names], timing, model.read != "last")
    if model.read == "mean":
        output = _average_steps(graph, output, timing, numbers)
    elif not every:
        ends = last[0][-directions:]
        output = graph("Concat", *ends, axis=-1) if directions == 2 else ends[0]
    output = _add_module(graph, model.head, output)
    if every:
        output = graph("Transpose", output, perm=[1, 0, 2])

    name, shape = "output", ["batch", "time"] * every + ["batch"] * (not every) + [model.head.out_features]
    if estimator is not None:
        from cornn.export.onnx_preprocess import OUTPUTS

        name, answer, shaped = OUTPUTS[type(estimator)]
        output, shape = answer(graph, estimator, output, after["seen"]), shaped(estimator)
    graph.name_output(name, output)
    outputs: dict[str, Port] = {name: (kind, shape)}
    if options.state:
        for part, ends in zip(names, last, strict=True):
            after[part] = graph("Concat", *(graph.unsqueeze(end, 0) for end in ends), axis=0)
        for part, shape in shapes.items():
            graph.name_output(f"last_{part}", after[part])
            outputs[f"last_{part}"] = (kind, shape)
    notes = {"model": trained.name}
    if estimator is not None and (classes := estimator.output_spec().classes):
        notes["classes"] = json.dumps(classes)
    return graph.to_bytes(inputs, outputs, notes), inputs, outputs


def _timing(graph: Graph, value: str, options: OnnxOptions, kind: int) -> tuple[Timing, dict[str, Port]]:
    """Add the inputs for lengths and timespans; value: (time, batch, ...)."""
    timing, ports = Timing(), dict[str, Port]()
    if options.lengths:
        ports["lengths"] = (INT64, ["batch"])
        steps = graph("Squeeze", graph("Shape", value, start=0, end=1))
        clock = graph("Range", graph.weight(np.int64(0)), steps, graph.weight(np.int64(1)))
        live = graph("Less", graph.unsqueeze(clock, 1), "lengths")
        timing = replace(timing, lengths="lengths", live=graph.unsqueeze(live, 2))
    if options.timespans:
        ports["timespans"] = (kind, ["batch", "time"])
        spans = graph("Transpose", "timespans", perm=[1, 0])
        timing = replace(timing, spans=graph.unsqueeze(spans, 2))
    return timing, ports


def _average_steps(graph: Graph, output: str, timing: Timing, numbers: np.dtype) -> str:
    """Add the mean over the steps of each sequence; output: (time, batch, features)."""
    if timing.live is None:
        return graph("ReduceMean", output, axes=[0], keepdims=0)
    first = graph.weight(np.array([0]))
    inside = graph("Where", timing.live, output, graph.weight(np.zeros((), numbers)))
    counts = graph("ReduceSum", graph("Cast", timing.live, to=NUMBERS[numbers.name]), first, keepdims=0)
    return graph("Div", graph("ReduceSum", inside, first, keepdims=0), counts)


def _input(encoder: nn.Module, width: int, kind: int) -> Port:
    """Return the input port: words or features."""
    # The first module that has weights determines it: what comes before keeps the shape.
    first = next((part for part in encoder.modules() if isinstance(part, nn.Embedding | nn.Linear)), None)
    if isinstance(first, nn.Embedding):
        return INT64, ["batch", "time"]
    return kind, ["batch", "time", width if first is None else first.in_features]


def _zeros(graph: Graph, shape: Shape, numbers: np.dtype) -> str:
    """Add zeros of a shape with a batch dimension."""
    batch = graph("Shape", "input", start=0, end=1)
    sizes = [batch if size == "batch" else graph.weight(np.array([size])) for size in shape]
    return graph("Expand", graph.weight(np.zeros((), numbers)), graph("Concat", *sizes, axis=0))


def _linear(graph: Graph, module: nn.Linear, value: str) -> str:
    return graph.linear(value, array(module.weight), None if module.bias is None else array(module.bias))


def _embedding(graph: Graph, module: nn.Embedding, value: str) -> str:
    if module.max_norm is not None:
        raise ValueError("cannot export an embedding with max_norm to ONNX: use one without")
    return graph("Gather", graph.weight(array(module.weight)), value, axis=0)


def _sequential(graph: Graph, module: nn.Sequential, value: str) -> str:
    for part in module:
        value = _add_module(graph, part, value)
    return value


MODULES: dict[type[nn.Module], Callable[[Graph, Any, str], str]] = {
    nn.Identity: lambda graph, module, value: value,
    nn.Dropout: lambda graph, module, value: value,
    nn.Linear: _linear,
    Head: _linear,
    nn.Embedding: _embedding,
    nn.ReLU: lambda graph, module, value: graph("Relu", value),
    nn.Tanh: lambda graph, module, value: graph("Tanh", value),
    nn.Sequential: _sequential,
}
"""Modules that an encoder may consist of."""


def _add_module(graph: Graph, module: nn.Module, value: str) -> str:
    if type(module) not in MODULES:
        known = ", ".join(kind.__name__ for kind in MODULES)
        raise ValueError(f"cannot export the encoder {type(module).__name__} to ONNX: supported modules are {known}")
    return MODULES[type(module)](graph, module, value)
