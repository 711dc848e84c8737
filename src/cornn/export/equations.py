"""One step of each network in ONNX operators: the equations of `cornn.functional`, checked at every export."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cornn import engine
from cornn.baselines.horn import HORNCell
from cornn.baselines.layer import Cell
from cornn.export.graph import DOUBLE, FLOAT, Graph
from cornn.functional import ACTIVATIONS, Spectrum, coefficients, spectrum
from cornn.layers import CoRNNCell

__all__ = ["Equation", "array", "equation", "step_over"]


class Equation(NamedTuple):
    """The input map `drive = V u + b` of all steps, and the update of one step."""

    V: np.ndarray
    b: np.ndarray | None
    step: Callable[[Graph, list[str], str, str | None], list[str]]
    """Function (graph of the step, states, drive, span) -> next states; all (batch, ...), span (batch, 1) or None."""


def array(tensor: Tensor) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def equation(graph: Graph, cell: CoRNNCell | Cell) -> Equation:
    """Return the equation of one layer and direction, and add its weights to `graph`."""
    if isinstance(cell, CoRNNCell):
        return _oscillators(graph, cell)
    return _horn(graph, cell) if isinstance(cell, HORNCell) else _pointwise(graph, cell)


def _oscillators(graph: Graph, cell: CoRNNCell) -> Equation:
    V, b, R = cell.weights()
    weight, dtype = graph.weight(array(R)), array(R).dtype
    dt, gamma, epsilon = (graph.weight(array(constant)) for constant in cell.oscillators())
    steps = coefficients(*cell.oscillators(), damping=cell.damping)
    keep, push, pull = (graph.weight(array(value)) for value in steps[:3])
    of = spectrum(*cell.oscillators(), damping=cell.damping)
    activation = ACTIVATIONS[cell.activation].onnx
    if activation is None:
        raise ValueError(f"the activation {cell.activation!r} has no ONNX form: add one in cornn/functional.py")
    one = None if cell.damping == "explicit" else graph.weight(np.ones((), dtype))

    def step(body: Graph, states: list[str], drive: str, span: str | None) -> list[str]:
        def op(operator: str, *inputs: str | float) -> str:
            names = (x if isinstance(x, str) else body.weight(np.full((), x, dtype)) for x in inputs)
            return body(operator, *names)

        y, z = states
        if span is None:  # rounded as the engine rounds: neurons that forget slowly would show another order of sums
            pre = body("Gemm", body("Concat", y, z, axis=-1), weight, drive, transB=1)
            z = body(
                "Sub", body("Add", body("Mul", keep, z), body("Mul", push, activation(op, pre))), body("Mul", pull, y)
            )
            return [body("Add", y, body("Mul", dt, z)), z]
        pre = body("Gemm", body("Concat", y, z, axis=-1), weight, drive, transB=1)
        if cell.default_constants:
            to = FLOAT if dtype == np.float32 else DOUBLE
            return step_over(body, of, body("Cast", span, to=DOUBLE), (y, z, activation(op, pre)), to)
        h = body("Mul", dt, span)
        force = body("Sub", activation(op, pre), body("Mul", gamma, y))
        if one is None:
            z = body("Add", z, body("Mul", h, body("Sub", force, body("Mul", epsilon, z))))
        else:
            z = body("Div", body("Add", z, body("Mul", h, force)), body("Add", one, body("Mul", h, epsilon)))
        return [body("Add", y, body("Mul", h, z)), z]

    return Equation(array(V), None if b is None else array(b), step)


def step_over(body: Graph, of: Spectrum, span: str, values: tuple[str, str, str], to: int) -> list[str]:
    """Add `functional.step_by`: the next y and z for values of y, z and the force, of type `to`; span: in float64."""

    def times(left: str, part: Tensor) -> str:
        return body("Mul", left, body.weight(array(part)))

    left, rest = (body("Exp", times(span, part)) for part in (of.log_slow, of.log_fast))
    angle, fast_angle = (times(span, torch.pi * part) for part in (of.turn, of.fast_turn))
    cosine, rest = body("Mul", left, body("Cos", angle)), body("Mul", rest, body("Cos", fast_angle))
    rings = body.weight(array(of.rings > 0))
    b = body("Where", rings, body("Mul", left, body("Sin", angle)), body("Sub", rest, cosine))
    yy, zz = (body("Add", cosine, times(b, part)) for part in (of.yy, of.zz))
    yz, zy = (times(b, part) for part in (of.yz, of.zy))
    yf = times(body("Sub", body.weight(np.float64(1)), yy), of.compliance)
    zf = times(body("Neg", zy), of.compliance)
    rows = ((body("Cast", part, to=to) for part in row) for row in ((yy, yz, yf), (zy, zz, zf)))
    return [body("Sum", *(body("Mul", *pair) for pair in zip(row, values, strict=True))) for row in rows]


def _horn(graph: Graph, cell: HORNCell) -> Equation:
    omega, gamma, alpha = cell.constants()
    values = cell.weight_hh * cell.hidden_size**-0.5, cell.h * alpha, cell.h * omega * omega, 1 - 2 * cell.h * gamma
    weight, push, pull, keep = (graph.weight(array(value)) for value in values)
    h = graph.weight(np.full((), cell.h, array(omega).dtype))

    def step(body: Graph, states: list[str], drive: str, span: str | None) -> list[str]:
        x, y = states
        force = body("Tanh", body("Gemm", y, weight, drive, transB=1))
        y = body("Sub", body("Add", body("Mul", keep, y), body("Mul", push, force)), body("Mul", pull, x))
        return [body("Add", x, body("Mul", h, y)), y]

    return Equation(array(cell.weight_ih), None if cell.bias is None else array(cell.bias), step)


def _pointwise(graph: Graph, cell: Cell) -> Equation:
    arguments, update = cell.arguments(), engine.find_update(cell.update)
    operators = update.onnx
    if operators is None:
        raise ValueError(f"the update {update.name!r} has no ONNX form: give it one, Update(onnx=...)")
    weight = graph.weight(array(arguments.weight))
    parameters = [graph.weight(array(parameter)) for parameter in arguments.parameters]
    copies = len(arguments.input_weight) // len(arguments.weight)

    def step(body: Graph, states: list[str], drive: str, span: str | None) -> list[str]:
        before = body("Concat", *states, axis=-1) if len(states) > 1 else states[0]
        product = body("Gemm", before, weight, transB=1)
        product = body("Concat", *[product] * copies, axis=-1) if copies > 1 else product
        driven = body("Add", drive, product)
        pre = body.several("Split", update.drives, driven, axis=-1) if update.drives > 1 else [driven]
        return list(operators(body, *pre, *states, *parameters))

    bias = None if arguments.bias is None else array(arguments.bias)
    return Equation(array(arguments.input_weight), bias, step)
