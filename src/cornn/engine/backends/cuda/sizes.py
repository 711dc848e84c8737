"""The sizes that the kernels of a GPU support, for `cornn doctor`."""

import itertools
from typing import NamedTuple

import torch

from cornn.engine import bank, contract, lem
from cornn.engine.backends.cuda import backend
from cornn.engine.updates import OSCILLATORS

__all__ = ["SizeRange", "list_sizes"]

LARGEST, STRIDE = 4096, 8
"""Largest number of neurons to check, and the distance between two."""


class SizeRange(NamedTuple):
    """The sizes that one kind of kernel supports."""

    model: str
    precision: str
    smallest: int
    largest: int | None  # None: any number
    kernel: str


def list_sizes(device: torch.device) -> list[SizeRange]:
    """List the supported sizes on a device: of coRNN by precision and kernel, of LEM, and of the oscillator bank."""
    ranges = []
    for precision in contract.PRECISIONS:
        sizes = [(size, _kind(device, size, precision)) for size in range(STRIDE, LARGEST + 1, STRIDE)]
        for kind, pairs in itertools.groupby(sizes, key=lambda pair: pair[1]):
            numbers = [size for size, _ in pairs]
            if kind is not None:
                ranges.append(SizeRange("coRNN", precision, numbers[0] - STRIDE + 1, numbers[-1], kind))
    largest = max((size for size in lem.SIZES if lem.unusable_there(device.index, size) is None), default=0)
    if largest:
        ranges.append(SizeRange("LEM", "exact", 1, largest, "block"))
    if bank.backend(str(device))[0] == "cuda":
        ranges.append(SizeRange("oscillator bank", "exact", 1, None, "thread"))
    return ranges


def _kind(device: torch.device, hidden: int, precision: str) -> str | None:
    """Return what holds the weights, or None if no kernel in this precision supports this size."""
    update = OSCILLATORS["explicit", "tanh"]
    problem = contract.Problem(update, device, torch.float32, 1, 784, 120, hidden, False, precision)
    return backend.kernel_kind(device.index, hidden, precision) if backend.usable(problem)[0] else None
