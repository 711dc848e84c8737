"""Read tables with named columns from CSV and Parquet. Errors name the row."""

import csv
import math
import re
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._extras import missing_extra

__all__ = ["MISSING", "Table", "parse_number", "read_csv", "read_parquet", "shorten"]

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
"""Spellings of a missing value, in lower case."""
DELIMITERS = ",;\t"
UNNAMED = re.compile(r"Unnamed: \d+")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")


@dataclass(frozen=True, eq=False)
class Table:
    """A table with named columns."""

    source: str
    columns: dict[str, list]  # strings for CSV, Python values for Parquet; None if a value is missing
    lines: list[int] | None  # CSV: last line of each row, counted from 1

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """Describe a row; rows are counted from 1, without the header."""
        return f"row {row + 1}" + ("" if self.lines is None else f" (line {self.lines[row]})")

    def require(self, *names: str, option: str) -> None:
        for name in names:
            if name not in self.columns:
                raise ValueError(
                    f"{self.source} has no column {name!r}: the columns are {shorten(list(self.columns))}; choose one "
                    f"with {option}"
                )

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers, NaN where a value is missing."""
        column = self.columns[name]
        try:
            # Fast path: no value is missing or wrong.
            found = np.array(column, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.array([self._number(name, row, value) for row, value in enumerate(column)])
        infinite = np.flatnonzero(np.isinf(found))
        if len(infinite):
            raise ValueError(
                f"{self.source}, {self.place(infinite[0])}, column {name!r} contains infinity: replace it, or leave "
                "the cell empty if the value is missing"
            )
        return found

    def times(self, name: str) -> NDArray[np.float64]:
        """Return a column as times: numbers unchanged, dates in seconds."""
        found = []
        for row, value in enumerate(self.columns[name]):
            try:
                found.append(parse_time(value))
            except (TypeError, ValueError):
                raise ValueError(
                    f"{self.source}, {self.place(row)}, column {name!r}: {value!r} is not a time: use numbers, or "
                    "dates like 2026-01-31 12:00:00"
                ) from None
            if not math.isfinite(found[-1]):
                raise ValueError(
                    f"{self.source}, {self.place(row)}: the time in column {name!r} is missing: fill it in"
                )
        return np.array(found)

    def _number(self, name: str, row: int, value: Any) -> float:
        try:
            return parse_number(value)
        except (TypeError, ValueError):
            pass
        if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value):
            remedy = "write decimals with a point"
        elif _is_time(value):
            remedy = f"if it is the time of a sample, use --time {name}; else omit it with --ignore {name}"
        else:
            remedy = f"correct it, or omit the column with --ignore {name}"
        shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else repr(value)
        raise ValueError(f"{self.source}, {self.place(row)}, column {name!r}: {shown} is not a number: {remedy}")


def parse_number(value: Any) -> float:
    """Return the value of a cell; NaN if it is missing."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    return float(value)


def parse_time(value: Any) -> float:
    """Return a time as a number: dates in seconds since 1970, numbers unchanged; NaN if it is missing."""
    if isinstance(value, str):
        try:
            return parse_number(value)
        except ValueError:
            value = datetime.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return parse_number(value)


def _is_time(value: Any) -> bool:
    try:
        parse_time(value)
    except (TypeError, ValueError):
        return False
    return True


def read_csv(path: Path) -> Table:
    """Read columns separated by commas, semicolons or tabs, with their names in the first line."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            first = file.readline()
            file.seek(0)
            delimiter = max(DELIMITERS, key=first.count)
            reader = csv.reader(file, delimiter=delimiter, strict=True)
            names, rows, lines = None, [], []
            try:
                for row in reader:
                    if not row:
                        continue
                    if names is None:
                        names = _named(path, row)
                        continue
                    if len(row) != len(names):
                        raise ValueError(
                            f"{path}, row {len(rows) + 1} (line {reader.line_num}) has {len(row)} cells, but "
                            f"the header has {len(names)}: the file may be truncated; correct or remove the row"
                        )
                    rows.append(row)
                    lines.append(reader.line_num)
            except csv.Error as error:
                raise ValueError(
                    f"{path}, line {reader.line_num} cannot be read ({error}): the file may be truncated or damaged"
                ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not UTF-8 text: save it as CSV in UTF-8") from None
    if names is None or not rows:
        raise ValueError(f"{path} has no rows: expected a header with column names, then rows")
    columns = [list(column) for column in zip(*rows, strict=True)]
    named = {}
    for position, (name, column) in enumerate(zip(names, columns, strict=True), 1):
        # pandas writes its index without a name, or as Unnamed: 0; as a feature it would leak the order of the rows.
        if _counts(column) and (not name or UNNAMED.fullmatch(name)):
            continue
        if not name:
            raise ValueError(f"{path}: column {position} has no name: name it, or remove it")
        named[name] = column
    if not named:
        raise ValueError(f"{path} has no named column: add a first line with column names")
    return Table(str(path), named, lines)


def read_parquet(path: Path) -> Table:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise missing_extra("parquet", "Parquet files need pyarrow", "or save the table as CSV") from None
    try:
        found = pyarrow.parquet.read_table(path)
        # A table of pandas keeps its index as a column of this name.
        names = [name for name in found.column_names if not name.startswith("__index_level_")]
        columns = {name: found.column(name).to_pylist() for name in names}
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, KeyError) as error:
        raise ValueError(f"{path} is not a valid Parquet file ({error}): save it again") from None
    if not columns or found.num_rows == 0:
        raise ValueError(f"{path} has no rows: provide at least one")
    return Table(str(path), columns, None)


def _counts(column: list[str]) -> bool:
    """Return whether a column is 0, 1, 2, … or 1, 2, 3, …"""
    return any([str(row) for row in range(start, start + len(column))] == column for start in (0, 1))


def _named(path: Path, row: list[str]) -> list[str]:
    names = [name.strip() for name in row]
    doubled = next((name for number, name in enumerate(names) if name and name in names[:number]), None)
    try:
        [float(name) for name in names]
        headless = len(names) > 1 and any("." in name for name in names)
    except ValueError:
        headless = False
    if headless:
        raise ValueError(f"{path} starts with numbers: add a first line with column names")
    if doubled is not None:
        raise ValueError(f"{path} has two columns named {doubled!r}: rename one")
    return names


def shorten(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:8])}, … {names[-1]} ({len(names)} in total)"
