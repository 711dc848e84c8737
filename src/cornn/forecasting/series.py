"""Turn samples at any times, with gaps, into regular series."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "History",
    "check_length",
    "count_known",
    "count_missing",
    "describe_other_unit",
    "fill_gaps",
    "find_starts",
    "last_season",
    "regular_steps",
    "spread_out",
]

UNEVEN = 0.25  # of the median gap: distance from a whole number of steps from which a gap counts as uneven
UNEVEN_SHARE = 0.05  # of uneven gaps, from which samples are put on a grid by their times
FEW_STARTS = 10  # of a series with sparse values, below which forecasts of a backtest start after missing values too
UNLIKE = 500  # ratio of the median gaps of a series and of the training data from which their units must differ
FEW_GAPS = 3  # of a series, below which their median says little
MAX_STEPS = 1_000_000  # of the grid of a series, unless the series has a tenth as many samples


@dataclass(frozen=True)
class History:
    """One series and what is known about it.

    Attributes:
        values: The series, shape (time,); NaN where missing, but not at the first step.
        known: Covariates that are known in advance, shape (time, covariates).
        future: Those of the steps to forecast, shape (horizon, covariates), or None.
        past: Covariates that are known up to the last step only, shape (time, covariates).
    """

    values: NDArray[np.float64]
    known: NDArray[np.float64]
    past: NDArray[np.float64]
    future: NDArray[np.float64] | None = None

    def take(self, length: int) -> "History":
        """Return the first steps; the covariates known in advance of the later ones become those of the future."""
        future = self.known[length:]
        if self.future is not None:
            future = np.concatenate([future, self.future])
        return History(self.values[:length], self.known[:length], self.past[:length], future)


def count_known(values: NDArray[np.float64]) -> int:
    """Return the number of steps up to the last one with a known value; 0 if there is none.

    Args:
        values: The values, shape (time,) or (time, features).
    """
    known = ~np.isnan(values)
    steps = np.flatnonzero(known.any(1) if known.ndim > 1 else known)
    return int(steps[-1]) + 1 if len(steps) else 0


def count_missing(values: NDArray[np.float64]) -> NDArray[np.int_]:
    """Return how many values in a row are missing up to each step, shape (time,). The first value must be known."""
    steps = np.arange(len(values))
    return steps - np.maximum.accumulate(np.where(np.isnan(values), 0, steps))


def find_starts(values: NDArray[np.float64], horizon: int) -> NDArray[np.bool_]:
    """Return after which steps a forecast of a backtest starts, shape (time,).

    As in prediction, a forecast starts after a known value, and values that are missing right before its origin are
    steps that it looks ahead. There must be a known value within the horizon. If values are so sparse that this is
    hardly ever so, forecasts start after missing values too.

    Args:
        values: The series, shape (time,); NaN where missing.
        horizon: Steps to forecast.
    """
    known = ~np.isnan(values)
    count, steps = np.cumsum(known), np.arange(len(values))
    later = count[np.minimum(steps + horizon, len(values) - 1)] > count
    starts = known & later
    return later if starts.sum() < min(FEW_STARTS, later.sum() / 4) else starts


def last_season(horizon: int, period: int) -> NDArray[np.int_]:
    """Return the step of the last season that each step ahead is a repetition of, from 1 - period to 0, the last."""
    return -(-np.arange(1, horizon + 1) % period)


def regular_steps(gaps: NDArray[np.float64], unit: float) -> NDArray[np.int_]:
    """Return the step of every sample on a regular grid.

    Gaps that are nearly whole numbers of steps, such as months of 28 to 31 days, are rounded one by one. If more than
    a few are not, or are much shorter than a step, the times are rounded, so that their roundings do not add up;
    several samples may then share a step.

    Args:
        gaps: Times since the previous sample, shape (time,); the first is ignored.
        unit: Time of one step.

    Returns:
        Steps, shape (time,), the first 0.
    """
    steps = np.concatenate([[0.0], gaps[1:] / unit])
    if problem := describe_other_unit(gaps[1:], unit):
        raise ValueError(problem)
    check_length(float(steps.sum()), len(gaps), unit)
    rounded = np.round(steps)
    uneven = (np.abs(steps - rounded) > UNEVEN * np.maximum(rounded, 1)) | (rounded == 0)
    if len(gaps) > 1 and uneven[1:].mean() > UNEVEN_SHARE:
        # Count back from the last sample, from which forecasts start.
        back = np.concatenate([np.cumsum(steps[:0:-1])[::-1], [0.0]])
        positions = -np.round(back)
        return (positions - positions[0]).astype(int)
    return np.cumsum(np.concatenate([[0.0], np.maximum(rounded[1:], 1.0)])).astype(int)


def describe_other_unit(gaps: NDArray[np.float64], unit: float) -> str:
    """Describe the problem if times seem to be in another unit than the training data.

    Args:
        gaps: Times between samples; if there are only a few, nothing is checked.
        unit: The median time between samples in the training data.

    Returns:
        The problem; an empty text if there is none.
    """
    middle = float(np.median(gaps)) if len(gaps) >= FEW_GAPS else unit
    if 1 / UNLIKE < middle / unit < UNLIKE:
        return ""
    return (
        f"the median time between samples is {middle:g}, and that of the training data {unit:g}: give the times in the "
        "same unit (dates count in seconds); fit series that are sampled so differently by themselves"
    )


def check_length(steps: float, samples: int, unit: float) -> None:
    """Check that a series does not consist of gaps: missing steps take time and memory like others.

    Args:
        steps: Number of steps of its grid.
        samples: Number of its samples.
        unit: Time of one step.
    """
    if steps > max(MAX_STEPS, 10 * samples):
        raise ValueError(
            f"{samples:,} samples span {steps:,.0f} steps of {unit:g}, the median time between samples in training: "
            "check the times, or pass the parts before and after a long gap as separate series"
        )


def spread_out(values: NDArray[np.float64], steps: NDArray[np.int_]) -> NDArray[np.float64]:
    """Put samples (time, features) on their steps: the mean of those that share one, NaN where there is none."""
    length = int(steps[-1]) + 1
    if length == len(values):
        return values
    known = ~np.isnan(values)
    total, count = np.zeros((length, values.shape[1])), np.zeros((length, values.shape[1]))
    np.add.at(total, steps, np.where(known, values, 0.0))
    np.add.at(count, steps, known)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def fill_gaps(values: NDArray[np.float64], period: int = 1) -> NDArray[np.float64]:
    """Fill missing values from the past only.

    A missing value becomes the value one season earlier plus the change over one season of the last known value.
    Without a season it becomes the last known value. The first value must be known.

    Args:
        values: The series, shape (time,).
        period: Steps per season; 1 means no season.

    Returns:
        The series without missing values.
    """
    missing = np.flatnonzero(np.isnan(values))
    if not len(missing):
        return values
    filled = values.copy()
    for step in missing.tolist():
        last = filled[step - 1]
        if period > 1 and step > period:
            last = filled[step - period] + last - filled[step - 1 - period]
        filled[step] = last
    return filled
