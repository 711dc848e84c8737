"""What a benchmark is: its parts, and how a prediction is judged."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import torch
from torch import Tensor

__all__ = ["Batch", "Make", "Part", "Task"]


class Batch(NamedTuple):
    input: Tensor  # (time, batch, features); for a task of words their numbers, (time, batch)
    target: Tensor  # what the loss compares with
    lengths: Tensor | None = None  # (batch), steps of each sequence; None: all of them


Make = Callable[[dict[str, Tensor], Mapping[str, Tensor], torch.Generator], Batch]
"""(rows of the chosen sequences, what all share, random) -> Batch."""


@dataclass(frozen=True)
class Part:
    """Sequences for training, validation or testing, as tensors on one device.

    rows: tensors (size, ...), of which a batch takes the rows of its sequences.
    shared: tensors that every batch may use, such as noise that is the same for all.
    make: (rows of the chosen sequences, shared, random) -> Batch. Its only randomness is `random`, a generator on the
        device of the tensors.
    size: sequences; 0 for a part that is drawn anew for every batch, and has no end.
    ragged: whether a batch is as long as its longest sequence, so that shapes differ from batch to batch.
    draws: whether `make` draws random numbers.
    """

    size: int
    make: Make
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    shared: Mapping[str, Tensor] = field(default_factory=dict)
    ragged: bool = False
    draws: bool = False

    def to(self, device: torch.device | str) -> "Part":
        """The same part with its tensors there."""

        def moved(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: tensor.to(device) for name, tensor in tensors.items()}

        return replace(self, rows=moved(self.rows), shared=moved(self.shared))

    def batch(self, index: Tensor, random: torch.Generator) -> Batch:
        """The sequences with these numbers, (batch); of a part without end, as many fresh ones."""
        rows = {name: tensor[index] for name, tensor in self.rows.items()} or {"index": index}
        return self.make(rows, self.shared, random)


@dataclass(frozen=True)
class Task:
    """A benchmark, ready to train on. It is a pure function of its options, the data folder and the seed."""

    name: str
    inputs: int  # features of a step; for a task of words those of an embedded word
    outputs: int
    length: int  # steps of its sequences, at the most
    input_mean: tuple[float, ...]  # of each feature, over training sequences
    training: Part
    validation: Part  # what curves show, and what chooses the best epoch
    test: Callable[[], Part]  # read once, at the end
    loss: Callable[[Tensor, Tensor], Tensor]  # (prediction, target) -> what training lowers, averaged over sequences
    score: Callable[[Tensor, Tensor], Tensor]  # (prediction, target) -> the metric of each sequence, (batch), or
    # several numbers of each, (batch, numbers), that `reduce` makes the metric of
    metric: str  # the name of what is reported
    better: Literal["lower", "higher"]
    trivial: float  # the metric of the best constant answer
    trivial_words: str
    solved: float | None = None  # where the task counts as solved, if there is such a line
    read: Literal["last", "every"] = "last"  # which states the head reads
    reduce: Callable[[Tensor], Tensor] = torch.mean  # scores of all sequences -> the metric
    evaluated_on: str = "the validation part"
    words: Tensor | None = None  # (vocabulary, inputs), the vectors that an embedding starts from
    padding: int | None = None  # the word that fills up a batch; its vector is not trained
    notes: tuple[str, ...] = ()  # which way was followed where there are several, and what was found in the data
