"""The gradients of all weights by one small kernel, where launching products would take longer than computing them."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from cornn.engine.backends.cuda.launch import Launch, launch, prepare
from cornn.engine.contract import After, Given, Needs, Scales

__all__ = ["is_small", "weight_gradients"]

TILE, DEPTH = 64, 16  # sums of a block in both directions, rows of a stage
THREADS = 256
MACROS = {"TILE": TILE, "DEPTH": DEPTH}

LARGEST = 500_000_000
"""Multiply-adds up to which the kernel is used. With more, cuBLAS is faster by more than its launches take."""


def is_small(given: Given, after: After, drives: int) -> bool:
    """Return whether the kernel serves a problem: one model, one drive per neuron, few multiply-adds."""
    shape = after.output.shape
    if given.input_weight is None or len(shape) != 3 or drives != 1 or given.weight.shape[0] != shape[2]:
        return False
    columns = given.weight.shape[1] + given.input.shape[-1] + 1
    return 0 < shape[0] * shape[1] * shape[2] * columns <= LARGEST


@functools.cache
def _prepared(device: int, rows: int, hidden: int, columns: int) -> tuple[Launch, Launch, int, int]:
    """How to launch both kernels, the number of parts of the rows, and the rows of a part."""
    tiles = -(-hidden // TILE) * -(-columns // TILE)
    multiprocessors = torch.cuda.get_device_properties(device).multi_processor_count
    wanted = max(1, min(2 * multiprocessors // tiles, rows // (2 * DEPTH)))
    each = -(-rows // (wanted * DEPTH)) * DEPTH
    parts = -(-rows // each)
    totals = -(-hidden * columns // THREADS)
    return (
        prepare("weights.cu", "partial", MACROS, device, parts * tiles, THREADS),
        prepare("weights.cu", "total", MACROS, device, totals, THREADS),
        parts,
        each,
    )


def weight_gradients(
    drive: Tensor, given: Given, after: After, needs: Needs, scales: Scales | None
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Return the gradients of V, b and R, multiplied by their scales, from that of the drive; None where not needed."""
    steps, batch, hidden = drive.shape
    features, width = given.input.shape[-1], given.weight.shape[1]
    partial, total, parts, each = _prepared(drive.device.index, steps * batch, hidden, width + features + 1)
    sums = drive.new_empty(parts * hidden * (width + features + 1))
    sizes = hidden, features, width // hidden
    tensors = (drive, after.output, after.trail, given.state, given.input)
    launch(partial, [*(_plain(x) for x in tensors), sums, steps * batch, batch, *sizes, each])
    found = (
        drive.new_empty(width * hidden).view(hidden, width) if needs.weight else None,
        drive.new_empty(hidden, features) if needs.input_weight else None,
        drive.new_empty(hidden) if needs.bias else None,
    )
    factors: Sequence[Tensor | None] = (None, None, None)
    if scales is not None:
        factors = scales.weight, scales.input_weight, scales.bias
    launch(total, [sums, *found, *map(_plain, factors), parts, *sizes])
    weight, input_weight, bias = found
    return input_weight, bias, weight


def _plain(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()
