"""HAR-2: classify the signals of a phone's motion sensors into two groups of activities.

As in the authors' code: nine signals of 128 steps; {sitting, laying, walking upstairs} against the rest; each signal
standardised over the training split; one logit. The authors' split into training, validation and test windows is
unpublished. Windows overlap in time, so the default holds out whole people: three of the 21 for validation, and the
publisher's test split of nine other people. `test="windows"` splits the windows of all people at random instead.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from cornn._checked import Checked
from cornn._random import generator
from cornn.lab.data import folder, har
from cornn.lab.tasks.augment import add_noise, check_not_negative
from cornn.lab.tasks.scores import binary_accuracy, logistic, most_frequent
from cornn.lab.tasks.task import Batch, Split, Task, hold_out

__all__ = ["HAR2"]

GROUP = ("sitting", "laying", "walking upstairs")
HELD_SUBJECTS = 3


@dataclass(frozen=True)
class HAR2(Checked):
    """Human activities in two groups, from nine motion signals of 128 steps. Needs `cornn data get har`."""

    validation: Literal["subject", "random"] = "subject"
    """Validation split: all windows of three people drawn from the seed, or a random tenth of the windows."""
    test: Literal["people", "windows"] = "people"
    """Test split. people: the publisher's, with people who are not in training. windows: as many windows of all people,
    drawn from the seed, so that the people are known from training."""
    jitter: float = 0.0
    """Standard deviation of the noise added to training windows at every presentation; the signals' own is 1."""

    name: ClassVar[str] = "har2"

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

        def split(signals: np.ndarray, activities: np.ndarray) -> Split:
            group = [1 + har.ACTIVITIES.index(name) for name in GROUP]
            rows = {
                "signals": torch.from_numpy(((signals - middle) / spread).astype(np.float32)),
                "target": torch.from_numpy(np.isin(activities, group).astype(np.float32)),
            }
            return Split(len(signals), _make, rows)

        def test() -> Split:
            return split(*(dealt or har.read(where, "test")[:2]))

        splits = split(signals[training], activities[training]), split(signals[validation], activities[validation])
        shown = replace(splits[0], make=functools.partial(_make_jittered, self.jitter), draws=True)
        return Task(
            name="har2",
            inputs=len(har.SIGNALS),
            outputs=1,
            length=har.STEPS,
            input_mean=(0.0,) * len(har.SIGNALS),
            training=shown if self.jitter else splits[0],
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
                "test on people who are not in training" if dealt is None else "test on windows of all people",
                *((f"training windows with noise of {self.jitter:g} standard deviations",) if self.jitter else ()),
            ),
        )

    def _split(self, subjects: np.ndarray, random: torch.Generator) -> tuple[np.ndarray, np.ndarray, str]:
        """Return the indices of the training and validation windows, and a description of the split."""
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
    return _make({**rows, "signals": add_noise(rows["signals"], deviation, random)}, shared, random)
