"""The recurrence as a PyTorch operator: fake shapes, first and second gradients, and vmap.

The operator includes the input map V u + b, so that the activations can overwrite its result: of size
(time, batch, hidden) only y, z and the activations are saved. Second derivatives use the reference.

There are two entry points to one implementation. `recurrence` is registered with PyTorch, for compilers, vmap and
tensor subclasses. `recur` calls the implementation directly for plain tensors: for short sequences the dispatcher would
take longer than the recurrence.
"""

import contextlib
from collections.abc import Callable, Sequence
from typing import Any, get_type_hints

import torch
from torch import Tensor

from cornn._torch_private import find_apply, is_eager, is_tracing
from cornn.engine import gemms
from cornn.engine.backends import c, graph, portable
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.contract import After, Given, active, check, live_spans
from cornn.engine.updates import UPDATES, OneState
from cornn.functional import unroll, unroll_one

__all__ = [
    "BACKENDS",
    "by_autograd",
    "no_autocast",
    "recur",
    "recurrence",
    "recurrence_backward",
    "reference",
]

BACKENDS = {"cuda": cuda, "c": c, "graph": graph, "portable": portable}
"""Name -> module, most preferred first."""

ARGUMENTS = Given._fields[:-1]
"""What there may be a gradient for: all but the lengths."""

_AS_IT_IS = contextlib.nullcontext()


def no_autocast(device: str) -> contextlib.AbstractContextManager:
    """Return a context manager in which operations run in the types of their arguments."""
    available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if available and torch.is_autocast_enabled(device) else _AS_IT_IS


def _served_by(backend: str) -> Any:
    """Return a backend. "cuda/tf32" is cuda with products in tf32: the name carries the precision."""
    name, _, precision = backend.partition("/")
    return BACKENDS[name].reduced(precision) if precision else BACKENDS[name]


def _forward(backend: str, given: Given, *, update: str, **options) -> tuple[Tensor, Tensor, Tensor | None]:
    """Return (output, last, trail) of a backend, which computes the products itself or leaves them to `gemms`."""
    module = _served_by(backend)
    check(UPDATES[update], given)
    if whole := getattr(module, "whole_forward", None):
        return whole(given, update=update, **options)
    return gemms.forward(module, given, update=update, **options)


def _backward(backend: str, given: Given, after: After, **options) -> Sequence[Tensor | None]:
    """Gradients for `ARGUMENTS`, in their order; None where `needs` says that none is wanted."""
    module = _served_by(backend)
    with no_autocast(after.output.device.type):
        if whole := getattr(module, "whole_backward", None):
            return whole(given, after, **options)
        return gemms.backward(module, given, after, **options)


def _wants_gradient(given: Sequence[Tensor | None]) -> bool:
    return torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given)


