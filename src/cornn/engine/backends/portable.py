"""The recurrence with PyTorch's own operations, on any device and in any floating type.

Forward and backward are written by hand, so nothing is recorded in the loop; what is kept of a step is y, z and the
activation. Networks of one state have a loop of their own (`one_state.py`). The interface is in `contract.py`.
"""

import torch
from torch import Tensor

from cornn.engine import one_state
from cornn.engine.contract import After, Given, Gradients, Problem, active, live_spans
from cornn.engine.updates import UPDATES, OneState
from cornn.functional import Coefficients

__all__ = ["backward", "forward", "usable"]


def usable(problem: Problem) -> tuple[bool, str]:
    return True, "PyTorch operations"


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """total += left @ right, for one model or a group of them."""
    return total.addmm_(left, right) if total.dim() == 2 else total.baddbmm_(left, right)


def _spans(given: Given) -> list[Tensor | None]:
    """One span a step, or None."""
    spans = live_spans(given)
    return [None] * given.input.shape[0] if spans is None else list(spans.unsqueeze(-1).unbind(0))


def forward(given: Given, trail: Tensor, *, update: str, every: bool, keep: bool) -> tuple[Tensor, Tensor]:
    rule = UPDATES[update]
    if isinstance(rule, OneState):
        return one_state.forward(rule, given, trail, every=every, keep=keep)
    sigma = rule.saved
    drive = trail[-1]
    steps, hidden = drive.shape[0], drive.shape[-1]
    W, W_z = given.weight[..., :hidden].mT, given.weight[..., hidden:].mT
    parameters = given.parameters.unsqueeze(-2)
    fixed = rule.coefficients(parameters, None)
    y, z = given.state.unbind(0)

    # Where a sequence need not be written down, two buffers take turns.
    turns = steps // 2 + 1
    output = torch.empty_like(drive) if keep or every else drive.new_empty(0)
    ys = output.unbind(0) if keep or every else (torch.empty_like(y), torch.empty_like(y)) * turns
    zs = trail[0].unbind(0) if keep else (torch.empty_like(z), torch.empty_like(z)) * turns

    for pre, span, y_n, z_n in zip(drive.unbind(0), _spans(given), ys, zs, strict=False):
        k = fixed if span is None else rule.coefficients(parameters, span)
        _add_product_(pre, y, W)
        saved = sigma.save_(_add_product_(pre, z, W_z))
        torch.mul(z, k.keep, out=z_n).addcmul_(sigma.value(saved), k.push).addcmul_(y, k.pull, value=-1)
        torch.addcmul(y, z_n, k.dt, out=y_n)
        y, z = y_n, z_n
    return output, torch.stack((y, z))


def backward(given: Given, after: After, *, update: str, need_parameters: bool, need_timespans: bool) -> Gradients:
    rule = UPDATES[update]
    if isinstance(rule, OneState):
        return one_state.backward(rule, given, after, need_parameters=need_parameters)
    grad_output, grad_last, output, trail = after
    state, parameters = given.state, given.parameters.unsqueeze(-2)
    sigma = rule.saved
    steps, hidden = output.shape[0], output.shape[-1]
    fixed = rule.coefficients(parameters, None)
    ys = (state[0], *output.unbind(0))
    zs = (state[1], *trail[0].unbind(0))
    spans = _spans(given)
    grad_ys = [None] * steps if grad_output is None else grad_output.unbind(0)

    # The adjoints of y and z side by side, so that one product serves both.
    adjoint = state.new_zeros(*state.shape[1:-1], 2 * hidden) if grad_last is None else torch.cat((*grad_last,), -1)
    grad_y, grad_z = adjoint[..., :hidden], adjoint[..., hidden:]
    grad_drive = torch.empty_like(output)
    scaled = torch.empty_like(state[0])
    need = need_parameters or need_timespans
    sums = Coefficients(*(torch.zeros_like(state[0]) for _ in range(4))) if need else None
    totals = [torch.zeros_like(state[0]) for _ in rule.parameters] if need else []
    grad_spans: list[Tensor] = []

    for n in reversed(range(steps)):
        span = spans[n]
        k = fixed if span is None else rule.coefficients(parameters, span)
        if (own := grad_ys[n]) is not None:
            grad_y += own
        if sums is not None:
            value = sigma.value(trail[1, n])
            for_dt = grad_y * zs[n + 1]
            grad_z.addcmul_(grad_y, k.dt)
            if span is None:
                sums.dt.add_(for_dt)
                sums.keep.addcmul_(grad_z, zs[n])
                sums.push.addcmul_(grad_z, value)
                sums.pull.addcmul_(grad_z, ys[n], value=-1)
            else:
                step = Coefficients(grad_z * zs[n], grad_z * value, -grad_z * ys[n], for_dt)
                *for_parameters, for_span = rule.parameter_gradients(parameters, span, step)
                for total, term in zip(totals, for_parameters, strict=True):
                    total += term
                grad_spans.append(for_span.sum(-1))
        else:
            grad_z.addcmul_(grad_y, k.dt)
        torch.mul(grad_z, k.push, out=scaled)
        sigma.backward_(scaled, trail[1, n], grad_drive[n])
        grad_y.addcmul_(grad_z, k.pull, value=-1)
        grad_z *= k.keep
        _add_product_(adjoint, grad_drive[n], given.weight)

    if sums is not None and spans[0] is None:
        totals = list(rule.parameter_gradients(parameters, None, sums)[:-1])
    for_timespans = torch.stack(grad_spans[::-1]) if need_timespans else None
    if for_timespans is not None and given.lengths is not None:
        for_timespans *= active(given.lengths, output)
    return Gradients(
        drive=grad_drive,
        state=torch.stack((grad_y, grad_z)),
        parameters=torch.stack([total.sum(-2) for total in totals]) if need_parameters else None,
        timespans=for_timespans,
    )
