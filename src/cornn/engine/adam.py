"""The optimiser's step on NVIDIA GPUs: one kernel for all numbers of all models.

PyTorch takes a dozen kernels for the same arithmetic, and a kernel of a few thousand numbers costs its launch.
"""

import functools
import itertools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.engine.backends.cuda import nvrtc
from cornn.engine.backends.cuda.launch import Launch, launch, prepare

__all__ = ["EPSILON", "Books", "step", "usable"]

EPSILON = 1e-8
"""PyTorch's, of Adam and of RMSprop."""

PIECES = 8  # of a gradient, that the kernel takes as they are
THREADS = 256


class Books(NamedTuple):
    """What a step changes, and what it goes by; float32 on one device."""

    weights: Tensor  # (models, numbers)
    first: Tensor  # (models, numbers), moments of the gradient
    second: Tensor
    average: Tensor | None  # (models, numbers), of the weights
    losses: Tensor  # (models), summed over the steps
    done: Tensor  # (1), int64, steps so far
    rows: Tensor  # (models), int64, where each model reads the sequences of its next step: begins + done % epochs
    begins: Tensor  # (models), int64
    epochs: Tensor  # (models), int64
    table: Tensor  # (steps, models, 3): decay, step size, root of the second moment's correction
    rate: Tensor | None  # (numbers), shares of the learning rate
    gains: Tensor  # (4): of the first moment, what is kept of the second, of the second, of the average
    arrived: Tensor  # (1), int32, 0 between steps: the kernel's own


def usable(weights: Tensor) -> bool:
    """Whether the kernel can serve weights like these."""
    nvidia = weights.is_cuda and torch.version.hip is None
    return nvidia and weights.dtype == torch.float32 and nvrtc.missing() is None


def step(books: Books, gradients: Sequence[Tensor], scale: Tensor | None, loss: Tensor) -> None:
    """One step of Adam, or of RMSprop where the gain of the first moment is 1.

    gradients: pieces of the gradient, each (models, its numbers), in the order of the weights.
    scale: (models, 1), what the gradient of each model is multiplied with.
    loss: (models), of this step.
    """
    device = books.weights.device.index
    launch(_prepared(device, blocks(books.weights)), arguments(books, gradients, scale, loss))


def blocks(weights: Tensor) -> int:
    return len(weights) * -(-weights.shape[1] // THREADS)


def macros() -> dict[str, object]:
    return {"THREADS": THREADS, "EPSILON": f"{EPSILON}f"}


def arguments(
    books: Books, gradients: Sequence[Tensor], scale: Tensor | None, loss: Tensor
) -> list[Tensor | int | None]:
    """What the kernel takes, in its order."""
    pieces = [torch.cat(list(gradients), 1)] if len(gradients) > PIECES else [g.contiguous() for g in gradients]
    ends = list(itertools.accumulate(piece.shape[1] for piece in pieces))
    missing = PIECES - len(pieces)
    return [
        *(books.weights, books.first, books.second, books.average, books.rate, scale),
        *(books.gains, books.table, books.done, books.arrived, books.losses, loss.contiguous()),
        *(books.rows, books.begins, books.epochs),
        *(*pieces, *[None] * missing, *ends, *[ends[-1]] * missing),
        *books.weights.shape,
    ]


@functools.cache
def _prepared(device: int, blocks: int) -> Launch:
    return prepare("adam.cu", "adam", macros(), device, blocks, THREADS)
