"""Find the argument that made a call of `engine.run` fail, so that the error names it and its remedy."""

from typing import Any

import torch
from torch import Tensor

from cornn.engine.contract import Operands, Scales, check, check_scales
from cornn.engine.updates import Update

__all__ = ["find_misuse"]

OPTIONAL = ("state", "input_weight", "bias", "timespans", "lengths")
RANKS = {"input": ((3, 4), "(time, batch, features)"), "weight": ((2, 3), "(products, states * hidden)")}
"""Name -> allowed numbers of dimensions, with a dimension for groups of models, and the dimensions of one model."""


def find_misuse(operands: Operands, scales: Any, update: Any, backend: Any, precision: Any) -> Exception | None:
    """Return the error of the first wrong argument of `engine.run`, or None if the arguments are valid.

    Args:
        operands: The tensors.
        scales: The scales of the weights.
        update: The update.
        backend: The name of the backend.
        precision: The precision of products.
    """
    try:
        _check_kinds(operands, scales, update, backend, precision)
        _check_ranks(operands)
        check(update, operands)
        if scales is not None:
            if operands.input_weight is None:
                raise ValueError("scales need input_weight, which is None: pass it, or multiply the weights yourself")
            check_scales(operands, scales)
    except (TypeError, ValueError) as error:
        return error
    return None


def _check_kinds(operands: Operands, scales: Any, update: Any, backend: Any, precision: Any) -> None:
    """Raise TypeError for an argument that is of the wrong kind."""
    if not isinstance(update, Update):
        raise TypeError(
            f"update is of type {_name(update)}, expected an Update: pass engine.OSCILLATORS[damping, activation] or "
            "engine.find_update(name)"
        )
    for name, option in (("backend", backend), ("precision", precision)):
        if not isinstance(option, str):
            raise TypeError(f"{name} is of type {_name(option)}, expected a name")
    for name, value in zip(Operands._fields, operands, strict=True):
        if value is not None or name not in OPTIONAL:
            _check_tensor(name, value)
    if scales is None:
        return
    if not isinstance(scales, Scales):
        raise TypeError(f"scales are of type {_name(scales)}, expected engine.Scales: pass engine.Scales(*scales)")
    for name, weight, scale in zip(Scales._fields, operands[2:5], scales, strict=True):
        if weight is not None:
            _check_tensor(f"the scale of {name}", scale)


def _check_tensor(name: str, value: Any) -> None:
    if value is None:
        raise TypeError(f"{name} is None, expected a tensor")
    if not isinstance(value, Tensor):
        remedy = "join its parts with torch.stack" if name == "state" else "convert it with torch.as_tensor"
        raise TypeError(f"{name} is of type {_name(value)}, expected a tensor: {remedy}")
    if value.layout != torch.strided:
        raise TypeError(f"{name} is sparse ({value.layout}): convert it with .to_dense()")
    if name == "lengths" and value.is_meta:
        raise TypeError("lengths are on meta, where they have no values: move them to the device of the input")


def _check_ranks(operands: Operands) -> None:
    """Raise ValueError for numbers of dimensions that no group of models has."""
    for name, (ranks, layout) in RANKS.items():
        tensor: Tensor = getattr(operands, name)
        if tensor.dim() not in ranks:
            remedy = "add dimensions with unsqueeze" if tensor.dim() < min(ranks) else "join dimensions with flatten"
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {layout}: {remedy}")


def _name(value: Any) -> str:
    return type(value).__name__
