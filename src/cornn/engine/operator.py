"""The recurrence as a PyTorch operator: fake shapes, gradients, second gradients, and many models at once.

The operator includes the input map V u + b, so that its result can be overwritten by the activations: nothing of size
(time, batch, hidden) is kept but y, z and the activations. Second derivatives go through the reference.

There are two doors to one implementation. `recurrence` is registered with PyTorch, for whatever looks inside a program:
compilers, vmap, tensor subclasses. `recur` takes plain tensors past the dispatcher, which costs more than a short
sequence does.
"""

import contextlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cornn.engine import c, cuda, graph, portable, products
from cornn.engine.problem import active, check, live_spans
from cornn.engine.updates import UPDATES, OneState
from cornn.functional import unroll, unroll_one

__all__ = ["BACKENDS", "no_autocast", "plain", "recur", "recurrence", "recurrence_backward", "reference"]

BACKENDS = {"cuda": cuda, "c": c, "graph": graph, "portable": portable}
"""Name -> module, the most preferred first."""

ARGUMENTS = ("input", "state", "input_weight", "bias", "weight", "parameters", "timespans")


_AS_IT_IS = contextlib.nullcontext()


def no_autocast(device: str) -> contextlib.AbstractContextManager:
    """Inside it, operations run in the types of their arguments."""
    available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if available and torch.is_autocast_enabled(device) else _AS_IT_IS


def _served_by(backend: str) -> Any:
    """The module of a backend. "cuda/tf32" is cuda with its products in tf32: a precision goes where the name goes."""
    name, _, precision = backend.partition("/")
    return BACKENDS[name].reduced(precision) if precision else BACKENDS[name]


def _forward(backend: str, *arguments, update: str, **options) -> tuple[Tensor, Tensor, Tensor | None]:
    """(output, last, trail) by a backend that does it all, or by one that leaves the products to PyTorch."""
    rule, module = UPDATES[update], _served_by(backend)
    check(rule, *arguments)
    if whole := getattr(module, "whole_forward", None):
        return whole(*arguments, update=update, **options)
    return products.forward(module, *arguments, update=update, **options)


def _backward(backend: str, *arguments, **options) -> Sequence[Tensor | None]:
    """Gradients for `ARGUMENTS`, in their order; None where `needs` says that none is wanted."""
    module = _served_by(backend)
    if whole := getattr(module, "whole_backward", None):
        return whole(*arguments, **options)
    with no_autocast(arguments[2].device.type):
        return products.backward(module, *arguments, **options)


def _wants_gradient(arguments: Sequence[Tensor | None]) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in arguments)


# torch.library.custom_op would add checks to every call that take longer than the call.
_LIBRARY = torch.library.Library("cornn", "FRAGMENT")


