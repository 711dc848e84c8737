"""From sequences to what the network gets: gaps filled and marked, values standardised, times as factors on dt."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn.estimators.sequences import Read
from cornn.streaming import Scaling

__all__ = ["Padded", "Preparation", "filled", "prepare", "spread"]


class Padded(NamedTuple):
    """Sequences side by side, time-major; past a sequence's end there are zeros."""

    input: Tensor  # (time, batch, features)
    lengths: Tensor  # (batch)
    timespans: Tensor | None  # (time, batch)

    def rows(self, index: Tensor) -> "Padded":
        """Some of the sequences, as long as the longest of them."""
        lengths = self.lengths.index_select(0, index)
        longest = int(lengths.max())
        spans = None if self.timespans is None else self.timespans[:longest].index_select(1, index)
        return Padded(self.input[:longest].index_select(1, index), lengths, spans)

    def to(self, device: torch.device) -> "Padded":
        spans = None if self.timespans is None else self.timespans.to(device)
        return Padded(self.input.to(device), self.lengths.to(device), spans)


@dataclass(frozen=True)
class Preparation:
    """Of the training data, and applied alike to all data after.

    A missing value is taken to be the last one before it, and the mean before there was one. If the training data have
    missing values (`masked`), each feature has a second one beside it that is 1 where it is missing.
    """

    mean: NDArray[np.float64]  # (values)
    scale: NDArray[np.float64]  # (values)
    masked: bool
    unit: float | None  # the usual time between samples, which is one dt; None: there are no times
    longest: float  # the largest factor on dt; a longer gap counts as this much

    @property
    def features(self) -> int:
        """Of the network."""
        return len(self.mean) * (2 if self.masked else 1)

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.mean, self.scale, self.masked)

    def timespan(self, gap: float) -> float:
        """The factor on dt of a step."""
        return 1.0 if self.unit is None or gap != gap else min(gap / self.unit, self.longest)

    def check(self, sequences: list[Read]) -> None:
        for number, sequence in enumerate(sequences):
            if sequence.values.shape[1] != len(self.mean):
                raise ValueError(
                    f"sequence {number} of X has {sequence.values.shape[1]} features, but this estimator is expecting "
                    f"{len(self.mean)} features as input, as it was fitted with"
                )
            if (sequence.gaps is None) != (self.unit is None):
                fitted, here = ("without", "has") if self.unit is None else ("with", "lacks")
                raise ValueError(f"this estimator was fitted {fitted} times, and sequence {number} {here} them")

    def __call__(self, sequences: list[Read]) -> Padded:
        self.check(sequences)
        lengths = [len(sequence.values) for sequence in sequences]
        size, count = len(self.mean), len(sequences)
        input = np.zeros((max(lengths), count, self.features), np.float32)
        spans = None if self.unit is None else np.ones((max(lengths), count), np.float32)
        for number, (sequence, length) in enumerate(zip(sequences, lengths, strict=True)):
            values = filled(sequence.values, self.mean)
            with np.errstate(over="ignore"):
                input[:length, number, :size] = (values - self.mean) / self.scale
            if not np.isfinite(input[:length, number]).all():
                step = int(np.argwhere(~np.isfinite(input[:length, number]))[0][0])
                raise ValueError(
                    f"sequence {number}, step {step} is further from the training data than float32 can hold: correct "
                    "the value, or make it NaN if it is missing"
                )
            if self.masked:
                input[:length, number, size:] = np.isnan(sequence.values)
            if spans is not None:
                factors = np.minimum(np.asarray(sequence.gaps) / self.unit, self.longest)
                spans[:length, number] = np.where(np.isnan(factors), 1.0, factors)
        return Padded(
            torch.from_numpy(input), torch.tensor(lengths), None if spans is None else torch.from_numpy(spans)
        )


def filled(values: NDArray[np.float64], before: NDArray[np.float64]) -> NDArray[np.float64]:
    """Each missing value replaced by the last one that was there, and by `before` at first. (time, values)"""
    missing = np.isnan(values)
    if not missing.any():
        return values
    last = np.maximum.accumulate(np.where(missing, -1, np.arange(len(values))[:, None]), 0)
    return np.where(last < 0, before, np.take_along_axis(values, np.maximum(last, 0), 0))


def spread(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and standard deviation of each column, of what is there. (rows, columns)"""
    there = ~np.isnan(table)
    count = np.maximum(there.sum(0), 1)
    # In units of about the largest value, so that no square overflows or vanishes; powers of two change no digit.
    power = np.frexp(np.where(there, np.abs(table), 0).max(0, initial=0))[1]
    table = np.ldexp(table, -power)
    mean = np.where(there, table, 0).sum(0) / count
    scale = np.sqrt((np.where(there, table - mean, 0) ** 2).sum(0) / count)
    # A constant is left where it is: what its rounding leaves must not be blown up.
    varies = scale > 1e-12 * np.abs(mean)
    mean, scale = np.ldexp(mean, power), np.ldexp(scale, power)
    return mean, np.where(varies & (scale > 0), scale, 1.0)


def prepare(sequences: list[Read], longest: float) -> Preparation:
    """longest: the largest factor on dt at which the network is stable."""
    together = np.concatenate([sequence.values for sequence in sequences])
    mean, scale = spread(together)
    unit = None
    if sequences[0].gaps is not None:
        gaps = np.concatenate([np.asarray(sequence.gaps)[1:] for sequence in sequences])
        gaps = gaps[gaps > 0]
        unit = float(np.median(gaps)) if len(gaps) else 1.0
    return Preparation(mean, scale, bool(np.isnan(together).any()), unit, longest)
