"""h = h + epsilon (linear + tanh(inner)), each with a product of its own: Lipschitz RNN."""

import torch

from cornn.engine.updates.code import Code
from cornn.engine.updates.update import InPlace, Update

__all__ = ["LIPSCHITZ"]


def _step_(pre, state, k, after) -> None:
    linear, inner = pre.chunk(2, -1)
    torch.addcmul(state[0], linear + inner.tanh_(), k[0], out=after[0])


def _adjoint_(gradient, kept, before, after, k, delta, sums) -> None:
    (grad,), (epsilon,) = gradient, k
    linear, inner = kept.chunk(2, -1)
    for_linear, for_inner = delta.chunk(2, -1)
    torch.mul(grad, epsilon, out=for_linear)
    torch.mul(for_linear, 1 - inner * inner, out=for_inner)
    if sums is not None:
        sums[0].addcmul_(grad, linear + inner)


def _onnx(op, linear, inner, h, epsilon):
    return [op("Add", h, op("Mul", epsilon, op("Add", linear, op("Tanh", inner))))]


LIPSCHITZ = Update(
    "lipschitz",
    {"epsilon": 0.03},
    lambda linear, inner, h, epsilon: h + epsilon * (linear + torch.tanh(inner)),
    Code(
        kept={"straight": "linear", "force": "tanh(inner)"},
        step={"h": "h + epsilon * (straight + force)"},
        derivative={
            "h": {
                "linear": "epsilon",
                "inner": "epsilon * (1 - force * force)",
                "h": "1",
                "epsilon": "straight + force",
            }
        },
    ),
    pre=("linear", "inner"),
    products=2,
    onnx=_onnx,
    in_place=InPlace(_step_, _adjoint_),
)
