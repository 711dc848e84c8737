"""Read the text files of the UCR archive: no header, one sequence per line, its class first."""

import math
import re
from pathlib import Path

import numpy as np

from cornn.estimators.series import ValidSeries
from cornn.estimators.values import parse_number
from cornn.fitting.readers.dataset import Dataset, Layout

__all__ = ["is_ucr", "read_ucr"]

SEPARATOR = re.compile(r" *[\t,] *| +")
"""One tab or comma, between which a cell may be empty, or spaces."""


def is_ucr(text: str) -> bool:
    """Return whether a text is in this format: its first line consists of at least three numbers."""
    cells = SEPARATOR.split(text.lstrip("\n").partition("\n")[0].strip())
    try:
        [parse_number(cell) for cell in cells]
    except ValueError:
        return False
    return len(cells) >= 3


def read_ucr(path: Path, text: str, layout: Layout) -> Dataset:
    """Read one sequence per line. Missing values at the end of a line end its sequence."""
    if layout.target or layout.id or layout.values:
        raise ValueError(
            f"{path} has no column names, so it is read like a file of the UCR archive, with the class first in "
            "each line: omit the names of columns, or add a first line with names"
        )
    sequences, target, places = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"row {len(sequences) + 1} (line {number})"
        label, *cells = SEPARATOR.split(line.rstrip().lstrip(" "))  # a tab at the start follows an empty class
        try:
            values, answer = np.array([parse_number(cell) for cell in cells]), _parse_label(label)
        except ValueError:
            raise ValueError(f"{path}, {place} contains something that is not a number: correct it") from None
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            raise ValueError(f"{path}, {place} has no values: remove the line")
        if np.isinf(values).any():
            raise ValueError(f"{path}, {place} contains infinity: replace it; NaN marks a missing value")
        sequences.append(ValidSeries(values[: known[-1] + 1, None]))
        target.append((answer,))
        places.append(place)
    ids = list(range(1, len(sequences) + 1))
    return Dataset(str(path), Layout(), ("value",), sequences, ids, "row", target, places)


def _parse_label(text: str) -> str | None:
    """Return a class label as a string, None if it is missing: 1.0000000e+00 is 1."""
    number = parse_number(text)
    return None if math.isnan(number) else str(int(number)) if number.is_integer() else text
