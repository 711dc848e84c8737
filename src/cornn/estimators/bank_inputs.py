"""Inputs of the oscillator bank: fill missing values, scale in one or several ways, and take differences."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornn.engine.bank import Sequences
from cornn.estimators.preparation import fill_missing, mean_and_scale
from cornn.estimators.series import SequenceData
from cornn.estimators.times import choose_unit, complete_spans

__all__ = ["CAUSAL", "SCALINGS", "BankInputs", "RunningInputs", "View", "fit_inputs"]

SCALINGS = ("set", "running", "sequence")
"""By the training set; by the samples of the sequence so far; by the whole sequence."""
CAUSAL = ("set", "running")

PRIOR_STEPS = 10  # weight of the training set's mean and scale in those of the samples so far
CONSTANT = 1e-6  # a sequence that varies less than this share of the training set's scale counts as constant
LARGEST = 1e6  # of a scaled value; tanh is long saturated there
FARTHEST = 1e100  # of a standardised value, so that squares are finite
EVEN = 1e-6  # relative deviation up to which times count as evenly spaced

View = tuple[str, bool]
"""A scaling, and whether differences are taken; ("gaps", False) marks missing values."""

GAPS: View = ("gaps", False)


@dataclass(frozen=True, eq=False)
class BankInputs:
    """Preprocessing, fitted to training data. Every view gives one channel per feature.

    Attributes:
        mean: Mean of each feature, shape `(features)`.
        scale: Standard deviation of each feature.
        step: Root mean square of the differences of each feature.
        unit: Median time between samples, which counts as one step; None if there are no times. See `complete_spans`.
        views: The views, in the order of the channels.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    step: NDArray[np.float64]
    unit: float | None
    views: tuple[View, ...]

    @property
    def features(self) -> int:
        """Number of features of a sequence."""
        return len(self.mean)

    def __call__(self, sequences: Sequence[SequenceData]) -> Sequences:
        """Return the channels of the bank's input."""
        starts = _starts(sequences)
        raw = np.concatenate([sequence.values for sequence in sequences])
        begins = np.repeat(starts[:-1], np.diff(starts))
        spans = _count_steps(sequences, self.unit, np.arange(len(raw)) == begins)
        values = np.clip((fill_missing(raw, self.mean, begins) - self.mean) / self.scale, -FARTHEST, FARTHEST)
        steps = _differences(values, begins, spans) * (self.scale / self.step)
        parts = []
        for scaling, differences in self.views:
            if (scaling, differences) == GAPS:
                parts.append(np.isnan(raw).astype(np.float64))
            else:
                parts.append(_scale(steps if differences else values, starts, scaling, differences))
        input = np.clip(np.concatenate(parts, 1), -LARGEST, LARGEST).astype(np.float32)
        even = spans is None or np.allclose(spans, 1, rtol=EVEN, atol=0)
        return Sequences(input, starts, None if even else spans)


def _count_steps(
    sequences: Sequence[SequenceData], unit: float | None, begins: NDArray[np.bool_] | bool
) -> NDArray[np.float64] | None:
    """Return the time before each sample in steps; None without times."""
    if unit is None:
        return None
    return complete_spans(np.concatenate([np.asarray(sequence.gaps) for sequence in sequences]) / unit, begins)


def _starts(sequences: Sequence[SequenceData]) -> NDArray[np.int64]:
    return np.r_[0, np.cumsum([len(sequence.values) for sequence in sequences])].astype(np.int64)


def _differences(values: NDArray, begins: NDArray[np.int64], spans: NDArray | None) -> NDArray[np.float64]:
    """Return the change per step; 0 at the first step of a sequence."""
    differences = np.diff(values, axis=0, prepend=values[:1])
    differences[np.arange(len(values)) == begins] = 0
    if spans is None:
        return differences
    return np.divide(differences, spans[:, None], out=np.zeros_like(differences), where=spans[:, None] > 0)


