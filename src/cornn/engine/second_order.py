"""Derivatives by autograd through the reference equations: any number of times, in any mode."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from cornn._autocast import no_autocast
from cornn.engine.contract import BackwardInputs, Operands, active, effective_timespans, initial_state
from cornn.engine.op import LIBRARY
from cornn.engine.updates import Oscillator, Spans, TimedUpdate, Update, find_update
from cornn.functional import Spectrum, compose, unroll, unroll_by

__all__ = ["Step", "by_autograd", "reference", "unroll_steps"]

Step = Callable[[Tensor, tuple[Tensor, ...], Tensor | None], tuple[Tensor, ...]]
"""Function (drive, state, span) -> state; drive: (*batch, rows), parts of the state: (*batch, hidden), span:
(*batch, 1) or None."""


def reference(operands: Operands, update: Update) -> tuple[Tensor, Tensor]:
    """Return (output, last) of the reference equations, differentiable any number of times."""
    input, _, input_weight, bias, weight, parameters, _, lengths = operands
    state = initial_state(update, operands)
    drive = input if input_weight is None else input @ input_weight.mT
    if bias is not None:
        drive = drive + bias.unsqueeze(-2)
    if not isinstance(update, TimedUpdate):
        k = parameters.unsqueeze(-2).unbind(0)
        return unroll_steps(lambda now, parts, _: update.step(now, parts, weight, k), drive, state, lengths=lengths)
    hidden, (y, z), constants, spans = weight.shape[-2], state, parameters.unsqueeze(-2), effective_timespans(operands)
    W, W_z = weight[..., :hidden], weight[..., hidden:]
    if isinstance(update, Spans):
        spans = drive.new_ones(drive.shape[:-1]) if spans is None else spans
        over = compose(Spectrum(*constants), spans.unsqueeze(-1))
        output, last = unroll_by(over, drive, y, z, W, W_z, activation=update.activation)
        return output, torch.stack(last)
    assert isinstance(update, Oscillator)
    options = {"damping": update.damping, "activation": update.activation}
    output, last = unroll(drive, y, z, W, W_z, *constants, timespans=spans, **options)
    return output, torch.stack(last)


def unroll_steps(
    step: Step,
    drive: Float[Tensor, "time *batch rows"],
    state: Float[Tensor, "states *batch hidden"],
    timespans: Float[Tensor, "time *batch"] | None = None,
    lengths: Tensor | None = None,
    every: bool = True,
) -> tuple[Tensor, Float[Tensor, "states *batch hidden"]]:
    """Run all steps; return the first part of the state after every step (empty if not `every`) and the last state."""
    steps = drive.shape[0]
    spans = [None] * steps if timespans is None else timespans.unsqueeze(-1).unbind(0)
    runs = [None] * steps if lengths is None else active(lengths, drive).bool().unsqueeze(-1).unbind(0)
    outputs, parts = [], state.unbind(0)
    # unbind, not indexing: the gradient of an indexing loop costs O(time^2).
    for now, span, runs_on in zip(drive.unbind(0), spans, runs, strict=True):
        new = step(now, parts, span)
        if runs_on is not None:
            new = tuple(torch.where(runs_on, after, other) for after, other in zip(new, parts, strict=True))
        parts = new
        if every:
            outputs.append(parts[0])
    return torch.stack(outputs) if every else drive.new_empty(0), torch.stack(parts)


def by_autograd(
    equations: Callable[..., Sequence[Tensor | None]],
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
    create_graph, device = torch.is_grad_enabled(), next(x.device.type for x in tensors if x is not None)
    with torch.enable_grad(), no_autocast(device):
        views = [x if x is None or not need else _variable(x) for x, need in zip(tensors, needs, strict=True)]
        pairs = [(result, grad) for result, grad in zip(equations(*views), grads, strict=True) if grad is not None]
        inputs = [x for x, need in zip(views, needs, strict=True) if need and x is not None]
        results, weights = zip(*pairs, strict=True)
        computed = iter(torch.autograd.grad(results, inputs, weights, create_graph=create_graph, allow_unused=True))
    return [next(computed) if need else None for need in needs]


def _setup(ctx, inputs, output) -> None:
    count = len(BackwardInputs._fields)
    backward_inputs, rest = BackwardInputs(*inputs[:count]), inputs[count:]
    tensors, (_, ctx.update, *_, ctx.needs) = rest[: len(Operands._fields)], rest[len(Operands._fields) :]
    ctx.count = len(inputs)
    ctx.save_for_backward(backward_inputs.grad_output, backward_inputs.grad_last, *tensors)
    ctx.set_materialize_grads(False)


def _variable(x: Tensor) -> Tensor:
    """Return a tensor to differentiate for, apart from the graph of x: a state may depend on weights, also inputs."""
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def _gradients(ctx, *grads):
    """Return the gradients of the backward pass, by differentiating the reference twice."""
    *tensors, lengths = ctx.saved_tensors
    if all(grad is None for grad in grads):
        return (None,) * ctx.count
    needs = [need and grad is not None for need, grad in zip(ctx.needs, grads, strict=True)]

    def backward(grad_output, grad_last, *arguments):
        def forward(*arguments):
            return reference(Operands._make((*arguments, lengths)), find_update(ctx.update))

        return by_autograd(forward, arguments, (grad_output, grad_last), needs)

    for_output, for_last, *rest = by_autograd(backward, tensors, grads, [x is not None for x in tensors])
    # None for the output and the trail: the gradient depends on them only through the arguments.
    return for_output, for_last, None, None, *rest, *(None,) * (ctx.count - len(rest) - len(BackwardInputs._fields))


torch.library.register_autograd("cornn::recurrence_backward", _gradients, setup_context=_setup, lib=LIBRARY)
