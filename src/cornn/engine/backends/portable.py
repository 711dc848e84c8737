"""The recurrence with PyTorch's own operations, on any device and in any floating type.

Forward and backward are written by hand, so nothing is recorded in the loop; what is kept of a step is y, z and the
activation. Networks of one state have a loop of their own (`one_state.py`). The interface is in `contract.py`.

`forward_steps` and `backward_steps` are the loops alone, without the products over all steps: what `graph` captures.
"""

import torch
from torch import Tensor

from cornn.engine import gemms, one_state
from cornn.engine.contract import (
    After,
    Given,
    Gradients,
    Needs,
    Passed,
    Problem,
    Request,
    Scales,
    active,
    initial_state,
    live_spans,
)
from cornn.engine.gemms import StepGradients
from cornn.engine.updates import OneState, Update
from cornn.functional import Coefficients

__all__ = ["backward", "backward_steps", "forward", "forward_steps", "usable"]


def usable(problem: Problem) -> tuple[bool, str]:
    return True, "PyTorch operations"


def forward(given: Given, request: Request) -> Passed:
    given = given._replace(state=initial_state(request.update, given))
    trail = gemms.start_trail(given, request)
    output, last = forward_steps(given, trail, request)
    return Passed(output, last, trail if request.keep else None)


def backward(given: Given, after: After, request: Request, needs: Needs, scales: Scales | None = None) -> Gradients:
    whole = given._replace(state=initial_state(request.update, given))
    steps = backward_steps(whole, after, request.update, needs.parameters, needs.timespans)
    return gemms.gradients(given, after, steps, needs, scales)


def _add_product_(total: Tensor, left: Tensor, right: Tensor) -> Tensor:
    """total += left @ right, for one model or a group of them."""
    return total.addmm_(left, right) if total.dim() == 2 else total.baddbmm_(left, right)


def _spans(given: Given) -> list[Tensor | None]:
    """One span a step, or None."""
    spans = live_spans(given)
    return [None] * given.input.shape[0] if spans is None else list(spans.unsqueeze(-1).unbind(0))


def forward_steps(given: Given, trail: Tensor, request: Request) -> tuple[Tensor, Tensor]:
    """Run the steps; return the output and the last state.

    The last block of the trail is the drive, which is overwritten by what is kept. Without `keep` there is no other
    block. Of `given`, the state must be there, and the input and its weights are not looked at.
    """
    update, every, keep, _ = request
    if isinstance(update, OneState):
        return one_state.forward(update, given, trail, every=every, keep=keep)
    sigma = update.saved
    drive = trail[-1]
    steps, hidden = drive.shape[0], drive.shape[-1]
    W, W_z = given.weight[..., :hidden].mT, given.weight[..., hidden:].mT
    parameters = given.parameters.unsqueeze(-2)
    fixed = update.coefficients(parameters, None)
    assert given.state is not None
    y, z = given.state.unbind(0)

    # Where a sequence need not be written down, two buffers take turns.
    turns = steps // 2 + 1
    output = torch.empty_like(drive) if keep or every else drive.new_empty(0)
    ys = output.unbind(0) if keep or every else (torch.empty_like(y), torch.empty_like(y)) * turns
    zs = trail[0].unbind(0) if keep else (torch.empty_like(z), torch.empty_like(z)) * turns

    for pre, span, y_n, z_n in zip(drive.unbind(0), _spans(given), ys, zs, strict=False):
        k = fixed if span is None else update.coefficients(parameters, span)
        _add_product_(pre, y, W)
        saved = sigma.save_(_add_product_(pre, z, W_z))
        torch.mul(z, k.keep, out=z_n).addcmul_(sigma.value(saved), k.push).addcmul_(y, k.pull, value=-1)
        torch.addcmul(y, z_n, k.dt, out=y_n)
        y, z = y_n, z_n
    return output, torch.stack((y, z))


def backward_steps(
    given: Given, after: After, update: Update, need_parameters: bool, need_timespans: bool
) -> StepGradients:
    """Return what the steps give: gradients of the drive, the initial state, the parameters and the timespans."""
    if isinstance(update, OneState):
        return one_state.backward(update, given, after, need_parameters=need_parameters)
    assert given.state is not None
    grad_output, grad_last, output, trail = after
    state, parameters = given.state, given.parameters.unsqueeze(-2)
    sigma = update.saved
    steps, hidden = output.shape[0], output.shape[-1]
    fixed = update.coefficients(parameters, None)
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
    totals = [torch.zeros_like(state[0]) for _ in update.parameters] if need else []
    grad_spans: list[Tensor] = []

    for n in reversed(range(steps)):
        span = spans[n]
        k = fixed if span is None else update.coefficients(parameters, span)
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
                *for_parameters, for_span = update.parameter_gradients(parameters, span, step)
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
        totals = list(update.parameter_gradients(parameters, None, sums)[:-1])
    for_timespans = torch.stack(grad_spans[::-1]) if need_timespans else None
    if for_timespans is not None and given.lengths is not None:
        for_timespans *= active(given.lengths, output)
    return StepGradients(
        drive=grad_drive,
        state=torch.stack((grad_y, grad_z)),
        parameters=torch.stack([total.sum(-2) for total in totals]) if need_parameters else None,
        timespans=for_timespans,
    )
