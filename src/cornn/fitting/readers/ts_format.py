"""Read the `.ts` files of the time-series archive (timeseriesclassification.com)."""

import math
import re
from pathlib import Path

import numpy as np

from cornn.estimators.series import ValidSeries
from cornn.estimators.times import compute_gaps
from cornn.estimators.values import parse_number
from cornn.fitting.readers.dataset import Dataset, Layout, name_features
from cornn.fitting.readers.rows import read_rows
from cornn.fitting.readers.table import parse_times

__all__ = ["read_ts"]

OUTSIDE = re.compile(r":(?![^()]*\))")
"""A colon outside brackets; times within brackets may contain colons."""
SAMPLE = re.compile(r"\(([^(),]*),([^(),]*)\)")


def read_ts(path: Path) -> Dataset:
    """Read one sequence per line: features are separated by colons, values by commas, the target comes last."""
    lines, rows = read_rows(path, "#%")
    header = {word.lower(): words for word, *words in map(str.split, lines)}
    sequences, target = [], []
    for place, line in rows:
        values, label = _parse_sequence(path, place, line, header)
        if sequences and values.values.shape[1] != sequences[0].values.shape[1]:
            raise ValueError(
                f"{path}, {place} has {values.values.shape[1]} features, but the first row has "
                f"{sequences[0].values.shape[1]}: the file may be truncated"
            )
        sequences.append(values)
        target.append(label)
    features = name_features(sequences[0].values.shape[1])
    ids, places = list(range(1, len(rows) + 1)), [place for place, _ in rows]
    return Dataset(
        str(path), Layout(), features, sequences, ids, "row", target if _has_labels(header) else None, places
    )


def _has_labels(header: dict[str, list[str]]) -> bool:
    return any(header.get(name, ["false"])[:1] in (["true"], ["True"]) for name in ("@classlabel", "@targetlabel"))


def _parse_sequence(path: Path, place: str, line: str, header: dict[str, list[str]]) -> tuple[ValidSeries, tuple]:
    parts = OUTSIDE.split(line)
    label: tuple = ()
    if _has_labels(header):
        label = (parts.pop().strip() or None,)
        known = header.get("@classlabel", [])[1:]
        if known and label[0] not in known:
            raise ValueError(
                f"{path}, {place} ends with {str(label[0])[:40]!r}, which @classLabel does not list: the line may be "
                "truncated"
            )
    dimensions = (header.get("@dimensions") or header.get("@dimension") or [str(len(parts))])[0]
    if not parts or str(len(parts)) != dimensions:
        raise ValueError(
            f"{path}, {place} has {len(parts)} features, but @dimensions is {dimensions}: the line may be truncated"
        )
    features = [_parse_feature(path, place, part, stamped="(" in part) for part in parts]
    lengths = {len(values) for values, _ in features}
    if len(lengths) > 1:
        raise ValueError(
            f"{path}, {place}: its features have {' and '.join(map(str, sorted(lengths)))} steps: pad them"
        )
    if 0 in lengths or all(math.isnan(value) for values, _ in features for value in values):
        raise ValueError(f"{path}, {place} has no values: remove the line")
    if any(times != features[0][1] for _, times in features):
        raise ValueError(f"{path}, {place}: its features have different times: use one time per step")
    steps = (header.get("@serieslength") or [""])[0]
    if steps.isdigit() and lengths != {int(steps)}:
        raise ValueError(
            f"{path}, {place} has {lengths.pop()} steps, but @seriesLength is {steps}: the line may be truncated"
        )
    times = features[0][1]
    if times:
        compute_gaps(times, f"{path}, {place}")
    return ValidSeries(np.array([values for values, _ in features]).T, np.array(times) if times else None), label


def _parse_feature(path: Path, place: str, part: str, stamped: bool) -> tuple[list[float], list[float]]:
    """Return values, and times if there are any."""
    cells = SAMPLE.findall(part) if stamped else [("", cell) for cell in part.split(",")]
    if stamped and re.sub(r"[\s,]", "", SAMPLE.sub("", part)):
        raise ValueError(f"{path}, {place}: a bracket is not closed: the line may be truncated")
    if not part.strip():
        return [], []
    values = []
    for step, (_, cell) in enumerate(cells):
        try:
            values.append(parse_number(cell))
        except ValueError:
            raise ValueError(f"{path}, {place}, step {step + 1}: {cell[:40]!r} is not a number: correct it") from None
        if math.isinf(values[-1]):
            raise ValueError(f"{path}, {place}, step {step + 1} contains infinity: replace it; ? marks a missing value")
    times = [time for time, _ in cells] if stamped else []
    return values, parse_times(times, lambda step: f"{path}, {place}, step {step + 1}")
