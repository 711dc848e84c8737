"""Confidence intervals of means, and the rule by which a published result counts as reproduced."""

import math
import statistics
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from cornn.lab.recipes import Published

LEVEL = 0.95
MARGIN_POINTS = 0.5
"""Difference from the paper's mean, in points of accuracy, that still counts as reproduced."""
MARGIN_SHARE = 0.1
"""The same for errors, as a share of the published one."""
PAPER_RUNS = 10
"""Runs behind a mean in tab:distr_results."""

Verdict = Literal["reproduced", "differs", "undecided", "no mean published"]


class Interval(NamedTuple):
    """The two ends of an interval."""

    low: float
    high: float


def mean_interval(values: Sequence[float]) -> Interval | None:
    """Return the 95 % confidence interval of the mean by Student's t distribution; None for a single value."""
    if len(values) < 2:
        return None
    mean = statistics.fmean(values)
    half = _quantile(len(values) - 1) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean - half, mean + half)


def shown_interval(values: Sequence[float], better: str) -> Interval | None:
    """Return `mean_interval`, truncated to the values that the metric can take; only for display."""
    interval = mean_interval(values)
    if interval is None:
        return None
    highest = 100.0 if better == "higher" else math.inf  # accuracies are in percent, errors have no upper limit
    return Interval(max(interval.low, 0.0), min(interval.high, highest))


def describe(values: Sequence[float], better: str, number: Callable[[float], str]) -> str:
    """Return the mean and its `shown_interval` as text; `number` writes one number."""
    interval = shown_interval(values, better)
    ends = "" if interval is None else f" [{number(interval.low)}, {number(interval.high)}]"
    return number(statistics.fmean(values)) + ends


def difference(values: Sequence[float], mean: float, deviation: float | None, count: int) -> Interval | None:
    """Return the 95 % interval of our mean minus the mean of `count` other runs, by Welch's method.

    Without their deviation, their mean counts as exact. The interval is None if we have a single value.
    """
    if len(values) < 2:
        return None
    own_variance = statistics.variance(values) / len(values)
    other_variance = 0.0 if deviation is None else deviation**2 / count
    middle = statistics.fmean(values) - mean
    if own_variance + other_variance == 0.0:
        return Interval(middle, middle)
    share = other_variance**2 / (count - 1) if other_variance else 0.0
    freedom = (own_variance + other_variance) ** 2 / (own_variance**2 / (len(values) - 1) + share)
    half = _quantile(freedom) * math.sqrt(own_variance + other_variance)
    return Interval(middle - half, middle + half)


def difference_of_runs(values: Sequence[float], others: Sequence[float]) -> Interval | None:
    """Return the 95 % interval of the difference of the means of runs; None if one of them is of a single run."""
    if len(others) < 2:
        return None
    return difference(values, statistics.fmean(others), statistics.stdev(others), len(others))


def compare(values: Sequence[float], better: str, published: Published, failed: int = 0) -> Verdict:
    """Compare our results with the paper's.

    "reproduced": the 95 % interval of the difference of the means lies within half a point (within 10 % for errors).
    "differs": it lies outside. "undecided": neither, or we have a single run. Failed runs are not in the mean: with
    them, what would be reproduced is undecided.
    """
    accuracy = better == "higher"
    if accuracy and published.mean is None:
        return "no mean published"
    mean = published.value if published.mean is None else published.mean
    margin = MARGIN_POINTS if accuracy else MARGIN_SHARE * mean
    interval = difference(values, mean, published.deviation, PAPER_RUNS)
    if interval is None:
        return "undecided"
    if -margin <= interval.low and interval.high <= margin:
        return "undecided" if failed else "reproduced"
    return "differs" if interval.high < -margin or interval.low > margin else "undecided"


def _quantile(freedom: float) -> float:
    """Return the quantile of Student's t distribution for `LEVEL`."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + LEVEL) / 2))
