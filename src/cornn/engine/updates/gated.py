"""h = h + epsilon sigmoid(gate) tanh(candidate), both with the same product: gated antisymmetric RNN."""

import torch

from cornn.engine.updates.code import Code
from cornn.engine.updates.update import InPlace, Update

__all__ = ["GATED"]


def _step_(pre, state, k, after) -> None:
    gate, candidate = pre.chunk(2, -1)
    torch.addcmul(state[0], gate.sigmoid_() * k[0], candidate.tanh_(), out=after[0])


def _adjoint_(gradient, kept, before, after, k, delta, sums) -> None:
    (grad,), (epsilon,) = gradient, k
    gate, candidate = kept.chunk(2, -1)
    for_gate, for_candidate = delta.chunk(2, -1)
    scaled = grad * epsilon
    torch.mul(scaled * candidate, gate * (1 - gate), out=for_gate)
    torch.mul(scaled * gate, 1 - candidate * candidate, out=for_candidate)
    if sums is not None:
        sums[0].addcmul_(grad * gate, candidate)


def _onnx(op, gate, candidate, h, epsilon):
    return [op("Add", h, op("Mul", epsilon, op("Mul", op("Sigmoid", gate), op("Tanh", candidate))))]


GATED = Update(
    "gated",
    {"epsilon": 0.01},
    lambda gate, candidate, h, epsilon: h + epsilon * torch.sigmoid(gate) * torch.tanh(candidate),
    Code(
        kept={"open": "sigmoid(gate)", "force": "tanh(candidate)"},
        step={"h": "h + epsilon * open * force"},
        derivative={
            "h": {
                "gate": "epsilon * open * force * (1 - open)",
                "candidate": "epsilon * open * (1 - force * force)",
                "h": "1",
                "epsilon": "open * force",
            }
        },
    ),
    pre=("gate", "candidate"),
    onnx=_onnx,
    in_place=InPlace(_step_, _adjoint_),
)
