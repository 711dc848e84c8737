"""Derivatives by autograd through the reference equations: any number of times, in any mode."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from cornn._autocast import no_autocast
from cornn.engine.contract import BackwardInputs, Operands, active, effective_timespans, initial_state
from cornn.engine.op import LIBRARY
from cornn.engine.updates import Oscillator, Spans, TimedUpdate, Update, find_update
from cornn.functional import Spectrum, compose, unroll, unroll_by

__all__ = ["by_autograd", "reference"]


def reference(operands: Operands, update: Update) -> tuple[Tensor, Tensor]:
    """Return (output, last) of the reference equations, differentiable any number of times."""
    input, _, input_weight, bias, weight, parameters, _, lengths = operands
    state = initial_state(update, operands)
    drive = input if input_weight is None else input @ input_weight.mT
    if bias is not None:
        drive = drive + bias.unsqueeze(-2)
    if not isinstance(update, TimedUpdate):
        lives = None if lengths is None else active(lengths, drive).bool()
        return _unroll(update, drive, state, weight, parameters, lives)
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


def _unroll(
    update: Update, drive: Tensor, state: Tensor, weight: Tensor, parameters: Tensor, lives: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Run an update over a sequence; where `lives`, (time, batch), is False, a sequence keeps its state."""
    outputs, now, k = [], state.unbind(0), parameters.unsqueeze(-2).unbind(0)
    masks = [None] * len(drive) if lives is None else lives.unsqueeze(-1).unbind(0)
    for drive_n, mask in zip(drive.unbind(0), masks, strict=True):
        next_state = update.step(drive_n, now, weight, k)
        if mask is not None:
            next_state = tuple(torch.where(mask, part, before) for part, before in zip(next_state, now, strict=True))
        now = next_state
        outputs.append(now[0])
    return torch.stack(outputs), torch.stack(now)


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
    create_graph, device = torch.is_grad_enabled(), next(x.device.type for x in tensors if x is not None)
    with torch.enable_grad(), no_autocast(device):
        # Views: the dependence of a state on weights that are also inputs belongs to the graph of the state.
        views = [None if x is None else x.view_as(x) for x in tensors]
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


def _variable(x: Tensor | None) -> Tensor | None:
    """Return a tensor to differentiate for: a view if it has its own graph, which may be traversed later."""
    if x is None:
        return None
    return x.view_as(x) if x.requires_grad else x.detach().requires_grad_()


def _gradients(ctx, *grads):
    """Return the gradients of the backward pass, by differentiating the reference twice."""
    grad_output, grad_last, *arguments, lengths = ctx.saved_tensors
    if all(grad is None for grad in grads):
        return (None,) * ctx.count
    create_graph = torch.is_grad_enabled()
    with torch.enable_grad(), no_autocast(arguments[0].device.type):
        variables = [_variable(x) for x in (grad_output, grad_last, *arguments)]
        grads_given, arguments = variables[:2], variables[2:]
        results = reference(Operands._make([*arguments, lengths]), find_update(ctx.update))
        pairs = [(y, g) for y, g in zip(results, grads_given, strict=True) if g is not None]
        requested = [(x, g) for x, need, g in zip(arguments, ctx.needs, grads, strict=True) if need and g is not None]
        outputs, weights = zip(*pairs, strict=True)
        inputs, seconds = zip(*requested, strict=True)
        first = torch.autograd.grad(outputs, inputs, weights, create_graph=True)
        present = [x for x in variables if x is not None]
        second = torch.autograd.grad(first, present, seconds, create_graph=create_graph, allow_unused=True)
    computed = iter(second)
    for_output, for_last, *for_arguments = [None if x is None else next(computed) for x in variables]
    # None for the output and the trail: the gradient depends on them only through the arguments.
    for_tensors = (*BackwardInputs(for_output, for_last, None, None), *for_arguments)  # pyright: ignore[reportArgumentType]
    return *for_tensors, *(None,) * (ctx.count - len(for_tensors))


torch.library.register_autograd("cornn::recurrence_backward", _gradients, setup_context=_setup, lib=LIBRARY)
