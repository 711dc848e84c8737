"""Read the `.arff` files of Weka and of the time-series archive, of one or several features."""

import csv
import re
from pathlib import Path

import numpy as np

from cornn.estimators.series import ValidSeries
from cornn.fitting.readers.dataset import Dataset, Layout, name_features
from cornn.fitting.readers.rows import parse_cells, read_rows
from cornn.forecasting.series import count_known

__all__ = ["read_arff"]

ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.*)", re.IGNORECASE)


def read_arff(path: Path, layout: Layout) -> Dataset:
    """Read one sequence per line. The target is the attribute that the layout names, by default the last one."""
    header, rows = read_rows(path, "%")
    names, relational = [], False
    for line in header:
        if match := ATTRIBUTE.match(line):
            if not relational:
                names.append(match[1].strip("'\""))
            relational = relational or match[2].strip().lower() == "relational"
        elif line.split()[0].lower() == "@end":
            relational = False
    column = _find_target(path, names, layout)
    sequences, target = [], []
    for place, line in rows:
        try:
            cells = next(csv.reader([line], quotechar="'" if "'" in line else '"', skipinitialspace=True))
        except csv.Error as error:
            raise ValueError(f"{path}, {place} cannot be read ({error}): the line may be truncated") from None
        if len(cells) != len(names):
            raise ValueError(
                f"{path}, {place} has {len(cells)} cells, but there are {len(names)} attributes: the line may be "
                "truncated"
            )
        label = cells.pop(column) if column is not None else ""
        sequences.append(ValidSeries(_parse_values(path, place, cells)))
        target.append((label.strip() if label.strip() != "?" else None,))
        if sequences[-1].values.shape[1] != sequences[0].values.shape[1]:
            raise ValueError(f"{path}, {place} has another number of features than the first row")
    features = name_features(sequences[0].values.shape[1])
    ids, places = list(range(1, len(rows) + 1)), [place for place, _ in rows]
    return Dataset(str(path), layout, features, sequences, ids, "row", target if column is not None else None, places)


def _find_target(path: Path, names: list[str], layout: Layout) -> int | None:
    if not names:
        raise ValueError(f"{path} has no @attribute lines: is it an .arff file?")
    if not layout.target:
        return len(names) - 1 if len(names) > 1 else None
    if layout.target[0] not in names:
        raise ValueError(f"{path} has no attribute {layout.target[0]!r}: the last one is {names[-1]!r}")
    return names.index(layout.target[0])


def _parse_values(path: Path, place: str, cells: list[str]) -> np.ndarray:
    """Return the values (time, features): one cell per step, or one cell with one line per feature."""
    rows = [line.split(",") for line in cells[0].replace("\\n", "\n").split("\n")] if len(cells) == 1 else [cells]
    values = parse_cells([cell for row in rows for cell in row], f"{path}, {place}")
    if len({len(row) for row in rows}) > 1:
        raise ValueError(f"{path}, {place}: its features have different numbers of steps")
    values = values.reshape(len(rows), -1).T
    return values[: count_known(values)]
