"""HAR-2: which of two groups of activities a phone's motion sensors were carried through.

As the authors ran it: nine signals of 128 steps; {sitting, laying, walking upstairs} against the rest; each signal less
its mean and divided by its deviation over the training part; one logit. Their files of training, validation and test
windows are unpublished: windows overlap in time, so that held-out people are the honest test of a model, and three of
the 21 are the default validation. The publisher's test part is of nine other people; `test="windows"` deals all windows
of all people out anew instead.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from cornn._random import generator
from cornn.lab.data import folder, har
from cornn.lab.tasks.augment import check_not_negative, jittered
from cornn.lab.tasks.parts import hold_out, logistic, most_frequent, right_side
from cornn.lab.tasks.task import Batch, Part, Task

__all__ = ["HAR2"]

GROUP = ("sitting", "laying", "walking upstairs")
HELD_SUBJECTS = 3


@dataclass(frozen=True)
class HAR2:
    """Human activities in two groups, from nine motion signals of 128 steps."""

    validation: Literal["subject", "random"] = "subject"
    """What is held out: all windows of three people drawn from the seed, or a random tenth of the windows."""
    test: Literal["people", "windows"] = "people"
    """people: the publisher's test part, of people who are not in training. windows: as many of all windows, drawn from
    the seed, so that a model is tested on people it knows."""
    jitter: float = 0.0
    """Standard deviation of noise on every value of a training window, anew at every presentation; the signals' own is
    1."""

    def load(self, seed: int, data: Path | None = None) -> Task:
        check_not_negative(jitter=self.jitter)
        where = folder(data)
        signals, activities, subjects = har.read(where, "train")
        dealt: tuple[np.ndarray, np.ndarray] | None = None
        if self.test == "windows":
            others = har.read(where, "test")
            signals, activities, subjects = (
                np.concatenate(pair) for pair in zip((signals, activities, subjects), others, strict=True)
            )
            kept, held = hold_out(len(signals), len(others[0]), generator(seed, "har2", "test"))
            dealt = signals[held.numpy()], activities[held.numpy()]
            signals, activities, subjects = (x[kept.numpy()] for x in (signals, activities, subjects))
        training, validation, note = self._split(subjects, generator(seed, "har2", "validation"))
        middle = signals[training].mean((0, 1), dtype=np.float64)
        spread = signals[training].std((0, 1), dtype=np.float64)

        def part(signals: np.ndarray, activities: np.ndarray) -> Part:
            group = [1 + har.ACTIVITIES.index(name) for name in GROUP]
            rows = {
                "signals": torch.from_numpy(((signals - middle) / spread).astype(np.float32)),
                "target": torch.from_numpy(np.isin(activities, group).astype(np.float32)),
            }
            return Part(len(signals), _make, rows)

        def test() -> Part:
            return part(*(dealt or har.read(where, "test")[:2]))

        parts = part(signals[training], activities[training]), part(signals[validation], activities[validation])
        shown = replace(parts[0], make=functools.partial(_make_jittered, self.jitter), draws=True)
        return Task(
            name="har2",
            inputs=len(har.SIGNALS),
            outputs=1,
            length=har.STEPS,
            input_mean=(0.0,) * len(har.SIGNALS),
            training=shown if self.jitter else parts[0],
            validation=parts[1],
            test=test,
            loss=logistic,
            score=right_side,
            metric="accuracy",
            better="higher",
            trivial=most_frequent(parts[0].rows["target"]),
            trivial_words="of always answering the larger group",
            notes=(
                note,
                "test on people who are not in training" if dealt is None else "test on windows of all people",
                *((f"training windows with noise of {self.jitter:g} deviations",) if self.jitter else ()),
            ),
        )

    def _split(self, subjects: np.ndarray, random: torch.Generator) -> tuple[np.ndarray, np.ndarray, str]:
        """Numbers of the windows to train on and of those to validate on, and the split in words."""
        if self.validation == "random":
            training, validation = hold_out(len(subjects), len(subjects) // 10, random)
            return training.numpy(), validation.numpy(), "validation on a random tenth of the training windows"
        people = np.unique(subjects)
        if len(people) <= HELD_SUBJECTS:
            raise ValueError(f"UCI HAR has {len(people)} people to train on: {HELD_SUBJECTS} cannot be held out")
        held = people[torch.randperm(len(people), generator=random)[:HELD_SUBJECTS].numpy()]
        out = np.isin(subjects, held)
        names = ", ".join(str(number) for number in sorted(held.tolist()))
        return np.flatnonzero(~out), np.flatnonzero(out), f"validation on the subjects {names}"


def _make(rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator) -> Batch:
    return Batch(rows["signals"].transpose(0, 1).contiguous(), rows["target"])


def _make_jittered(
    deviation: float, rows: dict[str, Tensor], shared: Mapping[str, Tensor], random: torch.Generator
) -> Batch:
    return _make({**rows, "signals": jittered(rows["signals"], deviation, random)}, shared, random)
