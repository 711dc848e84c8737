"""An ONNX graph, written down node by node; a network's steps are one `Scan`.

PyTorch's own exporter needs its `scan`, which is a prototype under a private name, onnxscript, and the model written a
second time around that scan. This needs the onnx package alone, takes milliseconds, reads a sequence from its end by a
flag of Scan, and what it makes is held against PyTorch at every export (`cornn.export.check`).
"""

from collections.abc import Callable, Sequence
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
"""Of 2022: old enough for the runtimes that are in use, new enough for all that is needed."""

Step = Callable[["Graph", list[str], list[str]], tuple[list[str], list[str]]]
"""(graph of the step, states, this step's elements) -> (next states, what is collected); all are names."""


Shape = list[str | int]
"""Sizes, and the names of those that are free."""

Port = tuple[int, Shape]
"""The type of what enters or leaves a graph, in ONNX's numbers, and its shape."""


class Graph:
    """Nodes and weights so far. Values are names; each is given once.

    outer: for the step of a scan, the graph around it, whose values the step may use.
    """

    def __init__(self, outer: "Graph | None" = None) -> None:
        self.nodes: list[Any] = []
        self.weights: list[Any] = [] if outer is None else outer.weights
        self._numbers = count() if outer is None else outer._numbers

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """The result of an operator."""
        return self.several(operator, 1, *inputs, **attributes)[0]

    def several(self, operator: str, results: int, *inputs: str, **attributes: Any) -> list[str]:
        names = [self._name(operator.lower()) for _ in range(results)]
        # Nodes have names too: older runtimes make those of what they fuse from them, and stumble over none.
        self.nodes.append(helper.make_node(operator, list(inputs), names, names[0], **attributes))
        return names

    def named(self, name: str, value: str) -> None:
        """Give a value the name under which it leaves the graph."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name))

    def weight(self, values: ArrayLike) -> str:
        array = np.asarray(values)
        # ascontiguousarray would make a vector of a number.
        self.weights.append(numpy_helper.from_array(array.copy(), name := self._name("weight")))
        return name

    def linear(self, input: str, weight: np.ndarray, bias: np.ndarray | None) -> str:
        """weight: (outputs, inputs), as PyTorch keeps it; input: (..., inputs)."""
        product = self("MatMul", input, self.weight(weight.T))
        return product if bias is None else self("Add", product, self.weight(bias))

    def part(self, value: str, index: int) -> str:
        """value[index] of the first dimension."""
        return self("Gather", value, self.weight(np.int64(index)), axis=0)

    def unsqueeze(self, value: str, axis: int) -> str:
        return self("Unsqueeze", value, self.weight(np.array([axis])))

    def scan(
        self, step: Step, states: Sequence[str], sequences: Sequence[str], *, reverse: bool = False
    ) -> tuple[list[str], list[str]]:
        """Run `step` over the first dimension of the sequences, from their end if `reverse`.

        Returns the last states, and the sequences of what was collected, which run forwards in time either way.
        """
        body = Graph(self)
        before = [self._name("state") for _ in states]
        elements = [self._name("element") for _ in sequences]
        after, collected = step(body, before, elements)
        leaving: list[str] = []
        for value in (*after, *collected):
            # What leaves a body has a name of its own.
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

    def whole(self, inputs: dict[str, Port], outputs: dict[str, Port], notes: dict[str, str]) -> bytes:
        """The content of a file, checked for being ONNX. notes: what the file says of itself."""
        enter, leave = (
            [helper.make_tensor_value_info(name, *port) for name, port in side.items()] for side in (inputs, outputs)
        )
        graph = helper.make_graph(self.nodes, "cornn", enter, leave, self.weights)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], producer_name="cornn", producer_version=__version__)
        model.ir_version = helper.find_min_ir_version_for([opset])
        helper.set_model_props(model, notes)
        checker.check_model(model, full_check=True)
        return model.SerializeToString()

    def _name(self, kind: str) -> str:
        return f"{kind}_{next(self._numbers)}"
