"""The batches of several models as one, and what a share of a batch gives for its loss."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.lab.tasks import Batch, Task
from cornn.lab.tasks.task import Part

__all__ = ["Pool", "batch_dimension", "pooled", "share_of_batch", "share_of_loss", "stacked"]


class Pool(NamedTuple):
    """The training parts of several models below each other."""

    part: Part
    begins: list[int]  # where each model's rows begin


def pooled(parts: Sequence[Part]) -> Pool | None:
    """One part with the rows of all, if the sequences of all are made alike and without chance."""
    first = parts[0]
    for part in parts:
        alike = part.make is first.make and part.rows and not (part.draws or part.ragged)
        if not alike or part.shared.keys() != first.shared.keys():
            return None
        if not all(torch.equal(value, first.shared[name]) for name, value in part.shared.items()):
            return None
    rows = {name: torch.cat([part.rows[name] for part in parts]) for name in first.rows}
    begins = [0, *itertools.accumulate(part.size for part in parts)]
    return Pool(replace(first, size=begins.pop(), rows=rows), begins)


def stacked(batches: Sequence[Batch]) -> Batch:
    """Batches of several models as one: input (time, models, batch, features), the others with models in front."""
    lengths = None
    if batches[0].lengths is not None:
        lengths = torch.stack([batch.lengths for batch in batches])  # pyright: ignore[reportArgumentType]
    return Batch(torch.stack([batch.input for batch in batches], 1), torch.stack([b.target for b in batches]), lengths)


def batch_dimension(task: Task) -> int:
    """Of predictions and targets."""
    return 1 if task.read == "every" else 0


def share_of_batch(batch: Batch, dimension: int, count: int, rank: int, world: int) -> tuple[Batch, tuple[int, int]]:
    """A process's sequences of a batch; how many of them count, and how many of the whole batch do.

    dimension: of the targets, that of the batch.
    """
    if world == 1:
        return batch, (count, count)
    size = batch.input.shape[1]
    start, end = rank * size // world, (rank + 1) * size // world
    mine = Batch(
        batch.input[:, start:end],
        batch.target.narrow(dimension, start, end - start),
        None if batch.lengths is None else batch.lengths[start:end],
    )
    return mine, (max(0, min(count, end) - start), count)


def share_of_loss(task: Task, prediction: Tensor, target: Tensor, count: int, total: int) -> Tensor:
    """What the first `count` sequences, here, contribute to the mean over `total` of them, in all processes."""
    if count == 0:
        return prediction.sum() * 0.0
    dimension = batch_dimension(task)
    if count < prediction.shape[dimension]:
        prediction, target = prediction.narrow(dimension, 0, count), target.narrow(dimension, 0, count)
    loss = task.loss(prediction, target)
    return loss if count == total else loss * (count / total)
