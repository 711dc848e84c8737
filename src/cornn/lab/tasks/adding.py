"""The adding problem: add two marked numbers of a long random sequence.

As in the authors' code: values from U(0, 1); one marker in the first half of the sequence, one in the second; every
step draws a new batch. Always answering 1 has a mean squared error of 1/6.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from cornn._arguments import ArgumentError, Setting
from cornn._checked import Count
from cornn._random import generator
from cornn.lab.tasks.task import Batch, Split, Task, TaskOptions

TEST_SEQUENCES = 1000
ALWAYS_ONE = 1 / 6


@dataclass(frozen=True)
class Adding(TaskOptions):
    """Add the two marked numbers of a random sequence. Needs no data."""

    length: Count = 500
    """Number of steps per sequence. The marked numbers are half a sequence apart on average."""

    name: ClassVar[str] = "adding"
    endless: ClassVar[bool] = True

    def check(self) -> None:
        if self.length < 2:
            raise ArgumentError(Setting("length"), f" is {self.length}: the adding problem needs at least two steps")

    def load(self, seed: int, data: Path | None = None) -> Task:
        def make(rows: Mapping[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
            return draw(len(rows["index"]), self.length, random)

        return Task(
            name="adding",
            inputs=2,
            outputs=1,
            length=self.length,
            input_mean=(0.5, 2 / self.length),
            training=Split(0, make, draws=True),
            validation=Split(TEST_SEQUENCES, make, draws=True),
            test=lambda: _split_of(draw(TEST_SEQUENCES, self.length, generator(seed, "adding", "test"))),
            loss=lambda prediction, target: torch.nn.functional.mse_loss(prediction.squeeze(-1), target),
            score=lambda prediction, target: (prediction.squeeze(-1) - target).square(),
            metric="MSE",
            better="lower",
            trivial=ALWAYS_ONE,
            trivial_words="for always answering 1",
            solved=0.01,
            evaluated_on=f"{TEST_SEQUENCES:,} fresh sequences",
        )


def _split_of(batch: Batch) -> Split:
    """Return a split with these sequences."""
    return Split(
        len(batch.target),
        lambda rows, shared, random: Batch(rows["input"].transpose(0, 1), rows["target"]),
        {"input": batch.input.transpose(0, 1), "target": batch.target},
    )


def draw(size: int, length: int, random: torch.Generator) -> Batch:
    """Draw sequences of values and markers (length, size, 2) and their targets (size) on the generator's device."""
    placement = {"generator": random, "device": random.device}
    values = torch.rand(length, size, **placement)
    half = length // 2
    first = torch.randint(0, half, (1, size), **placement)
    second = torch.randint(half, length, (1, size), **placement)
    markers: Tensor = torch.zeros_like(values).scatter_(0, first, 1.0).scatter_(0, second, 1.0)
    target = (values.gather(0, first) + values.gather(0, second)).squeeze(0)
    return Batch(torch.stack((values, markers), -1), target)
