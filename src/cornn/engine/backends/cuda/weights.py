"""Kernels for the gradients of the weights, where they are faster than cuBLAS.

Small problems: one kernel computes the gradients of all weights, since launching several products would take longer
than computing them. Large problems: tensor cores compute the gradient of R in the accuracy of fp32, by products of
pieces.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from cornn.engine.backends.cuda.launch import Launch, launch, make_plain, prepare
from cornn.engine.contract import BackwardInputs, Needs, Operands, Scales

__all__ = ["gradient_by_pieces", "has_pieces", "is_small", "weight_gradients"]

TILE, DEPTH = 64, 16  # width and height of a block's tile, rows of a stage
THREADS = 256
MACROS = {"TILE": TILE, "DEPTH": DEPTH}

LARGEST = 500_000_000
"""Maximum number of multiply-adds for which the kernel is used. With more, cuBLAS is faster despite its launches."""


def is_small(operands: Operands, backward_inputs: BackwardInputs, drives: int) -> bool:
    """Return whether the kernel applies: one model, one drive per neuron, few multiply-adds."""
    shape = backward_inputs.output.shape
    if operands.input_weight is None or len(shape) != 3 or drives != 1 or operands.weight.shape[0] != shape[2]:
        return False
    columns = operands.weight.shape[1] + operands.input.shape[-1] + 1
    return 0 < shape[0] * shape[1] * shape[2] * columns <= LARGEST


@functools.cache
def _prepare(device: int, rows: int, hidden: int, columns: int) -> tuple[Launch, Launch, int, int]:
    """Return both kernels, the number of parts of the rows, and the rows per part."""
    tiles = -(-hidden // TILE) * -(-columns // TILE)
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    most = max(1, min(2 * multiprocessors // tiles, rows // (2 * DEPTH)))
    each = -(-rows // (most * DEPTH)) * DEPTH
    parts = -(-rows // each)
    totals = -(-hidden * columns // THREADS)
    return (
        prepare("weights.cu", "partial", MACROS, device, parts * tiles, THREADS),
        prepare("weights.cu", "total", MACROS, device, totals, THREADS),
        parts,
        each,
    )


def weight_gradients(
    drive: Tensor, operands: Operands, backward_inputs: BackwardInputs, needs: Needs, scales: Scales | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of V, b and R, times their scales, from the gradient of the drive; None if not needed."""
    steps, batch, hidden = drive.shape
    features, width = operands.input.shape[-1], operands.weight.shape[1]
    partial, total, parts, each = _prepare(drive.device.index, steps * batch, hidden, width + features + 1)
    sums = drive.new_empty(parts * hidden * (width + features + 1))
    sizes = hidden, features, width // hidden
    tensors = (drive, backward_inputs.output, backward_inputs.trail, operands.state, operands.input)
    launch(partial, [*map(make_plain, tensors), sums, steps * batch, batch, *sizes, each])
    gradients = (
        drive.new_empty(width * hidden).view(hidden, width) if needs.weight else None,
        drive.new_empty(hidden, features) if needs.input_weight else None,
        drive.new_empty(hidden) if needs.bias else None,
    )
    factors: Sequence[Tensor | None] = (None, None, None)
    if scales is not None:
        factors = scales.weight, scales.input_weight, scales.bias
    launch(total, [sums, *gradients, *map(make_plain, factors), parts, *sizes])
    weight, input_weight, bias = gradients
    return input_weight, bias, weight


DOWN, ACROSS, PIECES_DEPTH = 128, 256, 16  # as in weights_split.cu
PIECES_SHARED = 4 * 4 * PIECES_DEPTH * (DOWN + ACROSS + 16)  # bytes
PIECES_MACROS = {"BF16": 1}
SMALLEST = 512
"""Number of neurons above which products of pieces are faster than cuBLAS in fp32: results/exact-variants.json."""

LARGEST_SUMS = 1 << 25
"""Maximum number of partial sums, over all parts of the rows."""

# Estimated cycles: of a block per stage, and of the device per partial sum.
_STAGE_CYCLES, _SUM_CYCLES = 2600, 0.004


def has_pieces(operands: Operands, backward_inputs: BackwardInputs) -> bool:
    """Return whether the kernel with products of pieces applies: one model, one drive per neuron, many neurons."""
    shape = backward_inputs.output.shape
    if len(shape) != 3 or operands.weight.shape[0] != shape[2] or backward_inputs.trail.shape[-1] != shape[2]:
        return False
    return shape[2] >= SMALLEST and shape[2] % 4 == 0 and 0 < shape[0] * shape[1] < 2**31


@functools.cache
def _prepare_pieces(device: int, rows: int, hidden: int, states: int) -> tuple[Launch, Launch, int, int]:
    """Return both kernels, the number of parts of the rows, and the rows per part."""
    tiles = -(-hidden // DOWN) * -(-hidden // ACROSS) * states
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    parts, each = split_rows(rows, tiles, hidden * hidden * states, multiprocessors)
    totals = -(-hidden * hidden * states // (4 * THREADS))
    return (
        prepare("weights_split.cu", "partial", PIECES_MACROS, device, parts * tiles, THREADS, PIECES_SHARED),
        prepare("weights_split.cu", "total", PIECES_MACROS, device, totals, THREADS),
        parts,
        each,
    )


def split_rows(rows: int, tiles: int, values: int, multiprocessors: int) -> tuple[int, int]:
    """Return the number of parts of the rows, and the rows per part, with the least estimated time."""
    stages = -(-rows // PIECES_DEPTH)

    def cost(parts: int) -> float:
        waves = -(-tiles * parts // multiprocessors)
        return waves * -(-stages // parts) * _STAGE_CYCLES + parts * values * _SUM_CYCLES

    most = max(1, min(stages, 2 * multiprocessors, LARGEST_SUMS // values))
    each = -(-stages // min(range(1, most + 1), key=cost)) * PIECES_DEPTH
    return -(-rows // each), each


def gradient_by_pieces(
    drive: Tensor, operands: Operands, backward_inputs: BackwardInputs, scales: Scales | None
) -> Tensor:
    """Return the gradient of R, times its scale, from the gradient of the drive."""
    steps, batch, hidden = drive.shape
    width = operands.weight.shape[1]
    partial, total, parts, each = _prepare_pieces(drive.device.index, steps * batch, hidden, width // hidden)
    sums = drive.new_empty(parts * hidden * width)
    tensors = (drive, backward_inputs.output, backward_inputs.trail, operands.state)
    launch(partial, [*map(_align, tensors), sums, steps * batch, batch, hidden, width // hidden, each])
    weight = drive.new_empty(width * hidden).view(hidden, width)
    launch(total, [sums, weight, None if scales is None else _align(scales.weight), parts, hidden * width])
    return weight


def _align(tensor: Tensor | None) -> Tensor | None:
    """Return a plain tensor whose address is a multiple of 16 bytes."""
    tensor = make_plain(tensor)
    return tensor if tensor is None or tensor.data_ptr() % 16 == 0 else tensor.clone()
