"""Lines of text files of the archives: a header whose last line is @data, and then one sequence per line."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.values import parse_number

__all__ = ["parse_cells", "read_rows", "read_text"]


def read_text(path: Path) -> str:
    """Read a text file in UTF-8."""
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text: save it in UTF-8") from None


def read_rows(path: Path, comments: str) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the lines of the header, and the place and the text of each sequence.

    Args:
        path: The file.
        comments: Characters that start a line to skip.
    """
    header, rows, started = [], [], False
    for number, line in enumerate(read_text(path).splitlines(), 1):
        line = line.strip()
        if not line or line[0] in comments:
            continue
        if started:
            rows.append((f"row {len(rows) + 1} (line {number})", line))
        elif line[0] != "@":
            raise ValueError(f"{path}, line {number}: no @data before the data: is its format {path.suffix}?")
        else:
            header.append(line)
            started = line.split()[0].lower() == "@data"
    if not rows:
        raise ValueError(f"{path} has no sequences: expected header lines with @, then @data, then data")
    return header, rows


def parse_cells(cells: Sequence[str], where: str) -> NDArray[np.float64]:
    """Return cells as numbers, NaN where a value is missing; at least one must be known.

    Args:
        cells: The cells.
        where: Their place, for errors.
    """
    try:
        values = np.array([parse_number(cell) for cell in cells])
    except ValueError:
        raise ValueError(f"{where} contains something that is not a number: correct it") from None
    if np.isnan(values).all():
        raise ValueError(f"{where} has no values: remove the line")
    if np.isinf(values).any():
        raise ValueError(f"{where} contains infinity: replace it; NaN or ? marks a missing value")
    return values
