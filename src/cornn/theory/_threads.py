"""Linear algebra on small matrices, on one thread.

It has thousands of short parallel sections, at each of which the threads wait for each other. Where other programs use
the cores, two threads take 10 to 100 times as long as one (128 neurons, two cores).
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

__all__ = ["spectral_norm", "threads_for"]

SMALL = 256
"""Rows of the largest matrices that one thread handles."""


@contextmanager
def threads_for(rows: int) -> Iterator[None]:
    """Use one thread for matrices with this number of rows, if they are small."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1 if rows <= SMALL else threads)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def spectral_norm(matrices: Tensor) -> Tensor:
    """Return the largest singular value of each matrix, (..., rows, columns)."""
    with threads_for(matrices.shape[-2]):
        return torch.linalg.matrix_norm(matrices, 2)
