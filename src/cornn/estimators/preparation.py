"""Preprocessing: fill and mark missing values, standardise, and turn times into factors on dt."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn.estimators.series import SequenceData
from cornn.estimators.times import choose_unit, complete_spans
from cornn.streaming import Scaling

__all__ = ["PaddedBatch", "Preparation", "fill_missing", "fit_preparation", "mean_and_scale"]


class PaddedBatch(NamedTuple):
    """A batch of sequences, time-major, padded with zeros."""

    input: Tensor  # (time, batch, features)
    lengths: Tensor  # (batch)
    timespans: Tensor | None  # (time, batch)

    def rows(self, index: Tensor) -> "PaddedBatch":
        """Return some of the sequences, cut to the longest of them."""
        lengths = self.lengths.index_select(0, index)
        longest = int(lengths.max())
        spans = None if self.timespans is None else self.timespans[:longest].index_select(1, index)
        return PaddedBatch(self.input[:longest].index_select(1, index), lengths, spans)

    def to(self, device: torch.device) -> "PaddedBatch":
        spans = None if self.timespans is None else self.timespans.to(device)
        return PaddedBatch(self.input.to(device), self.lengths.to(device), spans)


@dataclass(frozen=True)
class Preparation:
    """Preprocessing that is fitted to the training data and then applied to all data.

    A missing value is replaced by the last known value of its feature, or by the mean if there is none. If the
    training data have missing values (`masked`), each feature gets a second one that is 1 where the value is missing.
    """

    mean: NDArray[np.float64]  # (values)
    scale: NDArray[np.float64]  # (values)
    masked: bool
    unit: float | None  # median time between samples, which counts as one dt; None: there are no times
    longest: float  # largest factor on dt; longer gaps are clipped to it

    @property
    def features(self) -> int:
        """Number of inputs of the network."""
        return len(self.mean) * (2 if self.masked else 1)

    @property
    def scaling(self) -> Scaling:
        return Scaling(self.mean, self.scale, self.masked)

    def __call__(self, sequences: list[SequenceData]) -> PaddedBatch:
        lengths = [len(sequence.values) for sequence in sequences]
        size, count = len(self.mean), len(sequences)
        input = np.zeros((max(lengths), count, self.features), np.float32)
        spans = None if self.unit is None else np.ones((max(lengths), count), np.float32)
        for number, (sequence, length) in enumerate(zip(sequences, lengths, strict=True)):
            values = fill_missing(sequence.values, self.mean)
            with np.errstate(over="ignore"):
                input[:length, number, :size] = (values - self.mean) / self.scale
            if not np.isfinite(input[:length, number]).all():
                step = int(np.argwhere(~np.isfinite(input[:length, number]))[0][0])
                raise ValueError(
                    f"sequence {number}, step {step} is too far from the training data for float32: correct the value, "
                    "or make it NaN if it is missing"
                )
            if self.masked:
                input[:length, number, size:] = np.isnan(sequence.values)
            if spans is not None:
                steps = complete_spans(np.asarray(sequence.gaps) / self.unit, np.arange(length) == 0)
                spans[:length, number] = np.minimum(steps, self.longest)
        return PaddedBatch(
            torch.from_numpy(input), torch.tensor(lengths), None if spans is None else torch.from_numpy(spans)
        )


def fill_missing(
    values: NDArray[np.float64], before: NDArray[np.float64], begins: NDArray[np.int64] | int = 0
) -> NDArray[np.float64]:
    """Replace missing values (time, values) by the last known value, or by `before` if there is none.

    Args:
        values: The values of one sequence, or of several one after the other.
        before: The value of each feature before the first known one.
        begins: For each step the first step of its sequence.
    """
    missing = np.isnan(values)
    if not missing.any():
        return values
    last = np.maximum.accumulate(np.where(missing, -1, np.arange(len(values))[:, None]), 0)
    return np.where(last < np.reshape(begins, (-1, 1)), before, np.take_along_axis(values, np.maximum(last, 0), 0))


def mean_and_scale(table: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and standard deviation of each column (rows, columns), ignoring NaN; 1 for constant columns."""
    known = ~np.isnan(table)
    count = np.maximum(known.sum(0), 1)
    # Scale by a power of two near the largest value, so that squares neither overflow nor underflow; this is exact.
    power = np.frexp(np.where(known, np.abs(table), 0).max(0, initial=0))[1]
    table = np.ldexp(table, -power)
    mean = np.where(known, table, 0).sum(0) / count
    scale = np.sqrt((np.where(known, table - mean, 0) ** 2).sum(0) / count)
    # The rounding error of a constant column must not be scaled up.
    varies = scale > 1e-12 * np.abs(mean)
    mean, scale = np.ldexp(mean, power), np.ldexp(scale, power)
    return mean, np.where(varies & (scale > 0), scale, 1.0)


def fit_preparation(sequences: list[SequenceData], longest: float) -> Preparation:
    """Fit the preprocessing. `longest` is the largest factor on dt for which the network is stable."""
    together = np.concatenate([sequence.values for sequence in sequences])
    mean, scale = mean_and_scale(together)
    return Preparation(mean, scale, bool(np.isnan(together).any()), choose_unit(sequences), longest)
