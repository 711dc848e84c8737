"""The portable loop for networks of one state, with PyTorch's own operations. The interface is in `contract.py`."""

import torch
from torch import Tensor

from cornn.engine.contract import After, Given, live_spans
from cornn.engine.gemms import StepGradients
from cornn.engine.updates import OneState

__all__ = ["backward", "forward"]


def _add_product_(pre: Tensor, left: Tensor, right: Tensor) -> None:
    """pre += left @ right, for one model or a group; a product that is narrower goes to every drive."""
    if pre.shape[-1] != right.shape[-1]:
        pre.unflatten(-1, (-1, right.shape[-1])).add_((left @ right).unsqueeze(-2))
    elif pre.dim() == 2:
        pre.addmm_(left, right)
    else:
        pre.baddbmm_(left, right)


def _masks(given: Given) -> list[Tensor | None]:
    """One mask a step, (batch, 1): whether a sequence still runs. None where all do."""
    live = live_spans(given)
    return [None] * given.input.shape[0] if live is None else list(live.bool().unsqueeze(-1).unbind(0))


def forward(rule: OneState, given: Given, trail: Tensor, *, every: bool, keep: bool) -> tuple[Tensor, Tensor]:
    assert given.state is not None
    drive, h = trail[-1], given.state[0]
    constants = given.parameters.unsqueeze(-2).unbind(0)
    right = given.weight.mT
    written = keep or every
    output = drive.new_empty((*drive.shape[:-1], h.shape[-1]) if written else 0)
    # Where a sequence need not be written down, two buffers take turns.
    turns = (torch.empty_like(h), torch.empty_like(h)) * (drive.shape[0] // 2 + 1)
    masks, afters = _masks(given), output.unbind(0) if written else turns
    for pre, mask, after in zip(drive.unbind(0), masks, afters, strict=False):
        _add_product_(pre, h, right)
        rule.step_(pre, h, constants, after)
        if mask is not None:
            after.copy_(torch.where(mask, after, h))
        h = after
    return output, h.clone().unsqueeze(0)


def backward(rule: OneState, given: Given, after: After, *, need_parameters: bool) -> StepGradients:
    assert given.state is not None
    grad_output, grad_last, output, trail = after
    state, constants = given.state, given.parameters.unsqueeze(-2).unbind(0)
    steps, hidden = output.shape[0], output.shape[-1]
    kept, masks = trail[-1].unbind(0), _masks(given)
    before = (state[0], *output[:-1].unbind(0))
    grad_hs = [None] * steps if grad_output is None else grad_output.unbind(0)
    gradient = torch.zeros_like(state[0]) if grad_last is None else grad_last[0].clone()
    grad_drive = torch.empty_like(trail[-1])
    totals = [torch.zeros_like(state[0]) for _ in rule.parameters]
    for n in reversed(range(steps)):
        delta, mask = grad_drive[n], masks[n]
        if (grad_h := grad_hs[n]) is not None:
            gradient += grad_h
        # Past its end a state stays as it is, and so does its gradient.
        beyond = None if mask is None else gradient.masked_fill(mask, 0)
        if mask is not None:
            gradient.masked_fill_(~mask, 0)
        terms = rule.adjoint_(gradient, kept[n], before[n], constants, delta)
        if need_parameters:
            for total, term in zip(totals, terms, strict=True):
                total += term
        shared = delta if rule.products == rule.drives else delta.unflatten(-1, (-1, hidden)).sum(-2)
        _add_product_(gradient, shared, given.weight)
        if beyond is not None:
            gradient += beyond
    return StepGradients(
        drive=grad_drive,
        state=gradient.unsqueeze(0),
        parameters=torch.stack([total.sum(-2) for total in totals]) if need_parameters else None,
        timespans=None,
    )
