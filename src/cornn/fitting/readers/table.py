"""Tables with named columns, from CSV and Parquet. Every complaint names the row."""

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

__all__ = ["MISSING", "Table", "number", "read_csv", "read_parquet", "shortened"]

MISSING = {"", "na", "n/a", "nan", "null", "none", "?"}
"""What stands for a missing value, in any case."""
DELIMITERS = ",;\t"
UNNAMED = re.compile(r"Unnamed: \d+")
DECIMAL_COMMA = re.compile(r"\s*[-+]?\d+,\d+\s*")


@dataclass(frozen=True, eq=False)
class Table:
    source: str
    columns: dict[str, list]  # texts of a CSV, Python's values of a Parquet; None where a value is missing
    lines: list[int] | None  # of a CSV: where a row ends, counted from 1

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """Rows are counted from 1, without the header."""
        return f"row {row + 1}" + ("" if self.lines is None else f" (line {self.lines[row]})")

    def require(self, *names: str, option: str) -> None:
        for name in names:
            if name not in self.columns:
                raise ValueError(
                    f"{self.source} has no column {name!r}: there are {shortened(list(self.columns))}; {option} names "
                    "it"
                )

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of values, NaN where one is missing."""
        column = self.columns[name]
        try:
            # One conversion of the whole column, where nothing is missing or wrong.
            found = np.array(column, dtype=np.float64)
        except (TypeError, ValueError):
            found = np.array([self._number(name, row, value) for row, value in enumerate(column)])
        infinite = np.flatnonzero(np.isinf(found))
        if len(infinite):
            raise ValueError(
                f"{self.source}, {self.place(infinite[0])}, column {name!r} holds infinity: replace it, or leave the "
                "cell empty if the value is missing"
            )
        return found

    def times(self, name: str) -> NDArray[np.float64]:
        """A column of times: numbers as they are, dates in seconds."""
        found = []
        for row, value in enumerate(self.columns[name]):
            try:
                found.append(moment(value))
            except (TypeError, ValueError):
                raise ValueError(
                    f"{self.source}, {self.place(row)}, column {name!r}: {value!r} is no time: use numbers, or dates "
                    "like 2026-01-31 12:00:00"
                ) from None
            if not math.isfinite(found[-1]):
                raise ValueError(f"{self.source}, {self.place(row)}: the time in column {name!r} is missing")
        return np.array(found)

    def _number(self, name: str, row: int, value: Any) -> float:
        try:
            return number(value)
        except (TypeError, ValueError):
            pass
        if isinstance(value, str) and DECIMAL_COMMA.fullmatch(value):
            remedy = "write decimals with a point"
        elif _is_moment(value):
            remedy = f"if it is the time of a sample, say --time {name}; else leave it out with --ignore {name}"
        else:
            remedy = f"correct it, or leave the column out with --ignore {name}"
        shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else repr(value)
        raise ValueError(f"{self.source}, {self.place(row)}, column {name!r}: {shown} is no number: {remedy}")


def number(value: Any) -> float:
    """A cell's value; NaN where it is missing."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    return float(value)


def moment(value: Any) -> float:
    """A time as a number: dates in seconds since 1970, all else as it is; NaN where it is missing."""
    if isinstance(value, str):
        try:
            return number(value)
        except ValueError:
            value = datetime.fromisoformat(value.strip())
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    return number(value)


def _is_moment(value: Any) -> bool:
    try:
        moment(value)
    except (TypeError, ValueError):
        return False
    return True


def read_csv(path: Path) -> Table:
    """Columns separated by commas, semicolons or tabs, with their names in the first line."""
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
                            f"{path}, row {len(rows) + 1} (line {reader.line_num}) has {len(row)} cells, the header "
                            f"names {len(names)} columns: the file may be cut off; correct or remove the row"
                        )
                    rows.append(row)
                    lines.append(reader.line_num)
            except csv.Error as error:
                raise ValueError(
                    f"{path}, line {reader.line_num} cannot be read ({error}): the file may be cut off or damaged"
                ) from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8: save it as CSV in UTF-8") from None
    if names is None or not rows:
        raise ValueError(f"{path} has no rows: a header with the columns' names, then one row each, is expected")
    columns = [list(column) for column in zip(*rows, strict=True)]
    named = {}
    for position, (name, column) in enumerate(zip(names, columns, strict=True), 1):
        # pandas writes its index without a name, or as Unnamed: 0; read as values, it would tell the order of the rows.
        if _counts(column) and (not name or UNNAMED.fullmatch(name)):
            continue
        if not name:
            raise ValueError(f"{path}: column {position} has no name: name it, or remove it")
        named[name] = column
    if not named:
        raise ValueError(f"{path} has no column with a name: put a line with the columns' names first")
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
        raise ValueError(f"{path} is no whole Parquet file ({error}): write it anew") from None
    if not columns or found.num_rows == 0:
        raise ValueError(f"{path} has no rows: nothing can be learned from it")
    return Table(str(path), columns, None)


def _counts(column: list[str]) -> bool:
    """Whether it holds 0, 1, 2, … or 1, 2, 3, …"""
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
        raise ValueError(f"{path} starts with numbers: put a line with the columns' names first")
    if doubled is not None:
        raise ValueError(f"{path} has two columns named {doubled!r}: rename one")
    return names


def shortened(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:8])}, … {names[-1]} ({len(names)} in all)"
