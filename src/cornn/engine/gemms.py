"""What surrounds a backend that runs the recurrence alone: the input map V u + b before it, unless the backend makes it
as it goes, and from its gradient the gradients of the input and of the weights, each one product over all steps."""

from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from cornn.engine.contract import After, Given, Gradients
from cornn.engine.updates import UPDATES

__all__ = ["backward", "for_input_map", "forward"]


# With so few features a GPU is faster at one more of them, always 1, than at a bias by itself.
FEW_FEATURES = 32


def _with_one(input: Tensor) -> Tensor:
    """(..., features) -> (..., features + 1), the last always 1."""
    return torch.nn.functional.pad(input, (0, 1), value=1.0)


def _bias_is_a_feature(input: Tensor, input_weight: Tensor | None) -> bool:
    return input.is_cuda and input_weight is not None and input_weight.dim() == 2 and input.shape[-1] <= FEW_FEATURES


def _drive_(out: Tensor, given: Given) -> None:
    """out = V u + b for every step, as one product."""
    input, input_weight, bias = given.input, given.input_weight, given.bias
    if input_weight is None:
        out.copy_(input)
    elif input_weight.dim() == 2:
        flat, source = out.view(-1, out.shape[-1]), input.reshape(-1, input.shape[-1])
        if bias is not None and input.is_cuda and input.shape[-1] == 1:
            torch.addcmul(bias, source, input_weight.T, out=flat)
            return
        if bias is not None and _bias_is_a_feature(input, input_weight):
            torch.mm(_with_one(source), torch.cat((input_weight, bias.unsqueeze(-1)), -1).T, out=flat)
            return
        if bias is not None and not input.is_cuda:
            torch.addmm(bias, source, input_weight.T, out=flat)
            return
        torch.mm(source, input_weight.T, out=flat)
    else:
        torch.matmul(input, input_weight.mT, out=out)
    if bias is not None:
        out += bias.unsqueeze(-2)


def _flat(sequence: Tensor) -> Tensor:
    """(time, batch, features) -> (time * batch, features); of a group (group, time * batch, features)."""
    if sequence.dim() == 4:
        return sequence.transpose(0, 1).flatten(1, 2)
    return sequence.flatten(0, 1)


# Sequences of a group of models that fill a GPU when each makes a product of its own.
ENOUGH_SEQUENCES = 64


def _over_steps(left: Tensor, right: Tensor) -> Tensor:
    """The sum over all steps and sequences of left right^T, for each model of a group.

    left (time, group, batch, rows), right (time, group, batch, columns) -> (group, rows, columns)
    """
    _, models, batch, _ = left.shape
    if not left.is_cuda or models * batch < ENOUGH_SEQUENCES:
        return _flat(left).mT @ _flat(right)
    # A product for each model would be a handful of deep ones, which leave most of a GPU idle, from copies in another
    # order.
    return _by_sequence(left, right)


def _by_sequence(left: Tensor, right: Tensor) -> Tensor:
    """The same by a product for each sequence, which reads everything where it lies."""
    sequences = left.shape[1:3]
    left, right = left.flatten(1, 2), right.flatten(1, 2)
    return torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1)).unflatten(0, sequences).sum(1)


def forward(
    module: ModuleType, given: Given, *, update: str, every: bool, keep: bool
) -> tuple[Tensor, Tensor, Tensor | None]:
    """(output, last, trail); without `keep` there is no trail."""
    rule, (*shape, features), hidden = UPDATES[update], given.input.shape, given.state.shape[-1]
    makes_drive = getattr(module, "makes_drive", None)
    made = given.input_weight is None or makes_drive is None or not makes_drive(update, hidden, features)
    trail = given.input.new_empty(rule.trail if keep else int(made), *shape, rule.drives * hidden)
    if made:
        drive = trail[-1]
        _drive_(drive, given)
        given = given._replace(input=drive, input_weight=None, bias=None)
    output, last = module.forward(given, trail, update=update, every=every, keep=keep)
    return output, last, trail if keep else None


def _for_weight(drive: Tensor, given: Given, after: After) -> Tensor:
    state, rows = given.state, given.weight.shape[-2]
    if drive.shape[-1] != rows:
        # Several drives share one product.
        drive = drive.unflatten(-1, (-1, rows)).sum(-2)
    # y and z of the step before: the initial state, then all but the last of what was kept.
    later, (count, *_, hidden) = drive[1:], state.shape
    if drive.dim() == 4:
        gradient = drive[0].mT @ torch.cat(state.unbind(0), -1)
    else:
        gradient = drive.new_empty(rows, count * hidden)
        # Both blocks by one call, which writes them side by side.
        blocks = gradient.unflatten(-1, (count, hidden)).transpose(0, 1)
        torch.bmm(drive[0].mT.expand(count, -1, -1), state, out=blocks)
    for i, columns in enumerate(gradient.split(hidden, -1)):
        before = (after.trail[i - 1] if i else after.output)[:-1]
        if drive.dim() == 3:
            columns.addmm_(_flat(later).mT, _flat(before))
        else:
            columns += _over_steps(later, before)
    return gradient


def for_input_map(
    drive: Tensor, given: Given, need_weight: bool, need_bias: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of V and b, from that of the drive."""
    input = given.input
    if drive.dim() == 4 and drive.is_cuda and need_weight and need_bias:
        gradient = _over_steps(drive, _with_one(input))
        return gradient[..., :-1].contiguous(), gradient[..., -1].contiguous()
    flat, source = _flat(drive), _flat(input)
    if need_weight and need_bias and _bias_is_a_feature(input, given.input_weight):
        gradient = _with_one(source).mT @ flat
        return gradient[:-1].mT.contiguous(), gradient[-1]
    if need_bias and flat.is_cuda:
        # A product with ones sums over many rows faster than a sum does.
        ones = flat.new_ones(*flat.shape[:-2], 1, flat.shape[-2])
        return _for_input_weight(flat, source) if need_weight else None, (ones @ flat).squeeze(-2)
    return _for_input_weight(flat, source) if need_weight else None, flat.sum(-2) if need_bias else None


def _for_input_weight(drive: Tensor, input: Tensor) -> Tensor:
    if drive.device.type != "cpu":
        return drive.mT @ input
    # BLAS on a CPU is several times slower at results with few columns than at results with few rows.
    return (input.mT @ drive).mT.contiguous()


def backward(
    module: ModuleType, given: Given, after: After, *, update: str, needs: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    """Gradients for all of `Given` but the lengths; None where none is needed."""
    need_input, need_state, need_input_weight, need_bias, need_weight, need_parameters, need_timespans = needs
    gradients: Gradients = module.backward(
        given, after, update=update, need_parameters=need_parameters, need_timespans=need_timespans
    )
    drive = gradients.drive
    for_input_weight, for_bias = for_input_map(drive, given, need_input_weight, need_bias)
    return (
        (drive if given.input_weight is None else drive @ given.input_weight) if need_input else None,
        gradients.state if need_state else None,
        for_input_weight,
        for_bias,
        _for_weight(drive, given, after) if need_weight else None,
        gradients.parameters,
        gradients.timespans,
    )
