"""MNIST one pixel at a time, in reading order or in a fixed random order.

As in the authors' code: pixels divided by 255; 3,000 of the 60,000 training images, drawn at random, are the validation
split. Shifted and warped training images are our addition, off by default.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from cornn._arguments import Setting
from cornn._checked import Natural, NotNegative, Range
from cornn._random import generator
from cornn.lab.data import find_folder, mnist
from cornn.lab.tasks.augment import augment_images, check_changes, describe_changes
from cornn.lab.tasks.scores import accuracy, as_tensors, most_frequent
from cornn.lab.tasks.task import Batch, Split, Task, TaskOptions, check_held_out, hold_out

SIDE = 28
PIXELS = SIDE * SIDE
SEEDS = Range(-(2**63), 2**64 - 1)
"""Seeds that PyTorch takes."""
IMAGES = 60_000
"""Number of the publisher's training images."""


@dataclass(frozen=True)
class SequentialMNIST(TaskOptions):
    """MNIST digits, one pixel per step, 784 steps. Needs `cornn data get mnist`."""

    validation: int = 3000
    """Number of training images held out for validation, drawn from the seed."""
    shift: Natural = 0
    """Maximum random shift of training images, in pixels in each direction, drawn at every presentation."""
    warp: NotNegative = 0.0
    """Maximum random rotation, scaling and shear of training images, drawn at every presentation: 0.15 moves a pixel
    at the edge by up to 15 % of half the image."""

    name: ClassVar[str] = "smnist"

    def check(self) -> None:
        _check(self)

    def load(self, seed: int, data: Path | None = None) -> Task:
        return _load(self, seed, find_folder(data))


@dataclass(frozen=True)
class PermutedMNIST(TaskOptions):
    """MNIST digits, one pixel per step, in a fixed random order. Needs `cornn data get mnist`."""

    permutation: int | Literal["own"] = 12008
    """Seed of the order of pixels; 12008 is the authors'. own: use the seed of the run, so that each has its own."""
    validation: int = 3000
    """Number of training images held out for validation, drawn from the seed."""
    shift: Natural = 0
    """Maximum random shift of training images, in pixels in each direction, drawn at every presentation."""
    warp: NotNegative = 0.0
    """Maximum random rotation, scaling and shear of training images, drawn at every presentation: 0.15 moves a pixel
    at the edge by up to 15 % of half the image."""

    name: ClassVar[str] = "psmnist"

    def check(self) -> None:
        _check(self)
        if self.permutation != "own":
            SEEDS.check(Setting("permutation"), self.permutation)

    def load(self, seed: int, data: Path | None = None) -> Task:
        order_seed = seed if self.permutation == "own" else self.permutation
        origin = "the authors' permutation" if order_seed == 12008 else "its own permutation"
        note = f"{origin}, torch.randperm({PIXELS}) from seed {order_seed}"
        return _load(self, seed, find_folder(data), permutation(order_seed), (note,))


def permutation(seed: int) -> Tensor:
    """Return the pixel of each step, (784)."""
    return torch.randperm(PIXELS, generator=torch.Generator().manual_seed(seed))


def _check(options: SequentialMNIST | PermutedMNIST) -> None:
    check_changes(SIDE, options.shift, options.warp)
    check_held_out(options.validation, IMAGES)


def _load(
    options: SequentialMNIST | PermutedMNIST,
    seed: int,
    where: Path,
    order: Tensor | None = None,
    notes: tuple[str, ...] = (),
) -> Task:
    images, labels = as_tensors(*mnist.read(where, "train"))
    training, validation = hold_out(len(images), options.validation, generator(seed, options.name, "validation"))
    pixels = images[training]

    def make_split(images: Tensor, labels: Tensor) -> Split:
        return Split(len(images), _make, {"image": images if order is None else images[:, order], "target": labels})

    changes = {"shift": options.shift, "warp": options.warp}
    if descriptions := describe_changes(**changes):
        # Images are augmented before they are permuted, so the order is applied to each batch.
        pixel_order = torch.arange(PIXELS) if order is None else order
        rows = {"image": pixels, "target": labels[training]}
        split = Split(len(pixels), functools.partial(_make_changed, changes), rows, {"order": pixel_order}, draws=True)
        notes = (*notes, *descriptions)
    else:
        split = make_split(pixels, labels[training])
    return Task(
        name=options.name,
        inputs=1,
        outputs=10,
        length=PIXELS,
        input_mean=(pixels.sum(dtype=torch.int64).item() / (len(training) * PIXELS * 255),),
        training=split,
        validation=make_split(images[validation], labels[validation]),
        test=lambda: make_split(*as_tensors(*mnist.read(where, "test"))),
        loss=torch.nn.functional.cross_entropy,
        score=accuracy,
        metric="accuracy",
        better="higher",
        trivial=most_frequent(labels[training]),
        trivial_words="for always answering the most frequent digit",
        notes=notes,
    )


def _batch(images: Tensor, target: Tensor) -> Batch:
    pixels = images.t()
    # Transpose, convert to float and divide in one operation.
    input = torch.div(pixels, 255, out=torch.empty(pixels.shape, dtype=torch.float32, device=pixels.device))
    return Batch(input.unsqueeze(-1), target)


def _make(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    return _batch(rows["image"], rows["target"])


def _make_changed(
    changes: Mapping[str, Any], rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator
) -> Batch:
    image = augment_images(rows["image"].view(-1, SIDE, 1, SIDE), random, **changes)
    return _batch(image.flatten(1)[:, shared["order"]], rows["target"])