def _forward_operator(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, update, backend, every, keep = inputs
    given = Given(*tensors)
    output, last, trail = _forward(backend, given, update=update, every=every, keep=keep)
    return output, last, given.input.new_empty(0) if trail is None else trail


def _forward_fake(*inputs) -> tuple[Tensor, Tensor, Tensor]:
    *tensors, update, _, every, keep = inputs
    given, rule = Given(*tensors), UPDATES[update]
    (*shape, _), hidden = given.input.shape, given.state.shape[-1]
    output = given.input.new_empty((*shape, hidden) if keep or every else 0)
    trail = given.input.new_empty((rule.trail, *shape, rule.drives * hidden) if keep else 0)
    return output, torch.empty_like(given.state, memory_format=torch.contiguous_format), trail


def _backward_operator(*inputs) -> tuple[Tensor, ...]:
    """Gradients for `ARGUMENTS`, in their order; an empty tensor where `needs` says that none is wanted."""
    *tensors, update, backend, needs = inputs
    after, given = After(*tensors[:4]), Given(*tensors[4:])
    gradients = _backward(backend, given, after, update=update, needs=needs)
    return tuple(given.input.new_empty(0) if gradient is None else gradient for gradient in gradients)


def _backward_fake(*inputs) -> tuple[Tensor, ...]:
    *tensors, _, _, needs = inputs
    input, *_ = arguments = tensors[4:-1]
    return tuple(
        input.new_empty(argument.shape if need else 0) for argument, need in zip(arguments, needs, strict=True)
    )


# torch.library.custom_op would add checks to every call that take longer than the call.
_LIBRARY = torch.library.Library("cornn", "FRAGMENT")


def _registered(name: str, tensors: dict[str, object], options: str, results: int, function, fake):
    """An operator of tensors, each with its type, and of options."""
    takes = ", ".join(f"Tensor{'' if kind is Tensor else '?'} {tensor}" for tensor, kind in tensors.items())
    schema = f"{name}({takes}, {options}) -> ({', '.join(['Tensor'] * results)})"
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"cornn::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.cornn, name).default


_GIVEN, _AFTER = get_type_hints(Given), get_type_hints(After)
recurrence = _registered(
    "recurrence", _GIVEN, "str update, str backend, bool every, bool keep", 3, _forward_operator, _forward_fake
)
recurrence_backward = _registered(
    "recurrence_backward",
    _AFTER | _GIVEN,
    "str update, str backend, bool[] needs",
    len(ARGUMENTS),
    _backward_operator,
    _backward_fake,
)


def _setup(ctx, inputs, output) -> None:
    *tensors, ctx.update, ctx.backend, _, _ = inputs
    ctx.save_for_backward(*tensors, output[0], output[2])
    ctx.set_materialize_grads(False)


def _gradients(ctx, *grads) -> tuple[Tensor | None, ...]:
    """For what both doors were given: eight tensors and four options."""
    *tensors, output, trail = ctx.saved_tensors
    grad_output, grad_last = grads[:2]
    if grad_output is None and grad_last is None:
        return (None,) * 12
    needs = ctx.needs_input_grad[: len(ARGUMENTS)]
    given, after = Given(*tensors), After(grad_output, grad_last, output, trail)
    if not torch.is_grad_enabled() and is_eager(after + given):
        gradients = _backward(ctx.backend, given, after, update=ctx.update, needs=needs)
        return *gradients, None, None, None, None, None
    gradients = recurrence_backward(*after, *given, ctx.update, ctx.backend, needs)
    wanted = [gradient if need else None for gradient, need in zip(gradients, needs, strict=True)]
    return *wanted, None, None, None, None, None


torch.library.register_autograd("cornn::recurrence", _gradients, setup_context=_setup, lib=_LIBRARY)


class _Recurrence(torch.autograd.Function):
    """The operator's gradient without the operator around it."""

    @staticmethod
    def forward(ctx, *inputs):
        *tensors, update, backend, every, keep = inputs
        output, last, trail = _forward(backend, Given(*tensors), update=update, every=every, keep=keep)
        _setup(ctx, inputs, (output, last, trail))
        return output, last

    backward = staticmethod(_gradients)


_apply = find_apply(_Recurrence)


def by_autograd(
    equations: Callable[..., tuple[Tensor, ...]],
    tensors: Sequence[Tensor | None],
    grads: Sequence[Tensor | None],
    needs: Sequence[bool],
) -> list[Tensor | None]:
    """Compute gradients by autograd through `equations`, a function of `tensors`.

    The result can be differentiated again if gradients are enabled, and `grads` may be batched by vmap.

    Args:
        equations: Differentiable function of the tensors.
        tensors: Its arguments.
        grads: Gradients of its results; at least one is not None.
        needs: Whether to compute the gradient of each tensor.

    Returns:
        The gradients of the tensors; None for those that are not needed.
    """
    again, device = torch.is_grad_enabled(), next(x.device.type for x in tensors if x is not None)
    with torch.enable_grad(), no_autocast(device):
        # Views: what a state owes to weights that are here too belongs to the state's own graph.
        views = [None if x is None else x.view_as(x) for x in tensors]
        pairs = [(result, grad) for result, grad in zip(equations(*views), grads, strict=True) if grad is not None]
        wanted = [x for x, need in zip(views, needs, strict=True) if need and x is not None]
        results, weights = zip(*pairs, strict=True)
        found = iter(torch.autograd.grad(results, wanted, weights, create_graph=again, allow_unused=True))
    return [next(found) if need else None for need in needs]


def recur(given: Given, update: str, backend: str, every: bool, direct: bool) -> tuple[Tensor, Tensor]:
    """Return (output, last); `direct` bypasses the dispatcher, and needs tensors that pass `is_eager`."""
    # A traced program may be differentiated later, and the tracer checks itself without gradients.
    keep = _wants_gradient(given) or is_tracing()
    if not direct:
        return recurrence(*given, update, backend, every, keep)[:2]
    if keep:
        return _apply(*given, update, backend, every, keep)
    return _forward(backend, given, update=update, every=every, keep=keep)[:2]


def reference(given: Given, update: str, *, exact_spans: bool = False) -> tuple[Tensor, Tensor]:
    """Return (output, last) of the reference equations, differentiable any number of times."""
    input, state, input_weight, bias, weight, parameters, _, lengths = given
    rule = UPDATES[update]
    drive = input if input_weight is None else input @ input_weight.mT
    if bias is not None:
        drive = drive + bias.unsqueeze(-2)
    if isinstance(rule, OneState):
        lives = None if lengths is None else active(lengths, drive).bool()
        parts = parameters.unsqueeze(-2).unbind(0)
        output, h = unroll_one(drive, state[0], weight, parts, pointwise=rule.pointwise, active=lives)
        return output, h.unsqueeze(0)
    hidden, (y, z), (dt, gamma, epsilon) = weight.shape[-2], state, parameters.unsqueeze(-2)
    output, last = unroll(
        drive,
        y,
        z,
        weight[..., :hidden],
        weight[..., hidden:],
        dt,
        gamma,
        epsilon,
        timespans=live_spans(given),
        exact=exact_spans,
        damping=rule.damping,
        activation=rule.activation,
    )
    return output, torch.stack(last)


def _setup_second(ctx, inputs, output) -> None:
    grad_output, grad_last, _, _, *tensors, ctx.update, _, ctx.needs = inputs
    ctx.save_for_backward(grad_output, grad_last, *tensors)
    ctx.set_materialize_grads(False)


def _variable(x: Tensor | None) -> Tensor | None:
    """To differentiate for: a view, where it has a graph of its own that may be gone through after this one."""
    if x is None:
        return None
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def _second_gradients(ctx, *grads):
    """The gradient of the gradient, by differentiating the reference twice, and once more where that is asked for."""
    grad_output, grad_last, *arguments, lengths = ctx.saved_tensors
    if all(grad is None for grad in grads):
        return (None,) * 15
    again = torch.is_grad_enabled()
    with torch.enable_grad(), no_autocast(arguments[0].device.type):
        variables = [_variable(x) for x in (grad_output, grad_last, *arguments)]
        grads_given, arguments = variables[:2], variables[2:]
        results = reference(Given._make([*arguments, lengths]), ctx.update)
        pairs = [(y, g) for y, g in zip(results, grads_given, strict=True) if g is not None]
        asked = [(x, g) for x, need, g in zip(arguments, ctx.needs, grads, strict=True) if need and g is not None]
        outputs, weights = zip(*pairs, strict=True)
        inputs, seconds = zip(*asked, strict=True)
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True)
        present = [x for x in variables if x is not None]
        second = torch.autograd.grad(first, present, seconds, create_graph=again, allow_unused=True)
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
        raise NotImplementedError("nested vmap over the recurrence is not supported: stack all models in one dimension")
    return grouped


def _dims(results: tuple[Tensor, ...], places) -> tuple[int | None, ...]:
    # What is not wanted comes as an empty tensor of one dimension.
    return tuple(place if result.dim() > 1 else None for result, place in zip(results, places, strict=True))


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
