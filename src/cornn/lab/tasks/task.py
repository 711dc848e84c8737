"""A benchmark: its options, its splits and its metric."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Literal

import torch
from torch import Tensor

from cornn._arguments import ArgumentError, Setting
from cornn._checked import Checked
from cornn.export.load import Batch

Make = Callable[[dict[str, Tensor], Mapping[str, Tensor], torch.Generator], Batch]
"""(rows of the chosen sequences, shared tensors, generator) -> Batch."""


@dataclass(frozen=True)
class Split:
    """A split: sequences for training, validation or test, as tensors on one device.

    Args:
        size: Number of sequences; 0 for an endless split, which draws a new batch at every step.
        make: (rows of the chosen sequences, shared, random) -> Batch. Its only source of randomness is `random`, a
            generator on the device of the tensors.
        rows: Tensors (size, ...), of which a batch takes the rows of its sequences.
        shared: Tensors that every batch may use, such as noise that is the same for all.
        ragged: Whether a batch is as long as its longest sequence, so that shapes differ between batches.
        draws: Whether `make` draws random numbers.
    """

    size: int
    make: Make
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    shared: Mapping[str, Tensor] = field(default_factory=dict)
    ragged: bool = False
    draws: bool = False

    def to(self, device: torch.device | str) -> "Split":
        """Return the split with its tensors on a device."""

        def move(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.to(device) for name, tensor in tensors.items()}

        return replace(self, rows=move(self.rows), shared=move(self.shared))

    def batch(self, index: Tensor, random: torch.Generator) -> Batch:
        """Return the sequences with these indices, (batch); of an endless split, as many new ones."""
        rows = {name: tensor[index] for name, tensor in self.rows.items()} or {"index": index}
        return self.make(rows, self.shared, random)


@dataclass(frozen=True)
class Task:
    """A benchmark with its data: a pure function of its options, the data folder and the seed."""

    name: str
    inputs: int  # features per step; for a task of words, those of an embedded word
    outputs: int
    length: int  # maximum number of steps
    input_mean: tuple[float, ...]  # of each feature, over training sequences
    training: Split
    validation: Split  # for curves and for choosing the best epoch
    test: Callable[[], Split]  # read once, at the end
    loss: Callable[[Tensor, Tensor], Tensor]  # (prediction, target) -> training loss, averaged over sequences
    score: Callable[[Tensor, Tensor], Tensor]  # (prediction, target) -> one or more numbers per sequence, for `reduce`
    metric: str  # name of the metric
    better: Literal["lower", "higher"]
    trivial: float  # the metric of the best constant answer
    trivial_words: str
    solved: float | None = None  # value from which the task counts as solved, if any
    read: Literal["last", "every", "mean"] = "last"  # which states the head reads
    reduce: Callable[[Tensor], Tensor] = torch.mean  # scores of all sequences -> the metric
    evaluated_on: str = "the validation split"
    words: Tensor | None = None  # (vocabulary, inputs), initial vectors of the embedding
    padding: int | None = None  # the padding word; its vector is not trained
    notes: tuple[str, ...] = ()  # choices between variants of the task, and facts about the data


@dataclass(frozen=True)
class TaskOptions(Checked):
    """The options of a task, which are checked before its data are read."""

    name: ClassVar[str]
    endless: ClassVar[bool] = False
    """Whether new sequences are drawn at every training step, so that there are no epochs."""
    embedded: ClassVar[bool] = False
    """Whether the inputs are words, whose vectors are trained."""

    def load(self, seed: int, data: Path | None = None) -> Task:
        """Return the task with its data, by default from CORNN_DATA or data/; splits are drawn from the seed."""
        raise NotImplementedError


def check_held_out(count: int, size: int) -> None:
    """Raise an error unless `count` of `size` sequences can be held out for validation."""
    if not 0 < count < size:
        problem = f" must be above 0 and below the number of sequences, {size:,}, got {count:,}"
        raise ArgumentError(Setting("validation"), problem)


def hold_out(size: int, count: int, random: torch.Generator, run: int = 1) -> tuple[Tensor, Tensor]:
    """Draw `count` of `size` sequences for validation.

    Args:
        size: Number of sequences.
        count: Number of sequences to hold out.
        random: The generator.
        run: Draw blocks of this many consecutive sequences, so that held-out sequences have few neighbours in the
            training split. The last block is cut when `count` is reached, and the rest of it is trained on.

    Returns:
        Sorted indices of the training and of the validation sequences.
    """
    check_held_out(count, size)
    runs = torch.randperm(-(-size // run), generator=random)
    indices = (runs.unsqueeze(1) * run + torch.arange(run)).flatten()
    indices = indices[indices < size]
    return indices[count:].sort().values, indices[:count].sort().values
