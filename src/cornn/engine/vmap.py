"""The operators under `torch.vmap`: models side by side become a group, which a backend runs in one call."""

import torch
from torch import Tensor

from cornn.engine.contract import BackwardInputs, Gradients, Operands, wants_gradient
from cornn.engine.op import LIBRARY, recurrence, recurrence_backward

__all__: list[str] = []

# Position of the group dimension in each tensor.
_OPERANDS = Operands(input=1, state=1, input_weight=0, bias=0, weight=0, parameters=1, timespans=1, lengths=0)  # pyright: ignore
_BACKWARD_INPUTS = BackwardInputs(grad_output=1, grad_last=1, output=1, trail=2)  # pyright: ignore
_FORWARD_RESULT = (1, 1, 2)
_GRADIENTS = _OPERANDS[: len(Gradients._fields)]


def _group(info, in_dims, tensors, places) -> list[Tensor | None]:
    """Move the group dimension of each tensor to where the backends expect it; expand shared tensors."""
    grouped = []
    for tensor, dim, place in zip(tensors, in_dims, places, strict=True):
        if tensor is not None and dim is None:
            shape = tensor.shape
            tensor = tensor.unsqueeze(place).expand(*shape[:place], info.batch_size, *shape[place:])
        elif tensor is not None:
            tensor = tensor.movedim(dim, place)
        grouped.append(tensor)
    weight = Operands(*grouped[-len(Operands._fields) :]).weight
    if weight.dim() > 3:
        raise NotImplementedError("nested vmap over the recurrence is not supported: stack all models in one dimension")
    return grouped


def _dims(results: tuple[Tensor, ...], places) -> tuple[int | None, ...]:
    # A gradient that is not requested is an empty tensor of one dimension.
    return tuple(place if result.dim() > 1 else None for result, place in zip(results, places, strict=True))


def _forward(info, in_dims, *arguments):
    count = len(Operands._fields)
    grouped = _group(info, in_dims[:count], arguments[:count], _OPERANDS)
    backend, update, every, keep, precision = arguments[count:]
    # Whether a gradient is requested is known only without the wrappers of vmap.
    results = recurrence(*grouped, backend, update, every, keep or wants_gradient(grouped), precision)
    return results, _dims(results, _FORWARD_RESULT)


def _backward(info, in_dims, *arguments):
    count = len(BackwardInputs._fields) + len(Operands._fields)
    grouped = _group(info, in_dims[:count], arguments[:count], _BACKWARD_INPUTS + _OPERANDS)
    results = recurrence_backward(*grouped, *arguments[count:])
    return results, _dims(results, _GRADIENTS)


torch.library.register_vmap("cornn::recurrence", _forward, lib=LIBRARY)
torch.library.register_vmap("cornn::recurrence_backward", _backward, lib=LIBRARY)
