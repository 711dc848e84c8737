"""The kernel of the oscillator bank on NVIDIA GPUs, kernels/bank_pool.cu: one thread per sequence and neuron."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from cornn.engine.backends.cuda.launch import Launch, explain_unusable, launch, prepare
from cornn.engine.bank_data import GROUP, Bank, Sequences

__all__ = ["MIN_CAPABILITY", "launch_pool", "macros", "unusable"]

MIN_CAPABILITY = (7, 5)
"""Smallest compute capability."""
THREADS = 128  # of a block: eight groups of 16 neurons


@functools.cache
def unusable(device: int | None) -> str | None:
    """Return why the kernel cannot run on a CUDA device; None if it can."""
    if torch.version.hip is not None:
        return "the bank's kernel is for NVIDIA GPUs"
    return explain_unusable(device, MIN_CAPABILITY)


def macros(levels: int, plain: bool, spans: bool, group: int) -> dict[str, object]:
    """Return the constants that the kernel is compiled with."""
    return {"LEVELS": levels, "PLAIN": int(plain), "SPANS": int(spans), "GROUP": group}


def launch_pool(bank: Bank, data: Sequences, device: torch.device, tensors: Sequence[Tensor | None]) -> None:
    """Pool sequences by the kernel.

    Args:
        bank: The weights.
        data: The sequences.
        device: A CUDA device.
        tensors: The pointers of bank_pool.cu in this order, on the device and contiguous.
    """
    groups = len(bank.first)
    kernel = _prepare(bank.levels.shape[1], bank.plain, data.spans is not None, GROUP, device.index)
    blocks = len(data) * -(-groups * GROUP // THREADS)
    launch(kernel._replace(blocks=blocks), [*tensors, data.input.shape[1], bank.direction.shape[1], groups])


@functools.cache
def _prepare(levels: int, plain: bool, spans: bool, group: int, device: int) -> Launch:
    return prepare("bank_pool.cu", "bank_pool", macros(levels, plain, spans, group), device, 0, THREADS)
