"""h = leak h + gain tanh(pre): tanh RNN (leak 0, gain 1), FastRNN (both trained), antisymmetric RNN (leak 1)."""

import torch

from cornn.engine.updates.code import Code
from cornn.engine.updates.update import InPlace, Update

__all__ = ["LEAKY"]


def _step_(pre, state, k, after) -> None:
    (h,), (leak, gain), (out,) = state, k, after
    torch.mul(h, leak, out=out).addcmul_(pre.tanh_(), gain)


def _adjoint_(gradient, kept, before, after, k, delta, sums) -> None:
    (grad,), (h,), (leak, gain) = gradient, before, k
    if sums is not None:
        sums[0].addcmul_(grad, h)
        sums[1].addcmul_(grad, kept)
    torch.mul(grad, gain, out=delta)
    torch.ops.aten.tanh_backward.grad_input(delta, kept, grad_input=delta)
    grad *= leak


LEAKY = Update(
    "leaky",
    {"leak": 0.0, "gain": 1.0},
    lambda pre, h, leak, gain: leak * h + gain * torch.tanh(pre),
    Code(
        kept={"force": "tanh(pre)"},
        step={"h": "leak * h + gain * force"},
        derivative={"h": {"pre": "gain * (1 - force * force)", "h": "leak", "leak": "h", "gain": "force"}},
    ),
    onnx=lambda op, pre, h, leak, gain: [op("Add", op("Mul", leak, h), op("Mul", gain, op("Tanh", pre)))],
    in_place=InPlace(_step_, _adjoint_),
)
