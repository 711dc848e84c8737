"""Matrix products over all steps at once.

Before the recurrence they give the drive V u + b; after it, the gradients of the input and of the weights from the
gradient of the drive.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from cornn._torch_private import multiply_all_
from cornn.engine.contract import BackwardInputs, Gradients, Needs, Operands, Request, Scales

__all__ = ["StepGradients", "apply_scales", "drive_", "for_input_map", "gradients", "scale_", "start_trail"]


class StepGradients(NamedTuple):
    """Gradients that the steps return, each in the shape of its tensor; the last two only if requested."""

    drive: Tensor
    state: Tensor | None
    parameters: Tensor | None
    timespans: Tensor | None


def apply_scales(operands: Operands, scales: Scales | None, *, drive: bool = True, weight: bool = True) -> Operands:
    """Return the tensors with the weights multiplied by their scales: V and b if `drive`, R if `weight`."""
    if scales is None:
        return operands
    input, state, V, b, R, parameters, timespans, lengths = operands
    if drive:
        assert V is not None
        V, b = V * scales.input_weight, None if b is None else b * scales.bias
    return Operands(input, state, V, b, R * scales.weight if weight else R, parameters, timespans, lengths)


def start_trail(operands: Operands, request: Request) -> Tensor:
    """Return the trail: uninitialised blocks, which only `keep` needs, and the drive in the last block."""
    update = request.update
    drives = update.drives * (operands.weight.shape[-2] // update.products)
    trail = operands.input.new_empty(update.trail if request.keep else 1, *operands.input.shape[:-1], drives)
    drive_(operands, trail[-1])
    return trail


def _rows(sequence: Tensor) -> Tensor:
    """Reshape (time, batch, features) to (time * batch, features)."""
    return sequence.reshape(-1, sequence.shape[-1])


def _rows_from(sequence: Tensor, first: int, count: int) -> Tensor:
    """Return `count` rows of a contiguous sequence (..., features), from row `first`, as one view."""
    features = sequence.shape[-1]
    return sequence.as_strided((count, features), (features, 1), sequence.storage_offset() + first * features)


def drive_(operands: Operands, out: Tensor) -> None:
    """Write V u + b of every step to `out`, (time, batch, drives), by one product."""
    input, input_weight, bias = operands.input, operands.input_weight, operands.bias
    if input_weight is None:
        if bias is None:
            out.copy_(input)
        else:
            torch.add(input, bias.unsqueeze(-2), out=out)
        return
    if input_weight.dim() == 3:
        torch.matmul(input, input_weight.mT, out=out)
        if bias is not None:
            out += bias.unsqueeze(-2)
    elif bias is None:
        torch.mm(_rows(input), input_weight.t(), out=_rows(out))
    elif input.is_cuda and input.shape[-1] == 1:
        torch.addcmul(bias, input, input_weight.t(), out=out)  # no product, one multiply-add each
    else:
        torch.addmm(bias, _rows(input), input_weight.t(), out=_rows(out))


def _flat(sequence: Tensor) -> Tensor:
    """Reshape (time, batch, features) to (time * batch, features); a group to (group, time * batch, features)."""
    if sequence.dim() == 4:
        return sequence.transpose(0, 1).flatten(1, 2)
    return _rows(sequence)


# Number of values above which a product with ones is faster than a sum on a GPU.
LARGE_SUM = 1 << 21

# Number of sequences above which one product per sequence fills a GPU.
ENOUGH_SEQUENCES = 64


def _over_steps(left: Tensor, right: Tensor) -> Tensor:
    """Sum left right^T over all steps and sequences, for each model of a group.

    left: (time, group, batch, rows), right: (time, group, batch, columns), result: (group, rows, columns).
    """
    _, models, batch, _ = left.shape
    if not left.is_cuda or models * batch < ENOUGH_SEQUENCES:
        return _flat(left).mT @ _flat(right)
    # One product per model would leave most of a GPU idle, and would need copies in another order.
    return _by_sequence(left, right)


def _by_sequence(left: Tensor, right: Tensor) -> Tensor:
    """Compute `_over_steps` by one product per sequence, without copies."""
    sequences = left.shape[1:3]
    left, right = left.flatten(1, 2), right.flatten(1, 2)
    return torch.bmm(left.permute(1, 2, 0), right.transpose(0, 1)).unflatten(0, sequences).sum(1)


def _for_weight(drive: Tensor, operands: Operands, backward_inputs: BackwardInputs, rounded: bool) -> Tensor:
    """Return the gradient of R: the sum over steps of the gradient of the drive times the previous state."""
    state, rows = operands.state, operands.weight.shape[-2]
    if drive.shape[-1] != rows:
        # Several drives share one product.
        drive = drive.unflatten(-1, (-1, rows)).sum(-2)
    gradient = drive.new_empty(operands.weight.shape)
    # The previous states are the initial state, then all kept ones but the last.
    if drive.dim() == 4:
        for i, columns in enumerate(gradient.split(backward_inputs.output.shape[-1], -1)):
            sequence = backward_inputs.trail[i - 1] if i else backward_inputs.output
            columns.copy_(_over_steps(drive[1:], sequence[:-1]))
            if state is not None:
                columns += drive[0].mT @ state[i]
        return gradient
    drive, output, trail = drive.contiguous(), backward_inputs.output.contiguous(), backward_inputs.trail.contiguous()
    (steps, batch, hidden), width = output.shape, gradient.shape[-1]
    later = _rows_from(drive, batch, (steps - 1) * batch).t()
    if rounded:
        later = later.bfloat16()
    for i in range(width // hidden):
        sequence, first = (trail, (i - 1) * steps * batch) if i else (output, 0)
        columns = gradient.as_strided((rows, hidden), (width, 1), i * hidden)
        earlier = _rows_from(sequence, first, (steps - 1) * batch)
        if rounded:
            columns.copy_(torch.mm(later, earlier.bfloat16(), out_dtype=torch.float32))
        else:
            torch.mm(later, earlier, out=columns)
        if state is not None:
            columns.addmm_(drive[0].t(), state[i])
    return gradient


def for_input_map(
    drive: Tensor, operands: Operands, need_weight: bool, need_bias: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients of V and b from that of the drive."""
    input = operands.input
    if drive.dim() == 4 and drive.is_cuda and need_weight and need_bias:
        gradient = _over_steps(drive, torch.nn.functional.pad(input, (0, 1), value=1.0))  # b: a feature that is 1
        return gradient[..., :-1].contiguous(), gradient[..., -1].contiguous()
    flat = _flat(drive)
    return _for_input_weight(flat, _flat(input)) if need_weight else None, _for_bias(flat) if need_bias else None


