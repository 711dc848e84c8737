"""Decimal commas, which spreadsheets write in many countries, between cells that semicolons or tabs separate."""

import re
from collections.abc import Sequence

from cornn.estimators.values import MISSING, parse_number

__all__ = ["BELOW_THOUSAND", "MixedDecimals", "find_thousands", "has_decimal_comma", "read_decimals"]

DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+([eE][-+]?\d+)?\s*")
GROUPED = re.compile(r"\s*[-+]?(0|[1-9]\d{0,2}([,.]\d{3})?)\s*")
"""A whole number that has a mark of thousands from 1000 on."""
BELOW_THOUSAND = re.compile(r"\s*[-+]?[1-9]\d{0,2}\s*")


class MixedDecimals(ValueError):
    """An error of cells of which some have a decimal comma, and others a decimal point.

    Attributes:
        comma: Number of the first cell with a decimal comma.
        point: Number of the first cell with a decimal point.
    """

    def __init__(self, cells: Sequence[str], comma: int, point: int) -> None:
        self.comma, self.point = comma, point
        super().__init__(
            f"{cells[comma].strip()!r} has a decimal comma, but {cells[point].strip()!r} a decimal point: write all "
            "decimals in the same way"
        )


def has_decimal_comma(cell: str) -> bool:
    """Return whether a cell is a number with a decimal comma."""
    return DECIMAL_COMMA.fullmatch(cell) is not None


def read_decimals(cells: Sequence[str]) -> Sequence[str]:
    """Return cells with decimal points in place of decimal commas; unchanged unless all are numbers or missing.

    Raises:
        MixedDecimals: If some cells have a decimal comma, and others a decimal point.
    """
    if not any("," in cell for cell in cells):
        return cells
    commas = [has_decimal_comma(cell) for cell in cells]
    rest = [row for row, comma in enumerate(commas) if not comma]
    try:
        for row in rest:
            parse_number(cells[row])
    except ValueError:
        return cells
    point = next((row for row in rest if "." in cells[row]), None)
    if point is not None and any(commas):
        raise MixedDecimals(cells, commas.index(True), point)
    return [cell.replace(",", ".") for cell in cells]


def find_thousands(cells: Sequence[str]) -> int | None:
    """Return the first cell with a comma or point if all may mark thousands, as in 1,234 and 987; otherwise None."""
    if not all(GROUPED.fullmatch(cell) or cell.strip().lower() in MISSING for cell in cells):
        return None
    return next((row for row, cell in enumerate(cells) if "," in cell or "." in cell), None)
