"""h = sign(pre) relu(|pre| + bias): expRNN and DTRIV."""

import torch

from cornn.engine.updates.code import Code
from cornn.engine.updates.update import InPlace, Update

__all__ = ["MODRELU"]


def _step_(pre, state, k, after) -> None:
    torch.mul(torch.relu_(pre.abs() + k[0]), torch.sign(pre), out=after[0])


def _adjoint_(gradient, kept, before, after, k, delta, sums) -> None:
    (grad,), (bias,) = gradient, k
    sign = torch.sign(kept)
    for_bias = grad * sign * (kept.abs() + bias > 0)
    torch.mul(for_bias, sign, out=delta)
    grad.zero_()
    if sums is not None:
        sums[0] += for_bias


def _onnx(op, pre, h, bias):
    return [op("Mul", op("Sign", pre), op("Relu", op("Add", op("Abs", pre), bias)))]


MODRELU = Update(
    "modrelu",
    {"bias": 0.0},
    lambda pre, h, bias: torch.sign(pre) * torch.relu(torch.abs(pre) + bias),
    Code(
        where={"side": "sign(pre)", "size": "abs(pre) + bias", "open": "select(size > 0, side, 0)"},
        step={"h": "side * relu(size)"},
        derivative={"h": {"pre": "open * open", "bias": "open"}},
    ),
    onnx=_onnx,
    in_place=InPlace(_step_, _adjoint_),
)
