"""The recurrence with what enters its products rounded, as the kernels on tensor cores do it; the rest in float64.

`from rounded import ...` works in every test file of this folder. It tells an error of rounding, which it makes too,
from one of indices, which it does not. The arguments and results are those of `cornn.engine.backends.cuda.backend`.
"""

import torch
from torch import Tensor

from cornn.engine.updates import UPDATES
from cornn.functional import Coefficients

__all__ = ["backward", "forward", "to_bf16", "to_tf32"]


def to_bf16(x: Tensor) -> Tensor:
    """To nearest, of two as near the even one."""
    return x.float().bfloat16().double()


def to_tf32(x: Tensor) -> Tensor:
    """To nearest, of two as near the larger: 10 bits after the point."""
    bits = x.float().contiguous().view(torch.int32)
    return ((bits + 0x1000) & ~0x1FFF).view(torch.float32).double()


ROUND = {"tf32": to_tf32, "bf16": to_bf16}


def _matrices(weight: Tensor, parameters: Tensor, early: bool, precision: str) -> tuple[Tensor, Tensor]:
    """What y and z are multiplied with: W, and W_z or in the early form W_z + W diag(dt)."""
    hidden = weight.shape[-2]
    w_y, w_z = weight[..., :hidden].double(), weight[..., hidden:].double()
    if early:
        w_z = w_z + w_y * parameters[0].double().unsqueeze(-2)
    return ROUND[precision](w_y), ROUND[precision](w_z)


def _coefficients(update: str, parameters: Tensor, timespans: Tensor | None, n: int) -> Coefficients:
    span = None if timespans is None else timespans[n].double().unsqueeze(-1)
    return UPDATES[update].coefficients(parameters.double().unsqueeze(-2), span)


def _live(lengths: Tensor | None, n: int, like: Tensor) -> Tensor:
    if lengths is None:
        return torch.ones((), dtype=torch.bool, device=like.device)
    return (n < lengths.to(like.device)).unsqueeze(-1)


def forward(given, *, update, precision):
    """(output, last, trail), the trail being z and what is kept of the activation; the input is the drive."""
    drive, state, _, _, weight, parameters, timespans, lengths = given
    rounded, early, activation = ROUND[precision], timespans is None, UPDATES[update].saved
    w_y, w_z = _matrices(weight, parameters, early, precision)
    y, z = state.double()
    earlier = y - parameters[0].double().unsqueeze(-2) * z
    output, trail_z, trail_kept = [], [], []
    for n, driven in enumerate(drive.double()):
        keep, push, pull, dt = _coefficients(update, parameters, timespans, n)
        pre = rounded(z) @ w_z.mT + rounded(earlier if early else y) @ w_y.mT + driven
        earlier = y
        kept = activation.save_(pre)
        next_z = keep * z + push * activation.value(kept) - pull * y
        live = _live(lengths, n, y)
        y, z = torch.where(live, y + dt * next_z, y), torch.where(live, next_z, z)
        output.append(y)
        trail_z.append(z)
        trail_kept.append(kept)
    return torch.stack(output), torch.stack((y, z)), torch.stack((torch.stack(trail_z), torch.stack(trail_kept)))


def backward(given, after, *, update, precision):
    """Gradients for drive, state, parameters and timespans, the last None without them."""
    _, state, _, _, weight, parameters, timespans, lengths = given
    grad_output, grad_last, output, trail = after
    rule, rounded, early = UPDATES[update], ROUND[precision], timespans is None
    activation = rule.saved
    w_y, w_z = _matrices(weight, parameters, early, precision)
    output, trail, state = output.double(), trail.double(), state.double()
    grad_y, grad_z = grad_last.double()
    delta = torch.zeros_like(grad_y)
    for_drive, for_spans, for_parameters = [], [], 0.0
    for n in reversed(range(len(output))):
        keep, push, pull, dt = _coefficients(update, parameters, timespans, n)
        live = _live(lengths, n, delta)
        for_y, for_z = rounded(delta) @ w_y, rounded(delta) @ w_z
        before_y, before_z = (output[n - 1], trail[0, n - 1]) if n else state
        grad_y = grad_y + grad_output[n].double() + for_y
        total_z = grad_z + dt * (grad_y - for_y if early else grad_y) + for_z
        slope = torch.empty_like(total_z)
        activation.backward_(total_z, trail[1, n], slope)
        delta = torch.where(live, push * slope, 0.0)
        kept = activation.value(trail[1, n])
        one = Coefficients(total_z * before_z, total_z * kept, -total_z * before_y, grad_y * trail[0, n])
        one = Coefficients(*(torch.where(live, x, 0.0) for x in one))
        span = None if timespans is None else timespans[n].double().unsqueeze(-1)
        terms, for_span = rule.parameter_gradients(parameters.double().unsqueeze(-2), span, one)
        for_parameters = for_parameters + torch.stack([term.sum(-2) for term in terms])
        for_spans.append(for_span.sum(-1))
        for_drive.append(delta)
        grad_y, grad_z = grad_y - torch.where(live, pull * total_z, 0.0), torch.where(live, keep * total_z, grad_z)
    for_y, for_z = rounded(delta) @ w_y, rounded(delta) @ w_z
    if early:
        for_z = for_z - parameters[0].double().unsqueeze(-2) * for_y
    return (
        torch.stack(for_drive[::-1]),
        torch.stack((grad_y + for_y, grad_z + for_z)),
        for_parameters,
        None if timespans is None else torch.stack(for_spans[::-1]),
    )
