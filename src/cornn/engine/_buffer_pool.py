"""A pool of large buffers on a CPU.

Every training step needs the same few hundred megabytes, and new memory is slow: the system clears a page when it is
first touched, and threads at the same step touch the same page. Up to `SPARE_BYTES` are therefore kept for later calls.
The pool serves only buffers that stay inside the engine; results are allocated by PyTorch.
"""

import contextlib
import ctypes
import math
import mmap
import sys
import weakref
from collections.abc import Sequence

import torch
from torch import Tensor

__all__ = ["LARGE", "SPARE_BYTES", "release_buffers", "take_buffer"]

LARGE = 1 << 21
"""Smallest size in bytes of a buffer that is kept, and allocated in large pages."""

SPARE_BYTES = 1 << 29

_spare: list[mmap.mmap] = []


def _take(size: int) -> mmap.mmap:
    fitting = sorted((block for block in list(_spare) if size <= len(block) <= 2 * size), key=len)
    for block in fitting:
        try:
            _spare.remove(block)
        except ValueError:  # another thread was faster
            continue
        return block
    fresh = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with contextlib.suppress(OSError):  # a kernel without large pages
        fresh.madvise(mmap.MADV_HUGEPAGE)
    return fresh


def _return_buffer(block: mmap.mmap) -> None:
    _spare.append(block)
    while sum(map(len, list(_spare))) > SPARE_BYTES:
        _spare.pop(0)


def take_buffer(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor, like `torch.empty`. Its memory returns to the pool when nothing refers to it."""
    count = math.prod(shape)
    size = count * dtype.itemsize
    if size < LARGE or not sys.platform.startswith("linux"):
        return torch.empty(shape, dtype=dtype)
    block = _take(size)
    # Only the tensor's storage refers to the lease, so the lease ends with the tensor.
    lease = (ctypes.c_char * len(block)).from_buffer(block)
    weakref.finalize(lease, _return_buffer, block).atexit = False
    tensor = torch.frombuffer(lease, dtype=dtype, count=count).view(shape)
    filled = torch.utils.deterministic.fill_uninitialized_memory  # pyright: ignore[reportAttributeAccessIssue]
    if filled and torch.are_deterministic_algorithms_enabled():
        tensor.fill_(torch.nan)
    return tensor


def release_buffers() -> None:
    """Return the memory that the engine keeps for later calls on a CPU, up to 512 MB, to the system.

    Examples:
        >>> release_buffers()
    """
    _spare.clear()
