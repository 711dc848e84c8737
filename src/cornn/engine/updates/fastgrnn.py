"""FastGRNN:  z = sigmoid(pre + bias_z),  h = z h + (zeta (1 - z) + nu) tanh(pre + bias_h)."""

import torch

from cornn.engine.updates.code import Code
from cornn.engine.updates.update import InPlace, Update

__all__ = ["FASTGRNN"]


def _reference(pre, h, bias_z, bias_h, zeta, nu):
    z = torch.sigmoid(pre + bias_z)
    return z * h + (zeta * (1 - z) + nu) * torch.tanh(pre + bias_h)


def _step_(pre, state, k, after) -> None:
    (h,), (bias_z, bias_h, zeta, nu) = state, k
    z, candidate = torch.sigmoid(pre + bias_z), torch.tanh(pre + bias_h)
    torch.mul(z, h, out=after[0]).addcmul_(zeta * (1 - z) + nu, candidate)


def _adjoint_(gradient, kept, before, after, k, delta, sums) -> None:
    (grad,), (h,), (bias_z, bias_h, zeta, nu) = gradient, before, k
    z, candidate = torch.sigmoid(kept + bias_z), torch.tanh(kept + bias_h)
    through = grad * candidate
    for_z = (grad * h - zeta * through) * (z * (1 - z))
    for_candidate = grad * (zeta * (1 - z) + nu) * (1 - candidate * candidate)
    torch.add(for_z, for_candidate, out=delta)
    grad *= z
    if sums is not None:
        for total, term in zip(sums, (for_z, for_candidate, through * (1 - z), through), strict=True):
            total += term


def _onnx(op, pre, h, bias_z, bias_h, zeta, nu):
    z = op("Sigmoid", op("Add", pre, bias_z))
    share = op("Add", op("Sub", zeta, op("Mul", zeta, z)), nu)
    return [op("Add", op("Mul", z, h), op("Mul", share, op("Tanh", op("Add", pre, bias_h))))]


FASTGRNN = Update(
    "fastgrnn",
    {"bias_z": 1.0, "bias_h": 1.0, "zeta": 0.7, "nu": 0.02},
    _reference,
    Code(
        where={
            "z": "sigmoid(pre + bias_z)",
            "candidate": "tanh(pre + bias_h)",
            "share": "zeta * (1 - z) + nu",
            "for_z": "(h - zeta * candidate) * z * (1 - z)",
            "for_candidate": "share * (1 - candidate * candidate)",
        },
        step={"h": "z * h + share * candidate"},
        derivative={
            "h": {
                "pre": "for_z + for_candidate",
                "h": "z",
                "bias_z": "for_z",
                "bias_h": "for_candidate",
                "zeta": "candidate * (1 - z)",
                "nu": "candidate",
            }
        },
    ),
    onnx=_onnx,
    in_place=InPlace(_step_, _adjoint_),
)