def _forward_operator(
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    update: str,
    backend: str,
    every: bool,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """(output, last, trail) of the recurrence; `problem.py` says what they are."""
    arguments = (input, state, input_weight, bias, weight, parameters, timespans, lengths)
    output, last, trail = _forward(backend, *arguments, update=update, every=every, keep=keep)
    return output, last, input.new_empty(0) if trail is None else trail


def _forward_fake(
    input, state, input_weight, bias, weight, parameters, timespans, lengths, update, backend, every, keep
):  # fmt: skip
    rule, hidden = UPDATES[update], state.shape[-1]
    output = input.new_empty((*input.shape[:-1], hidden) if keep or every else 0)
    trail = input.new_empty((rule.trail, *input.shape[:-1], rule.drives * hidden) if keep else 0)
    return output, torch.empty_like(state, memory_format=torch.contiguous_format), trail


def _backward_operator(
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor,
    trail: Tensor,
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    update: str,
    backend: str,
    needs: Sequence[bool],
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Gradients for `ARGUMENTS`, in their order; an empty tensor where `needs` says that none is wanted."""
    arguments = (input, state, input_weight, bias, weight, parameters, timespans, lengths)
    gradients = _backward(backend, grad_output, grad_last, output, trail, *arguments, update=update, needs=needs)
    return tuple(input.new_empty(0) if gradient is None else gradient for gradient in gradients)  # pyright: ignore


def _backward_fake(
    grad_output, grad_last, output, trail, input, state, input_weight, bias, weight, parameters, timespans, lengths,
    update, backend, needs
):  # fmt: skip
    arguments = (input, state, input_weight, bias, weight, parameters, timespans)
    return tuple(
        input.new_empty(argument.shape if need else 0) for argument, need in zip(arguments, needs, strict=True)
    )


def _registered(name: str, function, fake) -> torch._ops.OpOverload:
    _LIBRARY.define(name + torch.library.infer_schema(function, mutates_args=()), tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"cornn::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.cornn, name).default


recurrence = _registered("recurrence", _forward_operator, _forward_fake)
recurrence_backward = _registered("recurrence_backward", _backward_operator, _backward_fake)


def _setup(ctx, inputs, output) -> None:
    *tensors, ctx.update, ctx.backend, _, _ = inputs
    ctx.save_for_backward(*tensors, output[0], output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx, grad_output, grad_last, grad_trail=None) -> tuple[Tensor | None, ...]:
    """For what both doors were given: eight tensors and four options."""
    *tensors, lengths, output, trail = ctx.saved_tensors
    if grad_output is None and grad_last is None:
        return (None,) * 12
    needs = ctx.needs_input_grad[: len(ARGUMENTS)]
    arguments = (grad_output, grad_last, output, trail, *tensors, lengths)
    if not torch.is_grad_enabled() and plain(arguments):
        gradients = _backward(ctx.backend, *arguments, update=ctx.update, needs=needs)
        return *gradients, None, None, None, None, None
    gradients = recurrence_backward(*arguments, ctx.update, ctx.backend, needs)
    wanted = [gradient if need else None for gradient, need in zip(gradients, needs, strict=True)]
    return *wanted, None, None, None, None, None


torch.library.register_autograd("cornn::recurrence", _gradients, setup_context=_setup, lib=_LIBRARY)


class _Recurrence(torch.autograd.Function):
    """The operator's gradient without the operator around it."""

    @staticmethod
    def forward(ctx, *inputs):
        *tensors, update, backend, every, keep = inputs
        output, last, trail = _forward(backend, *tensors, update=update, every=every, keep=keep)
        _setup(ctx, inputs, (output, last, trail))
        return output, last

    backward = staticmethod(_gradients)


# Function's own `apply` looks for function transforms first, which `plain` has ruled out.
_apply = super(torch.autograd.Function, _Recurrence).apply

_PLAIN = (Tensor, nn.Parameter)


def plain(tensors: Sequence[Tensor | None]) -> bool:
    """Whether nobody looks on: no compiler, tracer or function transform, and no tensor that only stands for others."""
    if (
        torch.compiler.is_compiling()
        or torch._C._functorch.peek_interpreter_stack() is not None
        or torch._C._len_torch_dispatch_stack()
        or torch._C._get_tracing_state() is not None
    ):
        return False
    return all(x is None or type(x) in _PLAIN for x in tensors)


def recur(
    arguments: tuple[Tensor | None, ...], update: str, backend: str, every: bool, direct: bool
) -> tuple[Tensor, Tensor]:
    """(output, last) for `ARGUMENTS` and lengths; past the dispatcher if `direct`, which asks for `plain` tensors."""
    keep = _wants_gradient(arguments)
    if not direct:
        return recurrence(*arguments, update, backend, every, keep)[:2]
    if keep:
        return _apply(*arguments, update, backend, every, keep)
    return _forward(backend, *arguments, update=update, every=every, keep=keep)[:2]


def reference(
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    update: str,
) -> tuple[Tensor, Tensor]:
    """(output, last) by the plain equations, differentiable any number of times."""
    rule = UPDATES[update]
    drive = input if input_weight is None else input @ input_weight.mT
    if bias is not None:
        drive = drive + bias.unsqueeze(-2)
    if isinstance(rule, OneState):
        lives = None if lengths is None else active(lengths, drive).bool()
        parts = parameters.unsqueeze(-2).unbind(0)
        output, h = unroll_one(drive, state[0], weight, parts, pointwise=rule.pointwise, active=lives)
        return output, h.unsqueeze(0)
    hidden = weight.shape[-2]
    output, last = unroll(
        drive,
        *state,
        weight[..., :hidden],
        weight[..., hidden:],
        *parameters.unsqueeze(-2),
        timespans=live_spans(timespans, lengths, drive),
        damping=rule.damping,
        activation=rule.activation,
    )
    return output, torch.stack(last)


def _setup_second(ctx, inputs, output) -> None:
    grad_output, grad_last, _, _, *tensors, ctx.update, _, ctx.needs = inputs
    ctx.save_for_backward(grad_output, grad_last, *tensors)
    ctx.set_materialize_grads(False)


def _second_gradients(ctx, *grads):
    """The gradient of the gradient, by differentiating the reference twice."""
    grad_output, grad_last, *arguments, lengths = ctx.saved_tensors
    if all(grad is None for grad in grads):
        return (None,) * 15
    with torch.enable_grad():
        variables = [None if x is None else x.detach().requires_grad_() for x in (grad_output, grad_last, *arguments)]
        given, arguments = variables[:2], variables[2:]
        pairs = [
            (y, g) for y, g in zip(reference(*arguments, lengths, ctx.update), given, strict=True) if g is not None
        ]
        asked = [(x, g) for x, need, g in zip(arguments, ctx.needs, grads, strict=True) if need and g is not None]
        outputs, weights = zip(*pairs, strict=True)
        inputs, seconds = zip(*asked, strict=True)
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True)
        present = [x for x in variables if x is not None]
        second = torch.autograd.grad(first, present, seconds, allow_unused=True)
    found = iter(second)
    for_output, for_last, *for_arguments = [None if x is None else next(found) for x in variables]
    return for_output, for_last, None, None, *for_arguments, None, None, None, None


torch.library.register_autograd(
    "cornn::recurrence_backward", _second_gradients, setup_context=_setup_second, lib=_LIBRARY
)


# Where a group of models puts its dimension, argument by argument and result by result.
_GROUP = {"input": 1, "state": 1, "input_weight": 0, "bias": 0, "weight": 0, "parameters": 1, "timespans": 1}
_GROUP_FORWARD = (*_GROUP.values(), 0)
_GROUP_BACKWARD = (1, 1, 1, 2, *_GROUP_FORWARD)


def _group(info, in_dims, arguments, places) -> list[Tensor | None]:
    """Each tensor with its group dimension where the backends expect it; what is shared is expanded."""
    grouped = []
    for argument, dim, place in zip(arguments, in_dims, places, strict=True):
        if argument is not None and dim is None:
            shape = argument.shape
            argument = argument.unsqueeze(place).expand(*shape[:place], info.batch_size, *shape[place:])
        elif argument is not None:
            argument = argument.movedim(dim, place)
        grouped.append(argument)
    weight = grouped[len(places) - 4]
    if weight.dim() > 3:
        raise NotImplementedError("vmap over the recurrence goes one level deep: stack all models in one dimension")
    return grouped


def _dims(results: tuple[Tensor, ...], places) -> tuple[int | None, ...]:
    return tuple(place if result.numel() else None for result, place in zip(results, places, strict=True))


def _forward_vmap(info, in_dims, *arguments):
    *tensors, update, backend, every, keep = arguments
    grouped = _group(info, in_dims[: len(tensors)], tensors, _GROUP_FORWARD)
    # Whether a gradient is wanted shows only once the wrapping of vmap is off.
    results = recurrence(*grouped, update, backend, every, keep or _wants_gradient(grouped))
    return results, _dims(results, (1, 1, 2))


def _backward_vmap(info, in_dims, *arguments):
    *tensors, update, backend, needs = arguments
    grouped = _group(info, in_dims[: len(tensors)], tensors, _GROUP_BACKWARD)
    results = recurrence_backward(*grouped, update, backend, needs)
    return results, _dims(results, tuple(_GROUP.values()))


torch.library.register_vmap("cornn::recurrence", _forward_vmap, lib=_LIBRARY)
torch.library.register_vmap("cornn::recurrence_backward", _backward_vmap, lib=_LIBRARY)
