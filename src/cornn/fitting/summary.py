"""What a file holds, in rows of (name, value), to be looked at before anything is learned from it."""

from collections.abc import Sequence

import numpy as np

from cornn.fitting.fit import Parts
from cornn.fitting.readers import Dataset

__all__ = ["summary"]

FORMS = {
    "wide": "one row a sequence",
    "long": "one row a sample",
    "series": "all rows are one series",
}
MOST = 12  # features or classes that are named one by one


def summary(data: Dataset, parts: Parts, task: str, named: Sequence[str] = ()) -> list[tuple[str, str]]:
    """named: the values that are to be forecast; none: all."""
    lengths = np.array([len(series.values) for series in data.sequences])
    form = FORMS.get(data.layout.form or "")
    rows = [
        ("file", data.source + (f", {form}" if form else "")),
        ("sequences", f"{len(data):,}" + _apart(parts)),
        ("steps", f"{lengths.min():,}" if lengths.min() == lengths.max() else _range(lengths)),
    ]
    times = [np.diff(series.times) for series in data.sequences if series.times is not None]
    if times:
        gaps = np.concatenate(times)
        if len(gaps):
            rows.append(
                ("time between samples", f"{gaps.min():.4g} to {gaps.max():.4g}, usually {np.median(gaps):.4g}")
            )
    together = np.concatenate([series.values for series in data.sequences])
    for name, column in list(zip(data.features, together.T, strict=True))[:MOST]:
        rows.append((f"feature {name}" if name != "value" else "values", _feature(column)))
    if len(data.features) > MOST:
        rows.append(("features", f"{len(data.features)} in all; {np.isnan(together).mean():.2%} of the values missing"))
    return rows + _target(data, task, named)


def _apart(parts: Parts) -> str:
    if parts.test is None:
        return ", all to learn from" + (f": {parts.why}" if parts.why else "")
    if parts.cuts is not None:
        return (
            f", the last {sum(len(s.values) for s in parts.test.sequences) - sum(parts.cuts):,} steps kept for the test"
        )
    return f", {len(parts.training):,} to learn from and {len(parts.test):,} for the test"


def _range(lengths: np.ndarray) -> str:
    return f"{lengths.min():,} to {lengths.max():,}, usually {int(np.median(lengths)):,}"


def _feature(column: np.ndarray) -> str:
    known = column[~np.isnan(column)]
    missing = f", {np.isnan(column).mean():.2%} missing" if len(known) < len(column) else ""
    if not len(known):
        return "no value at all: nothing can be learned from it"
    if known.min() == known.max():
        return f"always {known[0]:.4g}: nothing can be learned from it{missing}"
    with np.errstate(over="ignore"):
        mean, deviation = known.mean(), known.std()
    return f"{known.min():.4g} to {known.max():.4g}, mean {mean:.4g}, deviation {deviation:.4g}{missing}"


def _target(data: Dataset, task: str, named: Sequence[str]) -> list[tuple[str, str]]:
    name = ", ".join(data.layout.target) or "target"
    if task == "forecast":
        return [("to forecast", ", ".join(named or data.features))]
    if task == "regress":
        table = data.numbers().reshape(len(data), -1)
        return [(f"{name}, numbers", "; ".join(_feature(column) for column in table.T))]
    classes, counts = np.unique(data.labels(), return_counts=True)
    said = ", ".join(f"{own} {count:,}" for own, count in list(zip(classes, counts, strict=True))[:MOST])
    return [(f"{name}, {len(classes)} classes", said + (", …" if len(classes) > MOST else ""))]