def _for_bias(flat: Tensor) -> Tensor:
    if not flat.is_cuda or flat.numel() < LARGE_SUM:
        return flat.sum(-2)
    # A product with ones is faster than a sum over many rows.
    return (flat.new_ones(*flat.shape[:-2], 1, flat.shape[-2]) @ flat).squeeze(-2)


def _for_input_weight(drive: Tensor, input: Tensor) -> Tensor:
    if drive.is_cuda and drive.dim() == 2:
        return torch.mm(drive.t(), input)
    if drive.device.type != "cpu":
        return drive.mT @ input
    # On a CPU, BLAS is several times slower for results with few columns than for results with few rows.
    return (input.mT @ drive).mT.contiguous()


def scale_(gradients: Gradients, scales: Scales | None) -> Gradients:
    """Multiply the gradients of the weights by their scales, in place."""
    if scales is not None:
        pairs = zip(gradients[2:5], scales, strict=True)
        present = [(gradient, scale) for gradient, scale in pairs if gradient is not None]
        if present:
            multiply_all_(*zip(*present, strict=True))
    return gradients


def gradients(
    operands: Operands,
    backward_inputs: BackwardInputs,
    steps: StepGradients,
    needs: Needs,
    scales: Scales | None = None,
    rounded: bool = False,
) -> Gradients:
    """Return all gradients from those that the steps return.

    rounded: Whether to round the inputs of the products for the gradient of R to bf16, on a GPU.
    """
    drive = steps.drive
    for_input_weight, for_bias = for_input_map(drive, operands, needs.input_weight, needs.bias)
    for_input = None
    if needs.input:
        for_input = drive if operands.input_weight is None else drive @ operands.input_weight
    result = Gradients(
        for_input,
        steps.state if needs.state else None,
        for_input_weight,
        for_bias,
        _for_weight(drive, operands, backward_inputs, rounded) if needs.weight else None,
        steps.parameters if needs.parameters else None,
        steps.timespans if needs.timespans else None,
    )
    return scale_(result, scales)
