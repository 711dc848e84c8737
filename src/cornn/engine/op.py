"""The recurrence as an operator that is registered with PyTorch: for compilers, vmap and tensor subclasses.

The operator includes the input map V u + b, so that the activations can overwrite its result: of size
(time, batch, hidden) only y, z and the activations are saved. Plain tensors bypass it (`eager.py`); vmap is in
`vmap.py`, derivatives of the backward pass are in `second_order.py`.
"""

from typing import get_type_hints

import torch
from torch import Tensor

from cornn._autocast import no_autocast
from cornn.engine.backends import c, graph, portable
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.contract import Backend, BackwardInputs, Gradients, Needs, Operands, Request, check
from cornn.engine.updates import Spans, find_update

__all__ = ["BACKENDS", "LIBRARY", "options", "recurrence", "recurrence_backward"]

BACKENDS: dict[str, Backend] = {"cuda": cuda, "c": c, "graph": graph, "portable": portable}
"""Name -> module, most preferred first."""

_OPTIONS = "str backend, str update, bool every, bool keep, str precision"


def options(backend: str, request: Request) -> tuple[str, str, bool, bool, str]:
    """Return the options of the operators: a schema has room for the name of an update, not for the update."""
    return backend, request.update.name, request.every, request.keep, request.precision


def _request(update: str, every: bool, keep: bool, precision: str) -> Request:
    return Request(find_update(update), every, keep, precision)


def _forward(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, backend, update, every, keep, precision = inputs
    operands, request = Operands(*tensors), _request(update, every, keep, precision)
    check(request.update, operands)
    with no_autocast(operands.input.device.type):
        output, last, trail = BACKENDS[backend].forward(operands, request)
    return output, last, operands.input.new_empty(0) if trail is None else trail


def _forward_fake(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, _, update, every, keep, _ = inputs
    operands, rule = Operands(*tensors), find_update(update)
    *shape, _ = operands.input.shape
    hidden = operands.weight.shape[-2] // rule.products
    output = operands.input.new_empty((*shape, hidden) if keep or every else 0)
    trail = operands.input.new_empty((rule.trail, *shape, rule.drives * hidden) if keep else 0)
    return output, operands.input.new_empty(rule.states, *shape[1:], hidden), trail


def _backward(*inputs) -> tuple[Tensor, ...]:
    """Return the gradients; an empty tensor for those that `needs` does not request."""
    *tensors, backend, update, every, keep, precision, needs = inputs
    count = len(BackwardInputs._fields)
    backward_inputs, operands = BackwardInputs(*tensors[:count]), Operands(*tensors[count:])
    request = _request(update, every, keep, precision)
    with no_autocast(operands.input.device.type):
        gradients = BACKENDS[backend].backward(operands, backward_inputs, request, Needs(*needs))
    return tuple(operands.input.new_empty(0) if gradient is None else gradient for gradient in gradients)


def _backward_fake(*inputs) -> tuple[Tensor, ...]:
    tensors, needs = inputs[len(BackwardInputs._fields) :][: len(Gradients._fields)], inputs[-1]
    return tuple(tensors[0].new_empty(x.shape if need else 0) for x, need in zip(tensors, needs, strict=True))


# torch.library.custom_op would add checks to every call that take longer than the call.
LIBRARY = torch.library.Library("cornn", "FRAGMENT")


def _registered(name: str, tensors: dict[str, object], options: str, results: int, function, fake):
    """Register an operator of tensors, each with its type, and of options."""
    takes = ", ".join(f"Tensor{'' if kind is Tensor else '?'} {tensor}" for tensor, kind in tensors.items())
    schema = f"{name}({takes}, {options}) -> ({', '.join(['Tensor'] * results)})"
    LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"cornn::{name}", fake, lib=LIBRARY)
    return getattr(torch.ops.cornn, name).default


_OPERANDS, _BACKWARD_INPUTS = get_type_hints(Operands), get_type_hints(BackwardInputs)
recurrence = _registered("recurrence", _OPERANDS, _OPTIONS, 3, _forward, _forward_fake)
recurrence_backward = _registered(
    "recurrence_backward",
    _BACKWARD_INPUTS | _OPERANDS,
    f"{_OPTIONS}, bool[] needs",
    len(Gradients._fields),
    _backward,
    _backward_fake,
)


def _setup(ctx, inputs, output) -> None:
    ctx.options = inputs[len(Operands._fields) :]
    ctx.save_for_backward(*inputs[: len(Operands._fields)], output[0], output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx, grad_output, grad_last, _) -> tuple[Tensor | None, ...]:
    rest = (None,) * (1 + len(ctx.options))  # the lengths, and the options
    if grad_output is None and grad_last is None:
        return (None,) * len(Gradients._fields) + rest
    *tensors, output, trail = ctx.saved_tensors
    needs = Needs(*ctx.needs_input_grad[: len(Gradients._fields)])
    backend, update, every, keep, precision = ctx.options
    if needs.parameters and backend in ("c", "cuda") and isinstance(find_update(update), Spans):
        backend, keep = "portable", False  # those kernels do not compute the gradients of the spectrum
    if not keep:
        # A program that was exported without gradients is trained, or only the wrappers of vmap hid that they are
        # needed. What the forward pass did not keep is computed again.
        with torch.no_grad():
            output, _, trail = recurrence(*tensors, backend, update, every, True, precision)
    backward_inputs = BackwardInputs(grad_output, grad_last, output, trail)
    gradients = recurrence_backward(*backward_inputs, *tensors, backend, update, every, True, precision, needs)
    return *(gradient if need else None for gradient, need in zip(gradients, needs, strict=True)), *rest


torch.library.register_autograd("cornn::recurrence", _gradients, setup_context=_setup, lib=LIBRARY)
