"""Summarise a data set as rows of (name, value)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cornn._counts import format_count
from cornn.estimators.preparation import mean_and_scale
from cornn.estimators.times import MONTH
from cornn.fitting.fit import Splits
from cornn.fitting.readers import Dataset
from cornn.fitting.readers.calendar import Calendar

__all__ = ["summarise"]

FORMS = {
    "wide": "one row per sequence",
    "long": "one row per sample",
    "series": "all rows form one series",
}
UNITS = (("month", MONTH), ("day", 86400.0), ("hour", 3600.0), ("minute", 60.0), ("second", 1.0))
MAX_LISTED = 12  # maximum number of features or classes to list


def summarise(
    data: Dataset, splits: Splits, task: str, named: Sequence[str] = (), horizon: int = 1
) -> list[tuple[str, str]]:
    """Summarise a data set.

    Args:
        data: The data set.
        splits: Its training and test splits.
        task: "classify", "regress" or "forecast".
        named: Names of the values to forecast; empty means all.
        horizon: Number of steps to forecast.

    Returns:
        Rows of (name, value).
    """
    lengths = np.array([len(series.values) for series in data.sequences])
    # An array may have several series.
    form = None if data.layout.form == "series" and len(data) > 1 else FORMS.get(data.layout.form or "")
    rows = [
        ("file", data.source + (f", {form}" if form else "")),
        ("sequences", f"{len(data):,}" + _describe_split(splits)),
        (
            "steps",
            f"{lengths.min():,}"
            if lengths.min() == lengths.max()
            else f"{lengths.min():,} to {lengths.max():,}, median {int(np.median(lengths)):,}",
        ),
    ]
    times = [np.diff(series.times) for series in data.sequences if series.times is not None]
    if times:
        gaps = np.concatenate(times)
        if len(gaps):
            rows.append(("time between samples", _describe_gaps(gaps, data.calendar)))
    values = np.concatenate([series.values for series in data.sequences])
    for name, column in list(zip(data.features, values.T, strict=True))[:MAX_LISTED]:
        rows.append((f"values of {name}" if name != "value" else "values", _describe_feature(column)))
    if len(data.features) > MAX_LISTED:
        rows.append(("features", f"{len(data.features)} in total; {np.isnan(values).mean():.2%} of the values missing"))
    return rows + _describe_target(data, task, named, horizon)


def _describe_gaps(gaps: NDArray[np.float64], calendar: Calendar | None) -> str:
    """Describe times between samples, those of dates in the largest unit that the median contains."""
    middle, unit, size = float(np.median(gaps)), "", 1.0
    if calendar is not None:
        units = UNITS if calendar.monthly else UNITS[1:]
        unit, size = next((pair for pair in units if middle >= pair[1] * (1 - 1e-9)), UNITS[-1])
    low, high, median = (f"{gap / size:.4g}" for gap in (gaps.min(), gaps.max(), middle))
    if low != high:
        return f"{low} to {high} {unit}s, median {median}" if unit else f"{low} to {high}, median {median}"
    return f"{median} {unit}{'' if median == '1' else 's'}" if unit else median


def _describe_split(splits: Splits) -> str:
    if splits.test is None:
        return ", all for training" + (f", {splits.why}" if splits.why else "")
    if splits.cuts is not None:
        counts = [len(series.values) - cut for series, cut in zip(splits.test.sequences, splits.cuts, strict=True)]
        low, high = min(counts), max(counts)
        steps = format_count(high, "step") if low == high else f"{low:,} to {high:,} steps"
        return f", the last {steps}{' of each' if len(counts) > 1 else ''} for the test"
    return f", {len(splits.training):,} for training and {len(splits.test):,} for the test"


def _describe_feature(column: np.ndarray) -> str:
    known = column[~np.isnan(column)]
    missing = f", {np.isnan(column).mean():.2%} missing" if len(known) < len(column) else ""
    if not len(known):
        return "no values, not informative"
    if known.min() == known.max():
        return f"constant {known[0]:.4g}, not informative{missing}"
    (mean,), (deviation,) = mean_and_scale(known[:, None])
    return f"{known.min():.4g} to {known.max():.4g}, mean {mean:.4g}, standard deviation {deviation:.4g}{missing}"


def _describe_target(data: Dataset, task: str, named: Sequence[str], horizon: int) -> list[tuple[str, str]]:
    name = ", ".join(data.layout.target) or "target"
    if task == "forecast":
        return [("forecast", f"{', '.join(named or data.features)}, {format_count(horizon, 'step')} ahead")]
    if task == "regress":
        table = data.numbers().reshape(len(data), -1)
        return [(f"{name}, numbers", "; ".join(_describe_feature(column) for column in table.T))]
    classes, counts = np.unique(data.labels(), return_counts=True)
    number = format_count(len(classes), "class", "classes")
    listed = ", ".join(f"{label} {count:,}" for label, count in list(zip(classes, counts, strict=True))[:MAX_LISTED])
    return [(f"{name}, {number}", listed + (", …" if len(classes) > MAX_LISTED else ""))]
