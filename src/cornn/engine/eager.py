"""The recurrence for plain tensors, as one autograd function around a backend that bypasses PyTorch's dispatcher.

For short sequences the registered operator (`op.py`) and its checks would take longer than the recurrence.
`_torch_private.is_eager` decides which tensors are plain.

Weights may have factors, `Scales`. Backends multiply the weights and their gradients by them.
"""

import torch
from torch import Tensor

from cornn._autocast import no_autocast
from cornn._torch_private import find_apply, is_eager, without_history
from cornn.engine.contract import Backend, BackwardInputs, Gradients, Needs, Operands, Request, Scales
from cornn.engine.gemms import apply_scales
from cornn.engine.op import BACKENDS, options, recurrence_backward

__all__ = ["recur"]


class _Recurrence(torch.autograd.Function):
    """Map (backend, request, scales, *Operands) to the output and the parts of the last state."""

    @staticmethod
    def forward(ctx, backend: str, request: Request, scales: Scales | None, *tensors):
        module: Backend = BACKENDS[backend]
        output, last, trail = module.forward(Operands(*tensors), request, scales)
        ctx.backend, ctx.request = backend, request
        ctx.save_for_backward(*tensors, output, trail, *(scales or ()))
        ctx.set_materialize_grads(False)
        return output, *map(without_history, last.chunk(request.update.states))

    @staticmethod
    def backward(ctx, grad_output, *grad_parts):
        none = (None, None, None)  # for backend, request and scales
        if grad_output is None and all(part is None for part in grad_parts):
            return *none, *(None,) * len(Operands._fields)
        saved, count = ctx.saved_tensors, len(Operands._fields)
        operands, (output, trail, *scales) = Operands(*saved[:count]), saved[count:]
        backward_inputs = BackwardInputs(grad_output, _join(grad_parts), output, trail)
        scales = Scales(*scales) if scales else None
        needs = Needs(*ctx.needs_input_grad[len(none) : len(none) + len(Needs._fields)])
        if torch.is_grad_enabled() or not is_eager(backward_inputs):
            gradients = _differentiable(ctx, operands, backward_inputs, needs, scales)
        else:
            module: Backend = BACKENDS[ctx.backend]
            with no_autocast(operands.input.device.type):
                gradients = module.backward(operands, backward_inputs, ctx.request, needs, scales)
        return *none, *gradients, None


def _join(parts: tuple[Tensor | None, ...]) -> Tensor | None:
    """Join the gradients of the parts of the last state; None if there are none."""
    some = next((part for part in parts if part is not None), None)
    if some is None:
        return None
    return torch.cat([torch.zeros_like(some) if part is None else part for part in parts])


def _differentiable(
    ctx, operands: Operands, backward_inputs: BackwardInputs, needs: Needs, scales: Scales | None
) -> tuple[Tensor | None, ...]:
    """Compute the gradients by the registered operator, which can be differentiated again."""
    gradients_found = recurrence_backward(
        *backward_inputs, *apply_scales(operands, scales), *options(ctx.backend, ctx.request), needs
    )
    gradients = Gradients._make(
        gradient if need else None for gradient, need in zip(gradients_found, needs, strict=True)
    )
    if scales is None:
        return gradients
    weights = (None if x is None else x * scale for x, scale in zip(gradients[2:5], scales, strict=True))
    return *gradients[:2], *weights, *gradients[5:]


_apply = find_apply(_Recurrence)


def recur(
    operands: Operands, scales: Scales | None, backend: str, request: Request
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return the output, and the parts of the last state, each of shape `(1, batch, hidden)`."""
    if request.keep:
        output, *parts = _apply(backend, request, scales, *operands)
        return output, tuple(parts)
    output, last, _ = BACKENDS[backend].forward(operands, request, scales)
    return output, tuple(map(without_history, last.chunk(request.update.states)))
