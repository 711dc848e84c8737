"""Missing targets for the method "network" of `CoRNNForecaster`: forecasts start after known values.

Targets that are missing right before an origin are forecast first, from those before, as with the method "pool"; steps
without a sample count like steps without values. Other missing values are replaced by the preparation of the network,
in training and in predictions.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.series import SequenceData
from cornn.forecasting.series import check_length, spread_out

__all__ = [
    "count_to_known",
    "fill_ends",
    "find_groups",
    "find_start",
    "find_stop",
    "insert_steps",
    "place_samples",
    "take",
]

Forecast = Callable[[list[SequenceData]], NDArray[np.float64]]
"""Function of sequences -> forecasts after their ends, shape (sequences, horizon, targets)."""


def take(sequence: SequenceData, length: int) -> SequenceData:
    """Return the first steps of a sequence."""
    return SequenceData(sequence.values[:length], None if sequence.gaps is None else sequence.gaps[:length])


def count_to_known(values: NDArray[np.float64]) -> NDArray[np.int_]:
    """Return the number of steps up to the last known value of each target, at each origin.

    Args:
        values: The targets, shape (time, targets).

    Returns:
        Shape (time, targets), for the origins 1, 2, ...; 0 for a target without a value so far, whose missing values
        the preparation replaces.
    """
    origins = np.arange(1, len(values) + 1)[:, None]
    return np.maximum.accumulate(np.where(np.isnan(values), 0, origins), 0)


def find_start(lasts: NDArray[np.int_], end: int) -> int:
    """Return the first step with a target to fill; `end` if there is none.

    Args:
        lasts: Number of steps up to the last known value of each target, shape (targets,).
        end: Number of steps.
    """
    return int(lasts[lasts > 0].min(initial=end))


def place_samples(sequence: SequenceData, start: int, unit: float | None) -> NDArray[np.int_]:
    """Return the step of every sample, shape (time,): one each at first, by the times after the first `start` samples.

    Args:
        sequence: The sequence.
        start: Number of samples after which steps without a sample count, at least 1.
        unit: Time of one step; None without times.
    """
    counts = np.ones(len(sequence.values))
    if sequence.gaps is not None and unit is not None:
        counts[start:] = np.maximum(np.round(sequence.gaps[start:] / unit), 1)
        check_length(float(counts.sum()), len(counts), unit)
    return np.cumsum(counts).astype(int) - 1


def insert_steps(sequence: SequenceData, places: NDArray[np.int_]) -> SequenceData:
    """Insert rows without values at the steps without a sample; `places` is from `place_samples`."""
    if sequence.gaps is None:
        return sequence
    counts = np.diff(places, prepend=-1)
    return SequenceData(spread_out(sequence.values, places), np.repeat(sequence.gaps / counts, counts))


def find_stop(lasts: NDArray[np.int_], start: int, horizon: int, end: int) -> int:
    """Return the step up to which forecasts after the first `start` steps fill missing targets.

    Args:
        lasts: Number of steps up to the last known value of each target, shape (targets,).
        start: Number of steps after which the forecasts are made.
        horizon: Number of steps that are forecast.
        end: Number of steps to fill.
    """
    return int(lasts[lasts > start].min(initial=min(start + horizon, end)))


def fill_ends(
    sequences: Sequence[SequenceData], targets: list[int], horizon: int, forecast: Forecast
) -> list[SequenceData]:
    """Replace targets that are missing at the end of sequences by forecasts.

    Args:
        sequences: The sequences.
        targets: The features that are forecast.
        horizon: Steps to forecast.
        forecast: The forecasts after given sequences.
    """
    filled = list(sequences)
    lasts = [count_to_known(sequence.values[:, targets])[-1] for sequence in filled]
    starts = [find_start(last, len(sequence.values)) for last, sequence in zip(lasts, filled, strict=True)]
    while pending := [number for number, sequence in enumerate(filled) if starts[number] < len(sequence.values)]:
        ahead = forecast([take(filled[number], starts[number]) for number in pending])
        for number, forecasts in zip(pending, ahead, strict=True):
            last, start, values = lasts[number], starts[number], filled[number].values.copy()
            stop = starts[number] = find_stop(last, start, horizon, len(values))
            for column in np.flatnonzero((last > 0) & (last <= start)):
                values[start:stop, targets[column]] = forecasts[: stop - start, column]
            filled[number] = filled[number]._replace(values=values)
    return filled


def find_groups(lasts: NDArray[np.int_]) -> list[tuple[int, int]]:
    """Return the origins right before which targets are missing, in groups with the same last known values of these.

    Args:
        lasts: From `count_to_known`.

    Returns:
        The first and the last origin of each group.
    """
    origins = np.arange(1, len(lasts) + 1)[:, None]
    known = np.where((lasts < origins) & (lasts > 0), lasts, -1)
    firsts = np.flatnonzero(np.concatenate([[True], (known[1:] != known[:-1]).any(1)]))
    ends = np.append(firsts[1:], len(known))
    return [(int(first) + 1, int(end)) for first, end in zip(firsts, ends, strict=True) if (known[first] >= 0).any()]
