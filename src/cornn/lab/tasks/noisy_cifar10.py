"""CIFAR-10 one row at a time, followed by noise until step 1,000: the image must be held over 968 steps.

As the authors ran it: pixels divided by 255; a step is one row of the image, its red, green and blue values one after
the other; 3,000 of the 50,000 training images are the validation part. Of the noise the paper says that it is uniform;
its code draws one block of standard normal numbers and puts it behind every image; where the task comes from (Chang et
al. 2019) each image has fresh standard normal noise. Standardised pixels, and training images that are mirrored, moved
or warped, are ours, and off by default.
"""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from cornn._random import generator
from cornn.lab.data import cifar10, folder
from cornn.lab.tasks.augment import changed, changes_in_words, check_changes
from cornn.lab.tasks.parts import cross_entropy, hold_out, most_frequent, right
from cornn.lab.tasks.task import Batch, Part, Task

__all__ = ["NoisyCIFAR10", "uniform_of"]

ROWS, FEATURES, STEPS = 32, 96, 1000
NOISE = STEPS - ROWS

WORDS = {
    "fixed-normal": "one block of normal noise behind every image, as in the authors' code",
    "fresh-normal": "fresh normal noise for each image, as where the task comes from",
    "fresh-uniform": "fresh uniform noise for each image, as the paper says",
}


@dataclass(frozen=True)
class NoisyCIFAR10:
    """Images of CIFAR-10, one row a step, then 968 steps of noise."""

    noise: Literal["fixed-normal", "fresh-normal", "fresh-uniform"] = "fixed-normal"
    """One block for all images, drawn from the seed, or new noise at every presentation. In validation and test fresh
    noise is drawn once for each image, the same for all runs."""
    validation: int = 3000
    """Training images held out for validation; the seed draws them."""
    standard: bool = False
    """Whether the pixels of a colour have mean 0 and deviation 1, as normal noise has, over the images that are
    trained on."""
    mirror: bool = False
    """Whether a training image is shown with left and right exchanged every other time, by chance."""
    shift: int = 0
    """Pixels by which a training image is moved at the most, up or down and left or right, anew at every presentation;
    0 shows them as they are."""
    warp: float = 0.0
    """How far a training image is turned, stretched and slanted at the most, anew at every presentation: 0.15 moves
    what is at the edge by up to 15 % of half the image; 0 does not."""

    def load(self, seed: int, data: Path | None = None) -> Task:
        check_changes(self.shift, self.warp)
        changes = {"shift": self.shift, "warp": self.warp, "mirror": self.mirror}
        words = changes_in_words(**changes)
        where = folder(data)
        images, labels = _tensors(*cifar10.read(where, "train"))
        training, validation = hold_out(len(images), self.validation, generator(seed, "noisy-cifar10", "validation"))
        block = torch.randn(NOISE, 1, FEATURES, generator=generator(seed, "noisy-cifar10", "noise"))
        middle = {"fixed-normal": block.mean((0, 1)), "fresh-normal": 0.0, "fresh-uniform": 0.5}[self.noise]
        kept = images[training]
        image_mean = kept.sum(0, dtype=torch.int32).sum(0) / (255 * len(kept) * ROWS)
        scale: dict[str, Tensor] = _scale(kept) if self.standard else {}
        if scale:
            image_mean = (image_mean - scale["middle"]) / scale["spread"]

        def part(name: str, images: Tensor, labels: Tensor) -> Part:
            rows, shared = {"image": images, "target": labels}, dict(scale)
            if self.noise == "fixed-normal":
                shared["noise"] = block
            if name == "training":
                make = MAKERS[self.noise]
                if words:
                    make = functools.partial(_changed, changes, make)
                return Part(len(images), make, rows, shared, draws=bool(words) or self.noise != "fixed-normal")
            if self.noise == "fixed-normal":
                return Part(len(images), _fixed, rows, shared)
            # A number for each image that its noise is computed from: to keep all of it would take gigabytes.
            keys = torch.randint(
                -(2**63), 2**63 - 1, (len(images),), generator=generator(0, "noisy-cifar10", "noise", name)
            )
            make = _own_normal if self.noise == "fresh-normal" else _own_uniform
            return Part(len(images), make, {**rows, "key": keys}, shared)

        return Task(
            name="noisy-cifar10",
            inputs=FEATURES,
            outputs=10,
            length=STEPS,
            input_mean=tuple(((ROWS * image_mean + NOISE * middle) / STEPS).tolist()),
            training=part("training", kept, labels[training]),
            validation=part("validation", images[validation], labels[validation]),
            test=lambda: part("test", *_tensors(*cifar10.read(where, "test"))),
            loss=cross_entropy,
            score=right,
            metric="accuracy",
            better="higher",
            trivial=most_frequent(labels[training]),
            trivial_words="of always answering the same class",
            notes=(f"noise: {WORDS[self.noise]}", *(["pixels are standardised"] if self.standard else []), *words),
        )


