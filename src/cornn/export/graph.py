"""Build an ONNX graph node by node; the steps of a network are one `Scan`.

PyTorch's exporter would need onnxscript, its private prototype `scan`, and a second version of the model around it.
This module only needs the onnx package, takes milliseconds, and reads a sequence backwards with a flag of Scan. Every
export is compared with PyTorch (`cornn.export.check`).
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from cornn import __version__
from cornn._extras import missing_extra

try:
    from onnx import TensorProto, checker, helper, numpy_helper
except ImportError as error:
    raise missing_extra("onnx", "the ONNX export needs onnx and onnxruntime") from error

__all__ = ["DOUBLE", "FLOAT", "INT32", "INT64", "OPSET", "Graph", "Port", "Shape", "Step"]

FLOAT, DOUBLE, INT32, INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64

OPSET = 17
"""From 2022: supported by the runtimes in use, with all operators that are needed."""

Step = Callable[["Graph", list[str], list[str]], tuple[list[str], list[str]]]
"""Function (graph of the step, states, elements of this step) -> (next states, outputs of this step); all names."""


Shape = list[str | int]
"""Sizes; dynamic ones are names."""

Port = tuple[int, Shape]
"""ONNX element type and shape of an input or output."""


class Graph:
    """An ONNX graph under construction. Values are names, each assigned once.

    Args:
        outer: For the step of a scan, the surrounding graph, whose values the step may use.
    """

    def __init__(self, outer: "Graph | None" = None) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = [] if outer is None else outer.weights
        self._numbers = count() if outer is None else outer._numbers

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator and return its result."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, results: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [self._name(operator.lower()) for _ in range(results)]
        # Nodes need names: older runtimes derive the names of fused nodes from them.
        self.nodes.append(helper.make_node(operator, list(inputs), names, names[0], **attributes))
        return names

    def name_output(self, name: str, value: str) -> None:
        """Name a value as an output of the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name))

    def weight(self, values: ArrayLike) -> str:
        array = np.asarray(values)
        # ascontiguousarray would turn a scalar into a vector.
        self.weights.append(numpy_helper.from_array(array.copy(), name := self._name("weight")))
        return name

    def linear(self, input: str, weight: np.ndarray, bias: np.ndarray | None) -> str:
        """Apply a linear map; weight: (outputs, inputs) as in PyTorch, input: (..., inputs)."""
        product = self("MatMul", input, self.weight(weight.T))
        return product if bias is None else self("Add", product, self.weight(bias))

    def part(self, value: str, index: int) -> str:
        """Return value[index] along the first dimension."""
        return self("Gather", value, self.weight(np.int64(index)), axis=0)

    def unsqueeze(self, value: str, axis: int) -> str:
        return self("Unsqueeze", value, self.weight(np.array([axis])))

    def scan(
        self, step: Step, states: Sequence[str], sequences: Sequence[str], *, reverse: bool = False
    ) -> tuple[list[str], list[str]]:
        """Run `step` over the first dimension of the sequences, backwards if `reverse`.

        Returns:
            The last states, and the sequences of outputs, which run forwards in time in both cases.
        """
        body = Graph(self)
        before = [self._name("state") for _ in states]
        elements = [self._name("element") for _ in sequences]
        after, collected = step(body, before, elements)
        leaving: list[str] = []
        for value in (*after, *collected):
            # Each output of a body needs its own name.
            leaving.append(body("Identity", value) if value in leaving else value)
        enter, leave = (
            [helper.make_empty_tensor_value_info(name) for name in names] for names in (before + elements, leaving)
        )
        options: dict[str, Any] = {"num_scan_inputs": len(sequences)}
        if reverse:
            options["scan_input_directions"] = [1] * len(sequences)
        if reverse and collected:
            options["scan_output_directions"] = [1] * len(collected)
        step_graph = helper.make_graph(body.nodes, "step", enter, leave)
        results = self.several("Scan", len(leaving), *states, *sequences, body=step_graph, **options)
        return results[: len(after)], results[len(after) :]

    def to_bytes(self, inputs: dict[str, Port], outputs: dict[str, Port], notes: dict[str, str]) -> bytes:
        """Return the checked file content; `notes` become its metadata."""
        enter, leave = (
            [helper.make_tensor_value_info(name, *port) for name, port in side.items()] for side in (inputs, outputs)
        )
        used = _names_of_inputs(self.nodes)
        weights = [weight for weight in self.weights if weight.name in used]
        graph = helper.make_graph(self.nodes, "cornn", enter, leave, weights)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="cornn", producer_version=__version__)
        model.ir_version = helper.find_min_ir_version_for([opset])
        helper.set_model_props(model, notes)
        checker.check_model(model, full_check=True)
        return model.SerializeToString()

    def _name(self, kind: str) -> str:
        return f"{kind}_{next(self._numbers)}"


def _names_of_inputs(nodes: Iterable[Any]) -> set[str]:
    """Return the names that the nodes read, also within the steps of scans."""
    names: set[str] = set()
    for node in nodes:
        names.update(node.input)
        for attribute in node.attribute:
            names |= _names_of_inputs(attribute.g.node)
    return names
