"""HAR-2: classify the signals of a phone's motion sensors into two groups of activities.

As in the authors' code: nine signals of 128 steps; {sitting, laying, walking upstairs} against the rest; each signal
standardised over the training split; one logit. The authors' split into training, validation and test windows is
unpublished. Windows overlap in time, so the default holds out whole people: three of the 21 for validation, and the
publisher's test split of nine other people. `test="windows"` splits the windows of all people at random instead.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from cornn._arguments import ArgumentError, Setting
from cornn._checked import Count, NotNegative
from cornn._random import generator
from cornn.lab.data import find_folder, har
from cornn.lab.tasks.augment import add_noise, rotate_axes, stretch_time
from cornn.lab.tasks.scores import binary_accuracy, logistic, most_frequent
from cornn.lab.tasks.task import Batch, Make, Split, Task, TaskOptions, hold_out

GROUP = ("sitting", "laying", "walking upstairs")
AXES = 3
BODY, GYROSCOPE = 0, 1
"""Sensors in the order of `har.SIGNALS`; the third is total acceleration, which is body acceleration and gravity."""


@dataclass(frozen=True)
class HAR2(TaskOptions):
    """Human activities in two groups, from nine motion signals of 128 steps. Needs `cornn data get har`."""

    validation: Literal["subject", "random"] = "subject"
    """Validation split: all windows of a few people drawn from the seed, or a random tenth of the windows."""
    test: Literal["people", "windows"] = "people"
    """Test split. people: the publisher's, with people who are not in training. windows: as many windows of all people,
    drawn from the seed, so that the people are known from training."""
    jitter: NotNegative = 0.0
    """Standard deviation of the noise added to training windows at every presentation; the signals' own is 1."""
    held_people: Count = 3
    """Number of people whose windows are the validation split, unless that split is random."""
    rotate: NotNegative = 0.0
    """Standard deviation in degrees of a rotation of the phone about each axis, drawn for every presentation of a
    training window."""
    scale: NotNegative = 0.0
    """Standard deviation of the logarithm of a factor on the motion, but not on gravity, drawn for every presentation
    of a training window."""
    stretch: NotNegative = 0.0
    """Largest relative change of the speed of a training window, drawn for every presentation."""
    compress: NotNegative = 0.0
    """Strength of the compression of body acceleration and gyroscope, x -> asinh(S x) / asinh(S) in all splits: it
    makes the small motions of a person who sits or stands visible. 0: no compression."""

    name: ClassVar[str] = "har2"

    def check(self) -> None:
        if self.stretch >= 1:
            problem = f" must be below 1, got {self.stretch}: it is a fraction, 0.1 changes by up to 10 %"
            raise ArgumentError(Setting("stretch"), problem)
        if self.validation == "subject":
            self._check_held_people(sum(har.PEOPLE.values()) if self.test == "windows" else har.PEOPLE["train"])

    def _check_held_people(self, people: int) -> None:
        if self.held_people >= people:
            problem = f" must be below the {people} people to train on, got {self.held_people}"
            raise ArgumentError(Setting("held_people"), problem)

    def load(self, seed: int, data: Path | None = None) -> Task:
        data_folder = find_folder(data)
        signals, activities, subjects = har.read(data_folder, "train")
        test_windows: tuple[np.ndarray, np.ndarray] | None = None
        if self.test == "windows":
            others = har.read(data_folder, "test")
            signals, activities, subjects = (
                np.concatenate(pair) for pair in zip((signals, activities, subjects), others, strict=True)
            )
            training_indices, test_indices = hold_out(len(signals), len(others[0]), generator(seed, "har2", "test"))
            test_windows = signals[test_indices.numpy()], activities[test_indices.numpy()]
            signals, activities, subjects = (x[training_indices.numpy()] for x in (signals, activities, subjects))
        training, validation, note = self._split(subjects, generator(seed, "har2", "validation"))
        middle = signals[training].mean((0, 1), dtype=np.float64)
        spread = signals[training].std((0, 1), dtype=np.float64)

        make = functools.partial(_make_compressed, self.compress) if self.compress else _make

        def split(signals: np.ndarray, activities: np.ndarray) -> Split:
            group = [1 + har.ACTIVITIES.index(name) for name in GROUP]
            rows = {
                "signals": torch.from_numpy(((signals - middle) / spread).astype(np.float32)),
                "target": torch.from_numpy(np.isin(activities, group).astype(np.float32)),
            }
            return Split(len(signals), make, rows)

        def test() -> Split:
            return split(*(test_windows or har.read(data_folder, "test")[:2]))

        splits = split(signals[training], activities[training]), split(signals[validation], activities[validation])
        changes = self._changes()
        augmented = replace(
            splits[0],
            make=functools.partial(_make_changed, self, make),
            shared={"middle": torch.from_numpy(middle).float(), "spread": torch.from_numpy(spread).float()},
            draws=True,
        )
        return Task(
            name="har2",
            inputs=len(har.SIGNALS),
            outputs=1,
            length=har.STEPS,
            input_mean=(0.0,) * len(har.SIGNALS),
            training=augmented if changes else splits[0],
            validation=splits[1],
            test=test,
            loss=logistic,
            score=binary_accuracy,
            metric="accuracy",
            better="higher",
            trivial=most_frequent(splits[0].rows["target"]),
            trivial_words="for always answering the larger group",
            notes=(
                note,
                "test on people who are not in training" if test_windows is None else "test on windows of all people",
                *((f"body acceleration and gyroscope compressed by {self.compress:g}",) if self.compress else ()),
                *((f"training windows {' and '.join(changes)}",) if changes else ()),
            ),
        )

    def _changes(self) -> list[str]:
        """Describe the augmentation."""
        words = [f"sped up or slowed down by up to {100 * self.stretch:g} %"] if self.stretch else []
        words += [f"with motion scaled by a factor of deviation {self.scale:g}"] if self.scale else []
        words += [f"rotated by {self.rotate:g} degrees about each axis"] if self.rotate else []
        words += [f"with noise of {self.jitter:g} standard deviations"] if self.jitter else []
        return words

    def _split(self, subjects: np.ndarray, random: torch.Generator) -> tuple[np.ndarray, np.ndarray, str]:
        """Return the indices of the training and validation windows, and a description of the split."""
        if self.validation == "random":
            training, validation = hold_out(len(subjects), len(subjects) // 10, random)
            return training.numpy(), validation.numpy(), "validation on a random tenth of the training windows"
        people = np.unique(subjects)
        self._check_held_people(len(people))
        held_people = people[torch.randperm(len(people), generator=random)[: self.held_people].numpy()]
        is_held = np.isin(subjects, held_people)
        names = ", ".join(str(number) for number in sorted(held_people.tolist()))
        return np.flatnonzero(~is_held), np.flatnonzero(is_held), f"validation on the subjects {names}"


def _make(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    return Batch(rows["signals"].transpose(0, 1).contiguous(), rows["target"])


def _make_compressed(
    strength: float, rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator
) -> Batch:
    motion, total = rows["signals"].split((2 * AXES, AXES), -1)
    motion = torch.asinh(strength * motion) / math.asinh(strength)
    return _make({**rows, "signals": torch.cat((motion, total), -1)}, shared, random)


def _make_changed(
    options: HAR2, make: Make, rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator
) -> Batch:
    """Make a batch of changed windows: faster, stronger, from a phone in another position, with noise."""
    signals = rows["signals"]
    if options.stretch:
        signals = stretch_time(signals, options.stretch, random)
    if options.scale or options.rotate:
        signals = signals * shared["spread"] + shared["middle"]
        sensors = signals.unflatten(-1, (-1, AXES))
        if options.scale:
            sensors = _scale_motion(sensors, options.scale, random)
        if options.rotate:
            sensors = rotate_axes(sensors, options.rotate, random)
        signals = (sensors.flatten(-2) - shared["middle"]) / shared["spread"]
    if options.jitter:
        signals = add_noise(signals, options.jitter, random)
    return make({**rows, "signals": signals}, shared, random)


def _scale_motion(sensors: Tensor, deviation: float, random: torch.Generator) -> Tensor:
    """Multiply the motion in each window of (batch, steps, sensors, 3) by a log-normal factor; gravity stays."""
    noise = torch.randn(len(sensors), 1, 1, 1, generator=random, device=sensors.device)
    motion = torch.stack((sensors[:, :, BODY], sensors[:, :, GYROSCOPE], sensors[:, :, BODY]), 2)
    return sensors + ((deviation * noise).exp() - 1) * motion
