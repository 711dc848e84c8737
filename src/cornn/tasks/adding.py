"""The adding problem: two marked numbers of a long random sequence are to be added up at its end.

As the authors ran it: values from U(0, 1); one marker in the first half of the sequence, one in the second; batches
are drawn anew at every step. Answering 1 always has a mean squared error of 1/6.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.seeds import generator
from cornn.tasks.task import Batch, Task

__all__ = ["Adding", "draw"]

TEST_SEQUENCES = 1000
ALWAYS_ONE = 1 / 6


@dataclass(frozen=True)
class Adding:
    """The adding problem. Needs no data."""

    length: int = 500
    """Steps in a sequence. The marked numbers are half a sequence apart on average."""

    def load(self, seed: int) -> Task:
        if self.length < 2:
            raise ValueError(f"length is {self.length}: the adding problem needs two steps at least")
        return Task(
            name="adding",
            inputs=2,
            outputs=1,
            length=self.length,
            input_mean=(0.5, 2 / self.length),
            draw=lambda size, random: draw(size, self.length, random),
            test=lambda: draw(TEST_SEQUENCES, self.length, generator(seed, "adding", "test")),
            loss=lambda prediction, target: torch.nn.functional.mse_loss(prediction.squeeze(-1), target),
            metric="MSE",
            trivial=ALWAYS_ONE,
            trivial_words="of always answering 1",
            solved=0.01,
            evaluated_on=f"{TEST_SEQUENCES:,} fresh sequences",
            evaluation_size=TEST_SEQUENCES,
        )


def draw(size: int, length: int, random: torch.Generator) -> Batch:
    """`size` sequences (length, size, 2) of value and marker, and their targets (size), on the generator's device."""
    where = {"generator": random, "device": random.device}
    values = torch.rand(length, size, **where)
    half = length // 2
    first = torch.randint(0, half, (1, size), **where)
    second = torch.randint(half, length, (1, size), **where)
    markers: Tensor = torch.zeros_like(values).scatter_(0, first, 1.0).scatter_(0, second, 1.0)
    target = (values.gather(0, first) + values.gather(0, second)).squeeze(0)
    return Batch(torch.stack((values, markers), -1), target)
