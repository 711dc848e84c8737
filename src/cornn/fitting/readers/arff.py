"""Read the `.arff` files of Weka and of the time-series archive, of one or several features."""

import csv
import re
from pathlib import Path

import numpy as np

from cornn.estimators.series import ValidSeries
from cornn.estimators.values import parse_number
from cornn.fitting.readers.dataset import Dataset, Layout, name_features
from cornn.fitting.readers.table import read_text

__all__ = ["read_arff"]

ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\"[^\"]*\"|\S+)\s+(.*)", re.IGNORECASE)


def read_arff(path: Path, layout: Layout) -> Dataset:
    """Read one sequence per line. The target is the attribute that the layout names, by default the last one."""
    names, started, relational = [], False, False
    sequences, target, places = [], [], []
    column: int | None = None
    for number, line in enumerate(read_text(path).splitlines(), 1):
        line = line.strip()
        if not line or line[0] == "%":
            continue
        if not started:
            word = line.split()[0].lower()
            if match := ATTRIBUTE.match(line):
                inside = relational
                relational = relational or match[2].strip().lower() == "relational"
                if not inside:
                    names.append(match[1].strip("'\""))
            elif word == "@end":
                relational = False
            elif word == "@data":
                started = True
                column = _find_target(path, names, layout)
            elif word[0] != "@":
                raise ValueError(f"{path}, line {number}: no @data before the data: is it an .arff file?")
            continue
        place = f"row {len(sequences) + 1} (line {number})"
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
        places.append(place)
        if sequences[-1].values.shape[1] != sequences[0].values.shape[1]:
            raise ValueError(f"{path}, {place} has another number of features than the first row")
    if not sequences:
        raise ValueError(f"{path} has no sequences: expected @attribute lines, then @data, then data")
    features = name_features(sequences[0].values.shape[1])
    ids = list(range(1, len(sequences) + 1))
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
    try:
        table = [[parse_number(cell) for cell in row] for row in rows]
    except ValueError:
        raise ValueError(f"{path}, {place} contains something that is not a number: correct it") from None
    if len({len(row) for row in table}) > 1:
        raise ValueError(f"{path}, {place}: its features have different numbers of steps")
    values = np.array(table).T
    known = np.flatnonzero(~np.isnan(values).all(1))
    if not len(known) or np.isinf(values).any():
        raise ValueError(f"{path}, {place} has {'infinite' if len(known) else 'no'} values: correct or remove the line")
    return values[: known[-1] + 1]
