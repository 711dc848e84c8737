"""The recurrence with PyTorch's own operations, on any device and in any floating type.

Forward and backward are loops without autograd around an update's own step and derivative (`Update.portable`). The
interface is in `contract.py`.

`forward_steps` and `backward_steps` are the loops alone, without the products over all steps: what `graph` captures.
"""

import torch
from torch import Tensor

from cornn.engine import gemms
from cornn.engine.contract import (
    BackwardInputs,
    ForwardResult,
    Gradients,
    Needs,
    Operands,
    Problem,
    Request,
    Scales,
    active,
    effective_timespans,
    initial_state,
)
from cornn.engine.gemms import StepGradients
from cornn.engine.updates import Update

__all__ = ["backward", "backward_steps", "forward", "forward_steps", "usable"]


def usable(problem: Problem) -> tuple[bool, str]:
    return True, "PyTorch operations"


def forward(operands: Operands, request: Request, scales: Scales | None = None) -> ForwardResult:
    operands = gemms.apply_scales(operands, scales)
    operands = operands._replace(state=initial_state(request.update, operands))
    trail = gemms.start_trail(operands, request)
    output, last = forward_steps(operands, trail, request)
    return ForwardResult(output, last, trail if request.keep else None)


def backward(
    operands: Operands, backward_inputs: BackwardInputs, request: Request, needs: Needs, scales: Scales | None = None
) -> Gradients:
    operands = gemms.apply_scales(operands, scales)
    whole = operands._replace(state=initial_state(request.update, operands))
    steps = backward_steps(whole, backward_inputs, request.update, needs.parameters, needs.timespans)
    return gemms.gradients(operands, backward_inputs, steps, needs, scales)


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> None:
    """Add left @ right to `total`, for one model or a group; a narrower product is added to every drive."""
    if total.shape[-1] != right.shape[-1]:
        total.unflatten(-1, (-1, right.shape[-1])).add_((left @ right).unsqueeze(-2))
    elif total.dim() == 2:
        total.addmm_(left, right)
    else:
        total.baddbmm_(left, right)


def _spans_and_masks(update: Update, operands: Operands) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Return a span and a mask per step, (batch, 1) each, or None; past its end a sequence has span 0 or is masked."""
    live = effective_timespans(operands)
    nothing: list[Tensor | None] = [None] * operands.input.shape[0]
    if live is None:
        return nothing, nothing
    if update.timed:
        return list(live.unsqueeze(-1).unbind(0)), nothing
    return nothing, list(live.bool().unsqueeze(-1).unbind(0))


def forward_steps(operands: Operands, trail: Tensor, request: Request) -> tuple[Tensor, Tensor]:
    """Run the steps; return the output and the last state.

    The last block of the trail is the drive, which the kept values overwrite. Without `keep` there is no other block.
    `operands` must have a state; its input and input weights are not used.
    """
    update, every, keep, _ = request
    assert operands.state is not None
    drive, state = trail[-1], operands.state.unbind(0)
    steps, hidden = drive.shape[0], state[0].shape[-1]
    blocks = [block.mT for block in operands.weight.split(hidden, -1)]
    parameters = operands.parameters.unsqueeze(-2)
    fixed = update.coefficients(parameters, None)
    step_ = update.portable.step_
    spans, masks = _spans_and_masks(update, operands)

    # If the sequence is not kept, two buffers alternate.
    output = drive.new_empty((*drive.shape[:-1], hidden) if keep or every else 0)
    sequences = [output if keep or every else None, *(trail[:-1] if keep else [None] * (update.states - 1))]
    next_states = (
        (torch.empty_like(part), torch.empty_like(part)) * (steps // 2 + 1) if whole is None else whole.unbind(0)
        for part, whole in zip(state, sequences, strict=True)
    )
    for pre, span, mask, *next_state in zip(drive.unbind(0), spans, masks, *next_states, strict=False):
        for part, block in zip(state, blocks, strict=True):
            _add_product_(pre, part, block)
        step_(pre, state, fixed if span is None else update.coefficients(parameters, span), next_state)
        if mask is not None:
            for part, before in zip(next_state, state, strict=True):
                part.copy_(torch.where(mask, part, before))
        state = next_state
    return output, torch.stack(tuple(state))


def backward_steps(
    operands: Operands, backward_inputs: BackwardInputs, update: Update, need_parameters: bool, need_timespans: bool
) -> StepGradients:
    """Return the gradients of the drive, the initial state, the parameters and the timespans."""
    assert operands.state is not None
    grad_output, grad_last, output, trail = backward_inputs
    state, parameters = operands.state, operands.parameters.unsqueeze(-2)
    steps, hidden = output.shape[0], output.shape[-1]
    fixed, adjoint_ = update.coefficients(parameters, None), update.portable.adjoint_
    sequences = [whole.unbind(0) for whole in (output, *trail[:-1])]
    states = list(zip(*((first, *rest) for first, rest in zip(state, sequences, strict=True)), strict=True))
    spans, masks = _spans_and_masks(update, operands)
    grad_outputs = [None] * steps if grad_output is None else grad_output.unbind(0)

    # The gradients of all states side by side need one product only.
    if grad_last is None:
        whole = state.new_zeros(*state.shape[1:-1], update.states * hidden)
    else:
        whole = torch.cat((*grad_last,), -1)
    gradient = whole.split(hidden, -1)
    grad_drive = torch.empty_like(trail[-1])
    kept, deltas = trail[-1].unbind(0), grad_drive.unbind(0)
    need = need_parameters or need_timespans
    sums = [torch.zeros_like(state[0]) for _ in fixed] if need else None
    totals = [torch.zeros_like(state[0]) for _ in update.parameters] if need else []
    grad_spans: list[Tensor] = []

    for n in reversed(range(steps)):
        span, mask, delta = spans[n], masks[n], deltas[n]
        if (grad_of_step := grad_outputs[n]) is not None:
            gradient[0].add_(grad_of_step)
        # Past its end a state stays as it is, and so does its gradient.
        beyond = None if mask is None else whole.masked_fill(mask, 0)
        if mask is not None:
            whole.masked_fill_(~mask, 0)
        k = fixed if span is None else update.coefficients(parameters, span)
        adjoint_(gradient, kept[n], states[n], states[n + 1], k, delta, sums)
        if sums is not None and span is not None:
            terms, for_span = update.parameter_gradients(parameters, span, sums)
            for total, term in zip(totals, terms, strict=True):
                total += term
            for buffer in sums:
                buffer.zero_()
            assert for_span is not None
            grad_spans.append(for_span.sum(-1))
        shared = delta if update.products == update.drives else delta.unflatten(-1, (-1, hidden)).sum(-2)
        _add_product_(whole, shared, operands.weight)
        if beyond is not None:
            whole += beyond

    if sums is not None and spans[0] is None:
        totals = update.parameter_gradients(parameters, None, sums)[0]
    for_timespans = torch.stack(grad_spans[::-1]) if need_timespans else None
    if for_timespans is not None and operands.lengths is not None:
        for_timespans *= active(operands.lengths, output)
    return StepGradients(
        drive=grad_drive,
        state=torch.stack(gradient),
        parameters=torch.stack([total.sum(-2) for total in totals]) if need_parameters else None,
        timespans=for_timespans,
    )
