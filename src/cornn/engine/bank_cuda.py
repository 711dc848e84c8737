"""The kernel of the oscillator bank on NVIDIA GPUs, kernels/bank_pool.cu: one thread per sequence and neuron."""

import functools
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.engine.backends.cuda.launch import Launch, explain_unusable, launch, prepare

__all__ = ["MIN_CAPABILITY", "Arguments", "launch_pool", "macros", "unusable"]

MIN_CAPABILITY = (7, 5)
"""Smallest compute capability."""
THREADS = 128  # of a block: eight groups of 16 neurons


class Arguments(NamedTuple):
    """What the kernel reads and writes, on the device and contiguous; shapes as in bank_pool.cu.

    Attributes:
        times: Durations, numbers of transitions, and transitions; None if all steps are 1.
        sums: Sums of the sequences so far, changed in place; None if all sequences start here.
        elapsed: Time since their start; None with `sums`.
    """

    input: Tensor
    starts: Tensor
    times: tuple[Tensor, Tensor, Tensor] | None
    first: Tensor
    direction: Tensor
    gain: Tensor
    bias: Tensor
    constants: Tensor
    levels: Tensor
    features: Tensor
    sums: Tensor | None
    elapsed: Tensor | None


@functools.cache
def unusable(device: int | None) -> str | None:
    """Return why the kernel cannot run on a CUDA device; None if it can."""
    if torch.version.hip is not None:
        return "the bank's kernel is for NVIDIA GPUs"
    return explain_unusable(device, MIN_CAPABILITY)


def macros(levels: int, plain: bool, spans: bool, group: int) -> dict[str, object]:
    """Return the constants that the kernel is compiled with."""
    return {"LEVELS": levels, "PLAIN": int(plain), "SPANS": int(spans), "GROUP": group}


def launch_pool(arguments: Arguments, group: int, plain: bool) -> None:
    """Pool sequences into `arguments.features`.

    Args:
        arguments: The arrays.
        group: Number of neurons that share a projection.
        plain: Whether the plain statistics are asked for.
    """
    sequences, groups = len(arguments.starts) - 1, len(arguments.first)
    blocks = sequences * -(-groups * group // THREADS)
    device = arguments.input.get_device()
    kernel = _prepare(arguments.levels.shape[1], plain, arguments.times is not None, group, device)
    before, (*weights, features, sums, elapsed) = arguments[:2], arguments[3:]
    sizes = arguments.input.shape[1], arguments.direction.shape[1], groups
    launch(
        kernel._replace(blocks=blocks),
        [*before, *(arguments.times or (None, None, None)), *weights, features, sums, elapsed, *sizes],
    )


@functools.cache
def _prepare(levels: int, plain: bool, spans: bool, group: int, device: int) -> Launch:
    return prepare("bank_pool.cu", "bank_pool", macros(levels, plain, spans, group), device, 0, THREADS)
