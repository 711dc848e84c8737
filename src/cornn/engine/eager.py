"""The recurrence for plain tensors, as one autograd function around a backend that bypasses PyTorch's dispatcher.

For short sequences the registered operator (`op.py`) and its checks would take longer than the recurrence.
`_torch_private.is_eager` decides which tensors are plain.

Weights may have factors, `Scales`. They are multiplied here, all by one call; backends scale the gradients.
"""

import torch
from torch import Tensor

from cornn._autocast import no_autocast
from cornn._torch_private import find_apply, is_eager, multiply_all, without_history
from cornn.engine.contract import After, Backend, Given, Gradients, Needs, Request, Scales
from cornn.engine.op import BACKENDS, options, recurrence_backward

__all__ = ["apply_scales", "recur"]


def apply_scales(given: Given, scales: Scales | None) -> Given:
    """Return the tensors with the weights multiplied by their scales, by operations that autograd records."""
    if scales is None:
        return given
    input, state, input_weight, bias, weight, parameters, timespans, lengths = given
    assert input_weight is not None
    bias = None if bias is None else bias * scales.bias
    weights = input_weight * scales.input_weight, bias, weight * scales.weight
    return Given(input, state, *weights, parameters, timespans, lengths)


def _apply_scales_at_once(given: Given, scales: Scales | None) -> Given:
    """Multiply as `apply_scales` does, by one call that autograd does not record."""
    if scales is None:
        return given
    input, state, input_weight, bias, weight, parameters, timespans, lengths = given
    if bias is not None:
        input_weight, bias, weight = multiply_all((input_weight, bias, weight), scales)
    else:
        input_weight, weight = multiply_all((input_weight, weight), (scales.input_weight, scales.weight))
    return Given(input, state, input_weight, bias, weight, parameters, timespans, lengths)


class _Recurrence(torch.autograd.Function):
    """Map (backend, request, scales, *Given) to the output and the parts of the last state, each (1, batch, hidden)."""

    @staticmethod
    def forward(ctx, backend: str, request: Request, scales: Scales | None, *tensors):
        module: Backend = BACKENDS[backend]
        given = _apply_scales_at_once(Given(*tensors), scales)
        output, last, trail = module.forward(given, request)
        ctx.backend, ctx.request, ctx.scales = backend, request, scales
        ctx.save_for_backward(*tensors, output, trail, *(given[2:5] if scales is not None else ()))
        ctx.set_materialize_grads(False)
        return output, *map(without_history, last.chunk(request.update.states))

    @staticmethod
    def backward(ctx, grad_output, *grad_parts):
        none = (None, None, None)  # for backend, request and scales
        scales: Scales | None = ctx.scales
        if grad_output is None and all(part is None for part in grad_parts):
            return *none, *(None,) * len(Given._fields)
        saved, count = ctx.saved_tensors, len(Given._fields)
        given, after = Given(*saved[:count]), After(grad_output, _join(grad_parts), *saved[count : count + 2])
        needs = Needs(*ctx.needs_input_grad[len(none) : len(none) + len(Needs._fields)])
        if torch.is_grad_enabled() or not is_eager(after):
            gradients = _differentiable(ctx, given, after, needs)
        else:
            if scales is not None:
                input, state, _, _, _, *rest = given
                given = Given(input, state, *saved[count + 2 :], *rest)
            module: Backend = BACKENDS[ctx.backend]
            with no_autocast(given.input.device.type):
                gradients = module.backward(given, after, ctx.request, needs, scales)
        return *none, *gradients, None


def _join(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    """Join the gradients of the parts of the last state; None if there are none."""
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    return torch.cat([torch.zeros_like(some) if part is None else part for part in parts])


def _differentiable(ctx, given: Given, after: After, needs: Needs) -> tuple[Tensor | None, ...]:
    """Compute the gradients by the registered operator, which can be differentiated again."""
    scales: Scales | None = ctx.scales
    found = recurrence_backward(*after, *apply_scales(given, scales), *options(ctx.backend, ctx.request), needs)
    gradients = Gradients._make(gradient if need else None for gradient, need in zip(found, needs, strict=True))
    if scales is None:
        return gradients
    weights = (None if x is None else x * scale for x, scale in zip(gradients[2:5], scales, strict=True))
    return *gradients[:2], *weights, *gradients[5:]


_apply = find_apply(_Recurrence)


def recur(given: Given, scales: Scales | None, backend: str, request: Request) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the output, and the parts of the last state, each of shape `(1, batch, hidden)`."""
    if request.keep:
        output, *parts = _apply(backend, request, scales, *given)
        return output, tuple(parts)
    output, last, _ = BACKENDS[backend].forward(_apply_scales_at_once(given, scales), request)
    return output, tuple(map(without_history, last.chunk(request.update.states)))