def _tensors(images: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
    return torch.from_numpy(images), torch.from_numpy(labels).long()


def _scale(images: Tensor) -> dict[str, Tensor]:
    """Mean and deviation of each colour, for every feature."""
    levels = torch.arange(256, dtype=torch.float64) / 255
    found = []
    for colour in images.unflatten(-1, (3, -1)).unbind(2):
        share = torch.bincount(colour.flatten(), minlength=256).double() / colour.numel()
        middle = share @ levels
        found.append(torch.stack((middle, (share @ (levels - middle).square()).sqrt())))
    middle, spread = torch.stack(found, 1).float().repeat_interleave(FEATURES // 3, 1)
    return {"middle": middle, "spread": spread}


def _joined(rows: Mapping[str, Tensor], shared: Mapping[str, Tensor], noise: Tensor) -> Batch:
    image = rows["image"].transpose(0, 1).contiguous().float() / 255
    if "middle" in shared:
        image = (image - shared["middle"]) / shared["spread"]
    return Batch(torch.cat((image, noise.expand(-1, image.shape[1], -1))), rows["target"])


def _fixed(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    return _joined(rows, shared, shared["noise"])


def _fresh_normal(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    image = rows["image"]
    return _joined(rows, shared, torch.randn(NOISE, len(image), FEATURES, generator=random, device=image.device))


def _fresh_uniform(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    image = rows["image"]
    return _joined(rows, shared, torch.rand(NOISE, len(image), FEATURES, generator=random, device=image.device))


MAKERS = {"fixed-normal": _fixed, "fresh-normal": _fresh_normal, "fresh-uniform": _fresh_uniform}
"""Noise -> how a batch for training is made."""


def _changed(
    changes: Mapping[str, Any],
    make: Callable[..., Batch],
    rows: dict[str, Tensor],
    shared: Mapping[str, Tensor],
    random: torch.Generator,
) -> Batch:
    image = rows["image"].unflatten(-1, (3, -1))  # (batch, rows, channels, columns)
    return make({**rows, "image": changed(image, random, **changes).flatten(2)}, shared, random)


def _own_normal(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    return _joined(rows, shared, torch.erfinv(2 * uniform_of(rows["key"]) - 1) * sqrt(2))


def _own_uniform(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    return _joined(rows, shared, uniform_of(rows["key"]))


def uniform_of(keys: Tensor) -> Tensor:
    """Noise (968, images, 96), uniform in (0, 1), that is a function of each image's key (images) alone.

    It is the splitmix64 generator with the place in the block as its counter: a few operations on whole numbers, which
    come out the same on every device and for every division into batches.
    """
    counter = torch.arange(1, NOISE * FEATURES + 1, device=keys.device).view(NOISE, 1, FEATURES)
    mixed = counter * _signed(0x9E3779B97F4A7C15) + keys.view(1, -1, 1)
    mixed ^= mixed >> 30 & (1 << 34) - 1  # shifts keep the sign here: the mask takes it off
    mixed *= _signed(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> 27 & (1 << 37) - 1
    mixed *= _signed(0x94D049BB133111EB)
    mixed ^= mixed >> 31 & (1 << 33) - 1
    return ((mixed >> 41 & (1 << 23) - 1).float() + 0.5) * 2.0**-23


def _signed(number: int) -> int:
    return number - (1 << 64) if number >> 63 else number
