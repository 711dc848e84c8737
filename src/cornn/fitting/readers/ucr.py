"""Read the text files of the UCR archive: no header, one sequence per line, its class first."""

import math
import re
from pathlib import Path

from cornn.estimators.series import ValidSeries
from cornn.estimators.values import parse_number
from cornn.fitting.readers.dataset import Dataset, Layout
from cornn.fitting.readers.decimals import MixedDecimals, read_decimals
from cornn.fitting.readers.rows import parse_cells
from cornn.forecasting.series import count_known

__all__ = ["is_ucr", "read_ucr"]

TABS = re.compile(r" *\t *| +")
COMMAS = re.compile(r" *, *| +")
"""One tab, or one comma, between which a cell may be empty, or spaces. Next to tabs, commas are decimal commas."""


def is_ucr(text: str) -> bool:
    """Return whether a text is in this format: its first line consists of at least three numbers."""
    cells = _split(text.lstrip("\n").partition("\n")[0].strip())
    try:
        [parse_number(cell) for cell in _read_decimals(cells)]
    except MixedDecimals:
        pass  # `read_ucr` describes it
    except ValueError:
        return False
    return len(cells) >= 3


def _split(line: str) -> list[str]:
    return (TABS if "\t" in line else COMMAS).split(line)


def _read_decimals(cells: list[str]) -> list[str]:
    """Return cells with decimal points. A class may be written in another way than the values."""
    return [*read_decimals(cells[:1]), *read_decimals(cells[1:])]


def read_ucr(path: Path, text: str, layout: Layout) -> Dataset:
    """Read one sequence per line. Missing values at the end of a line end its sequence."""
    if layout.target or layout.id or layout.values:
        raise ValueError(
            f"{path} has no column names, so it is read like a file of the UCR archive, with the class first in "
            "each line: omit the names of columns, or add a first line with names"
        )
    sequences, target, places, commas, points = [], [], [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        place = f"row {len(sequences) + 1} (line {number})"
        label, *cells = _split(line.rstrip().lstrip(" "))  # a tab at the start follows an empty class
        commas += [place] if any("," in cell for cell in cells) else []
        points += [place] if any("." in cell for cell in cells) else []
        if commas and points:
            raise ValueError(
                f"{path} has decimal commas in {commas[0]}, and decimal points in {points[0]}: write all decimals in "
                "the same way"
            )
        try:
            label, *cells = _read_decimals([label, *cells])
            answer = _parse_label(label)
        except ValueError:
            raise ValueError(f"{path}, {place} contains something that is not a number: correct it") from None
        values = parse_cells(cells, f"{path}, {place}")
        sequences.append(ValidSeries(values[: count_known(values), None]))
        target.append((answer,))
        places.append(place)
    ids = list(range(1, len(sequences) + 1))
    return Dataset(str(path), Layout(), ("value",), sequences, ids, "row", target, places)


def _parse_label(text: str) -> str | None:
    """Return a class label as a string, None if it is missing: 1.0000000e+00 is 1."""
    number = parse_number(text)
    return None if math.isnan(number) else str(int(number)) if number.is_integer() else text
