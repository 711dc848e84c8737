"""CIFAR-10 one row at a time, followed by noise until step 1,000: the image must be remembered for 968 steps.

As in the authors' code: pixels divided by 255; a step is one row of the image, its red, green and blue values
concatenated; 3,000 of the 50,000 training images are the validation split. The paper calls the noise uniform; its code
draws one block of standard normal numbers and appends it to every image; the task's original (Chang et al. 2019) has
new standard normal noise for each image. Standardised or whitened pixels, and mirrored, shifted, warped or partly
erased training images, are our additions, off by default.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from cornn._arguments import ArgumentError, Setting
from cornn._checked import Natural, NotNegative
from cornn._random import generator
from cornn.lab.data import cifar10, find_folder
from cornn.lab.tasks.augment import augment_images, check_changes, describe_changes
from cornn.lab.tasks.scores import accuracy, as_tensors, most_frequent
from cornn.lab.tasks.task import Batch, Make, Split, Task, TaskOptions, check_held_out, hold_out

ROWS, FEATURES, STEPS = 32, 96, 1000
NOISE = STEPS - ROWS
IMAGES = 50_000
"""Number of the publisher's training images."""

WORDS = {
    "fixed-normal": "one block of normal noise after every image, as in the authors' code",
    "fresh-normal": "new normal noise for each image, as in Chang et al. 2019",
    "fresh-uniform": "new uniform noise for each image, as in the paper's text",
}


@dataclass(frozen=True)
class NoisyCIFAR10(TaskOptions):
    """CIFAR-10 images, one row per step, then 968 steps of noise. Needs `cornn data get cifar10`."""

    noise: Literal["fixed-normal", "fresh-normal", "fresh-uniform"] = "fixed-normal"
    """Noise: one block for all images, drawn from the seed, or new noise at every presentation. In the validation and
    test splits, new noise is drawn once per image and is the same for all runs."""
    validation: int = 3000
    """Number of training images held out for validation, drawn from the seed."""
    standard: bool = False
    """Standardise the pixels of each colour over the training split, so that they have the scale of normal noise."""
    whiten: NotNegative = 0.0
    """Whiten the 96 values of a row over the training split (ZCA), with this share of their mean variance added to
    each variance. 0: no whitening."""
    mirror: bool = False
    """Mirror training images with probability 1/2 at every presentation."""
    shift: Natural = 0
    """Maximum random shift of training images, in pixels in each direction, drawn at every presentation."""
    warp: NotNegative = 0.0
    """Maximum random rotation, scaling and shear of training images, drawn at every presentation: 0.15 moves a pixel
    at the edge by up to 15 % of half the image."""
    cutout: Natural = 0
    """Side in pixels of a random square of each training image that is replaced by the image's mean colour. 0: none."""

    name: ClassVar[str] = "noisy-cifar10"

    def check(self) -> None:
        if self.standard and self.whiten:
            remedy = (Setting("standard", False), " with ", Setting("whiten"))
            raise ArgumentError("whitened pixels are standardised already: use ", *remedy)
        check_changes(ROWS, self.shift, self.warp, self.cutout)
        check_held_out(self.validation, IMAGES)

    def load(self, seed: int, data: Path | None = None) -> Task:
        changes = {"shift": self.shift, "warp": self.warp, "mirror": self.mirror, "cutout": self.cutout}
        descriptions = describe_changes(**changes)
        data_folder = find_folder(data)
        images, labels = as_tensors(*cifar10.read(data_folder, "train"))
        training, validation = hold_out(len(images), self.validation, generator(seed, "noisy-cifar10", "validation"))
        block = torch.randn(NOISE, 1, FEATURES, generator=generator(seed, "noisy-cifar10", "noise"))
        middle = {"fixed-normal": block.mean((0, 1)), "fresh-normal": 0.0, "fresh-uniform": 0.5}[self.noise]
        training_images = images[training]
        image_mean = training_images.sum(0, dtype=torch.int32).sum(0) / (255 * len(training_images) * ROWS)
        scale: dict[str, Tensor] = {}
        if self.standard:
            scale = _measure_scale(training_images)
            image_mean = (image_mean - scale["middle"]) / scale["spread"]
        elif self.whiten:
            scale = _measure_whitening(training_images, self.whiten)
            image_mean = torch.zeros(FEATURES)

        pixels = ["pixels are standardised"] if self.standard else ["rows are whitened"] if self.whiten else []

        def split(name: str, images: Tensor, labels: Tensor) -> Split:
            rows, shared = {"image": images, "target": labels}, dict(scale)
            if self.noise == "fixed-normal":
                shared["noise"] = block
            if name == "training":
                make = MAKERS[self.noise]
                if descriptions:
                    make = functools.partial(_make_augmented, changes, make)
                return Split(len(images), make, rows, shared, draws=bool(descriptions) or self.noise != "fixed-normal")
            if self.noise == "fixed-normal":
                return Split(len(images), MAKERS[self.noise], rows, shared)
            # The noise is computed from one key per image: stored, it would take gigabytes.
            keys = torch.randint(
                -(2**63), 2**63 - 1, (len(images),), generator=generator(0, "noisy-cifar10", "noise", name)
            )
            return Split(len(images), KEYED[self.noise], {**rows, "key": keys}, shared)

        return Task(
            name="noisy-cifar10",
            inputs=FEATURES,
            outputs=10,
            length=STEPS,
            input_mean=tuple(((ROWS * image_mean + NOISE * middle) / STEPS).tolist()),
            training=split("training", training_images, labels[training]),
            validation=split("validation", images[validation], labels[validation]),
            test=lambda: split("test", *as_tensors(*cifar10.read(data_folder, "test"))),
            loss=torch.nn.functional.cross_entropy,
            score=accuracy,
            metric="accuracy",
            better="higher",
            trivial=most_frequent(labels[training]),
            trivial_words="for always answering the same class",
            notes=(f"noise: {WORDS[self.noise]}", *pixels, *descriptions),
        )


