"""One step of each network in ONNX's operators: `cornn.functional` once more, and held against it at every export."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import Tensor

from cornn.baselines.layer import Cell
from cornn.export.graph import Graph
from cornn.layers import CoRNNCell

__all__ = ["Equation", "array", "equation"]


class Equation(NamedTuple):
    """drive = V u + b for all steps at once, and what each step does with its own."""

    V: np.ndarray
    b: np.ndarray | None
    step: Callable[[Graph, list[str], str, str | None], list[str]]
    """(graph of the step, states, drive, span) -> next states; all (batch, ...), the span (batch, 1) or None."""


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def equation(graph: Graph, cell: CoRNNCell | Cell) -> Equation:
    """Of one layer and direction; its weights go into `graph`."""
    return _oscillators(graph, cell) if isinstance(cell, CoRNNCell) else _one_state(graph, cell)


def _oscillators(graph: Graph, cell: CoRNNCell) -> Equation:
    V, b, R = (None if weight is None else array(weight) for weight in cell.weights())
    assert V is not None and R is not None
    weight = graph.weight(R)
    dt, gamma, epsilon = (graph.weight(array(constant)) for constant in cell.oscillators())
    activation = ACTIVATIONS[cell.activation](graph, R.dtype)
    one = None if cell.damping == "explicit" else graph.weight(np.ones((), R.dtype))

    def step(body: Graph, states: list[str], drive: str, span: str | None) -> list[str]:
        y, z = states
        if span is not None and cell.spread:
            raise ValueError(
                "timespans of a layer with default constants cannot be exported: give dt, gamma and epsilon, or omit them"
            )
        h = dt if span is None else body("Mul", dt, span)
        pre = body("Gemm", body("Concat", y, z, axis=-1), weight, drive, transB=1)
        force = body("Sub", activation(body, pre), body("Mul", gamma, y))
        if one is None:
            z = body("Add", z, body("Mul", h, body("Sub", force, body("Mul", epsilon, z))))
        else:
            z = body("Div", body("Add", z, body("Mul", h, force)), body("Add", one, body("Mul", h, epsilon)))
        return [body("Add", y, body("Mul", h, z)), z]

    return Equation(V, b, step)


Activation = Callable[[Graph, str], str]


def _duffing(graph: Graph, dtype: np.dtype) -> Activation:
    three = graph.weight(np.full((), 3, dtype))
    return lambda body, x: body("Sub", x, body("Div", body("Mul", x, body("Mul", x, x)), three))


ACTIVATIONS: dict[str, Callable[[Graph, np.dtype], Activation]] = {
    "tanh": lambda graph, dtype: lambda body, x: body("Tanh", x),
    "identity": lambda graph, dtype: lambda body, x: x,
    "relu": lambda graph, dtype: lambda body, x: body("Relu", x),
    "duffing": _duffing,
}
"""Name -> what puts its weights into the graph, and gives what acts in a step."""


def _one_state(graph: Graph, cell: Cell) -> Equation:
    arguments = cell.arguments()
    weight = graph.weight(array(arguments.weight))
    parameters = [graph.weight(array(parameter)) for parameter in arguments.parameters]
    copies = len(arguments.input_weight) // len(arguments.weight)

    def step(body: Graph, states: list[str], drive: str, span: str | None) -> list[str]:
        product = body("Gemm", states[0], weight, transB=1)
        product = body("Concat", *[product] * copies, axis=-1) if copies > 1 else product
        return [POINTWISE[cell.update](body, body("Add", drive, product), states[0], *parameters)]

    bias = None if arguments.bias is None else array(arguments.bias)
    return Equation(array(arguments.input_weight), bias, step)


def _leaky(body: Graph, pre: str, h: str, leak: str, gain: str) -> str:
    return body("Add", body("Mul", leak, h), body("Mul", gain, body("Tanh", pre)))


def _fast_grnn(body: Graph, pre: str, h: str, bias_z: str, bias_h: str, zeta: str, nu: str) -> str:
    z = body("Sigmoid", body("Add", pre, bias_z))
    share = body("Add", body("Sub", zeta, body("Mul", zeta, z)), nu)
    return body("Add", body("Mul", z, h), body("Mul", share, body("Tanh", body("Add", pre, bias_h))))


def _gated(body: Graph, pre: str, h: str, epsilon: str) -> str:
    gate, candidate = body.several("Split", 2, pre, axis=-1)
    change = body("Mul", body("Sigmoid", gate), body("Tanh", candidate))
    return body("Add", h, body("Mul", epsilon, change))


def _modrelu(body: Graph, pre: str, h: str, bias: str) -> str:
    return body("Mul", body("Sign", pre), body("Relu", body("Add", body("Abs", pre), bias)))


def _lipschitz(body: Graph, pre: str, h: str, epsilon: str) -> str:
    linear, inner = body.several("Split", 2, pre, axis=-1)
    return body("Add", h, body("Mul", epsilon, body("Add", linear, body("Tanh", inner))))


POINTWISE: dict[str, Callable[..., str]] = {
    "leaky": _leaky,
    "fastgrnn": _fast_grnn,
    "gated": _gated,
    "modrelu": _modrelu,
    "lipschitz": _lipschitz,
}
"""As `functional.POINTWISE`: (graph of the step, pre-activations, h, *parameters) -> the next h."""