def _scale(values: NDArray[np.float64], starts: NDArray[np.int64], scaling: str, differences: bool) -> NDArray:
    """Scale values that are standardised by the training set. Differences keep their mean."""
    if scaling == "set":
        return values
    lengths = np.diff(starts)
    if scaling == "sequence":
        count = lengths[:, None]
        mean = 0 if differences else np.add.reduceat(values, starts[:-1]) / count
        centred = values if differences else values - np.repeat(mean, lengths, 0)
        deviation = np.sqrt(np.add.reduceat(centred**2, starts[:-1]) / count)
        return centred / np.repeat(np.where(deviation > CONSTANT, deviation, 1), lengths, 0)
    sums, squares = (_running_sum(part, starts) for part in (values, values**2))
    total = PRIOR_STEPS + 1 + np.arange(len(values))[:, None] - np.repeat(starts[:-1], lengths)[:, None]
    mean = 0 if differences else sums / total
    deviation = np.sqrt(np.maximum((PRIOR_STEPS + squares) / total - np.square(mean), CONSTANT))
    return (values - mean) / deviation


def _running_sum(values: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.float64]:
    sums = np.empty_like(values)
    for start, stop in itertools.pairwise(starts):
        np.cumsum(values[start:stop], 0, out=sums[start:stop])
    return sums


def fit_inputs(sequences: Sequence[SequenceData], scalings: Sequence[str], differences: bool) -> BankInputs:
    """Fit the preprocessing.

    Args:
        sequences: Training sequences.
        scalings: Some of `SCALINGS`.
        differences: Whether to take differences as well as values.

    Returns:
        The preprocessing, with a view of missing values if there are any.
    """
    starts = _starts(sequences)
    raw = np.concatenate([sequence.values for sequence in sequences])
    mean, scale = mean_and_scale(raw)
    begins = np.repeat(starts[:-1], np.diff(starts))
    unit = choose_unit(sequences)
    steps = _differences(fill_missing(raw, mean, begins), begins, _count_steps(sequences, unit, False))
    step = scale * np.sqrt(((steps / scale) ** 2).mean(0))
    views: list[View] = [(scaling, False) for scaling in scalings]
    if differences:
        views += [(scaling, True) for scaling in scalings]
    if np.isnan(raw).any():
        views.append(GAPS)
    return BankInputs(mean, scale, np.where(step > CONSTANT * scale, step, scale), unit, tuple(views))


class RunningInputs:
    """`BankInputs` for one sample at a time, of one or several sequences."""

    def __init__(self, inputs: BankInputs, sequences: int) -> None:
        self.inputs = inputs
        shape = (sequences, inputs.features)
        self.seen = np.full(shape, np.nan)  # last known value
        self.last = np.zeros(shape)  # scaled value of the last step
        self.sums = np.zeros((4, *shape))  # of values, their squares, differences, their squares
        self.steps = np.zeros(1, np.int64)

    def __call__(self, sample: NDArray[np.float64], spans: NDArray[np.float64] | None) -> NDArray[np.float32]:
        """Return the channels of the next sample (sequences, features) of each sequence."""
        inputs = self.inputs
        missing = np.isnan(sample)
        self.seen = np.where(missing, self.seen, sample)
        value = (np.where(np.isnan(self.seen), inputs.mean, self.seen) - inputs.mean) / inputs.scale
        value = np.clip(value, -FARTHEST, FARTHEST)
        change = (value - self.last) * (inputs.scale / inputs.step) if self.steps[0] else np.zeros_like(value)
        if spans is not None:
            change = np.divide(change, spans[:, None], out=np.zeros_like(change), where=spans[:, None] > 0)
        self.last = value
        self.steps += 1
        self.sums += np.stack([value, value**2, change, change**2])
        parts = []
        for view in inputs.views:
            if view == GAPS:
                parts.append(missing.astype(np.float64))
                continue
            scaling, differences = view
            channel, first = (change, 2) if differences else (value, 0)
            if scaling == "running":
                total = PRIOR_STEPS + self.steps[0]
                mean = 0 if differences else self.sums[0] / total
                variance = (PRIOR_STEPS + self.sums[first + 1]) / total - np.square(mean)
                channel = (channel - mean) / np.sqrt(np.maximum(variance, CONSTANT))
            parts.append(channel)
        return np.clip(np.concatenate(parts, 1), -LARGEST, LARGEST).astype(np.float32)

    def arrays(self) -> dict[str, NDArray]:
        """Return the state, whose arrays `restore` accepts."""
        return {"seen": self.seen, "last": self.last, "sums": self.sums, "steps": self.steps}

    def restore(self, arrays: Mapping[str, NDArray]) -> None:
        """Resume from a state that `arrays` returned."""
        self.seen, self.last, self.sums, self.steps = (
            arrays[name].copy() for name in ("seen", "last", "sums", "steps")
        )