def _measure_scale(images: Tensor) -> dict[str, Tensor]:
    """Return the mean and the deviation of the colour of every feature."""
    levels = torch.arange(256, dtype=torch.float64) / 255
    moments = []
    for colour in images.unflatten(-1, (3, -1)).unbind(2):
        share = torch.bincount(colour.flatten(), minlength=256).double() / colour.numel()
        middle = share @ levels
        moments.append(torch.stack((middle, (share @ (levels - middle).square()).sqrt())))
    middle, spread = torch.stack(moments, 1).float().repeat_interleave(FEATURES // 3, 1)
    return {"middle": middle, "spread": spread}


def _measure_whitening(images: Tensor, share: float) -> dict[str, Tensor]:
    """Mean of the rows (96), and the matrix (96, 96) that makes their features uncorrelated, with variance 1 (ZCA)."""
    total, products = torch.zeros(FEATURES).double(), torch.zeros(FEATURES, FEATURES).double()
    for part in images.split(4000):
        rows = part.flatten(0, 1).double() / 255
        total += rows.sum(0)
        products += rows.T @ rows
    count = len(images) * ROWS
    middle = total / count
    covariance = products / count - torch.outer(middle, middle)
    variances, directions = torch.linalg.eigh(covariance)
    matrix = directions / (variances + share * variances.mean()).sqrt() @ directions.T
    return {"middle": middle.float(), "whitening": matrix.float()}


def _join_noise(rows: Mapping[str, Tensor], shared: Mapping[str, Tensor], noise: Tensor) -> Batch:
    image = rows["image"].transpose(0, 1).contiguous().float() / 255
    if "whitening" in shared:
        image = (image - shared["middle"]) @ shared["whitening"]
    elif "middle" in shared:
        image = (image - shared["middle"]) / shared["spread"]
    return Batch(torch.cat((image, noise.expand(-1, image.shape[1], -1))), rows["target"])


def _make_fresh(
    draw: Callable[..., Tensor], rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator
) -> Batch:
    image = rows["image"]
    return _join_noise(rows, shared, draw(NOISE, len(image), FEATURES, generator=random, device=image.device))


def _make_augmented(
    changes: Mapping[str, Any],
    make: Make,
    rows: dict[str, Tensor],
    shared: Mapping[str, Tensor],
    random: torch.Generator,
) -> Batch:
    image = rows["image"].unflatten(-1, (3, -1))  # (batch, rows, channels, columns)
    return make({**rows, "image": augment_images(image, random, **changes).flatten(2)}, shared, random)


MAKERS: dict[str, Make] = {
    "fixed-normal": lambda rows, shared, random: _join_noise(rows, shared, shared["noise"]),
    "fresh-normal": functools.partial(_make_fresh, torch.randn),
    "fresh-uniform": functools.partial(_make_fresh, torch.rand),
}
"""Noise -> function that makes a training batch."""
KEYED: dict[str, Make] = {
    "fresh-normal": lambda rows, shared, random: _join_noise(
        rows, shared, torch.erfinv(2 * uniform_of(rows["key"]) - 1) * sqrt(2)
    ),
    "fresh-uniform": lambda rows, shared, random: _join_noise(rows, shared, uniform_of(rows["key"])),
}
"""Noise -> function that makes a batch whose noise depends on the key of each image only."""


def uniform_of(keys: Tensor) -> Tensor:
    """Noise (968, images, 96), uniform in (0, 1), that is a function of each image's key (images) alone.

    It is the splitmix64 generator with the position in the block as its counter: a few integer operations, which give
    the same result on every device and for every division into batches.
    """
    counter = torch.arange(1, NOISE * FEATURES + 1, device=keys.device).view(NOISE, 1, FEATURES)
    mixed = counter * _as_signed(0x9E3779B97F4A7C15) + keys.view(1, -1, 1)
    mixed ^= mixed >> 30 & (1 << 34) - 1  # shifts are arithmetic here: the mask removes the sign bits
    mixed *= _as_signed(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> 27 & (1 << 37) - 1
    mixed *= _as_signed(0x94D049BB133111EB)
    mixed ^= mixed >> 31 & (1 << 33) - 1
    return ((mixed >> 41 & (1 << 23) - 1).float() + 0.5) * 2.0**-23


def _as_signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
