"""What a benchmark is: where its sequences come from, how a prediction is judged."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Batch", "Task"]


class Batch(NamedTuple):
    input: Tensor  # (time, batch, features)
    target: Tensor  # what the loss compares with


@dataclass(frozen=True)
class Task:
    """A benchmark, ready to train on. It is a pure function of its options, the data folder and the seed."""

    name: str
    inputs: int
    outputs: int
    length: int  # steps of its sequences
    input_mean: tuple[float, ...]  # of each feature, over training sequences
    draw: Callable[[int, torch.Generator], Batch]  # fresh sequences, for training and for watching it
    test: Callable[[], Batch]  # read once, at the end
    loss: Callable[[Tensor, Tensor], Tensor]
    metric: str  # the name of what is reported; lower is better
    trivial: float  # the metric of the best constant answer
    trivial_words: str
    solved: float  # below this the task counts as solved
    evaluated_on: str
    evaluation_size: int
