"""MNIST one pixel at a time, in reading order or in a fixed random order.

As the authors ran it: pixels divided by 255, nothing else; 3,000 of the 60,000 training images, drawn at random, are
the validation part.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from cornn.data import folder, mnist
from cornn.seeds import generator
from cornn.tasks.parts import cross_entropy, hold_out, most_frequent, right
from cornn.tasks.task import Batch, Part, Task

__all__ = ["PermutedMNIST", "SequentialMNIST", "permutation"]

PIXELS = 784


@dataclass(frozen=True)
class SequentialMNIST:
    """Digits of MNIST, one pixel a step, 784 steps."""

    validation: int = 3000
    """Training images held out for validation; the seed draws them."""

    def load(self, seed: int, data: Path | None = None) -> Task:
        return _load("smnist", None, self.validation, seed, folder(data), ())


@dataclass(frozen=True)
class PermutedMNIST:
    """Digits of MNIST, one pixel a step, in an order that is random but the same for all."""

    permutation: int = 12008
    """Seed of the order; 12008 is the authors'."""
    validation: int = 3000
    """Training images held out for validation; the seed draws them."""

    def load(self, seed: int, data: Path | None = None) -> Task:
        whose = "the authors' permutation" if self.permutation == 12008 else "a permutation of its own"
        note = f"{whose}, torch.randperm({PIXELS}) from seed {self.permutation}"
        return _load("psmnist", permutation(self.permutation), self.validation, seed, folder(data), (note,))


def permutation(seed: int) -> Tensor:
    """Which pixel comes at each step, (784)."""
    return torch.randperm(PIXELS, generator=torch.Generator().manual_seed(seed))


def _load(name: str, order: Tensor | None, held: int, seed: int, where: Path, notes: tuple[str, ...]) -> Task:
    images, labels = _tensors(*mnist.read(where, "train"), order)
    training, validation = hold_out(len(images), held, generator(seed, name, "validation"))
    return Task(
        name=name,
        inputs=1,
        outputs=10,
        length=PIXELS,
        input_mean=(images[training].sum(dtype=torch.int64).item() / (len(training) * PIXELS * 255),),
        training=_part(images[training], labels[training]),
        validation=_part(images[validation], labels[validation]),
        test=lambda: _part(*_tensors(*mnist.read(where, "test"), order)),
        loss=cross_entropy,
        score=right,
        metric="accuracy",
        better="higher",
        trivial=most_frequent(labels[training]),
        trivial_words="of always answering the most frequent digit",
        notes=notes,
    )


def _tensors(images: np.ndarray, labels: np.ndarray, order: Tensor | None) -> tuple[Tensor, Tensor]:
    pixels = torch.from_numpy(images)
    return pixels if order is None else pixels[:, order], torch.from_numpy(labels).long()


def _part(images: Tensor, labels: Tensor) -> Part:
    return Part(len(images), _make, {"image": images, "target": labels})


def _make(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    pixels = rows["image"].t().contiguous()  # turned as bytes, which are a quarter of the floats
    return Batch((pixels.float() / 255).unsqueeze(-1), rows["target"])
