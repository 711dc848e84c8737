"""Read tables with named columns from CSV and Parquet. Errors name the row."""

import csv
import io
import math
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._arguments import Argument, ArgumentError
from cornn._extras import missing_extra
from cornn.estimators.times import (
    add_zones,
    check_not_months,
    is_date,
    parse_compact_dates,
    parse_date,
    parse_dates,
)
from cornn.estimators.values import parse_number
from cornn.fitting.readers.calendar import Calendar, find_calendar
from cornn.fitting.readers.decimals import (
    BELOW_THOUSAND,
    MixedDecimals,
    find_thousands,
    has_decimal_comma,
    read_decimals,
)
from cornn.fitting.readers.rows import read_text

__all__ = [
    "FITTED_WITH",
    "INDEX",
    "Table",
    "parse_csv",
    "parse_times",
    "read_csv",
    "read_parquet",
    "shorten",
]

DELIMITERS = ",;\t"
DELIMITER_LINE = re.compile(r"sep=(.)\s*(?=\n)", re.IGNORECASE)
"""A first line that tells Excel the delimiter."""
HEADER = re.compile(r'(?:"[^"]*"|[^"\n])*')
"""The first line, whose quoted names may contain delimiters and line breaks."""
INDEX = "date of the row"
"""Name given to an unnamed column of dates, which pandas writes for its index."""
UNNAMED = re.compile(r"Unnamed: \d+")
BOOLEANS = {"false": 0.0, "true": 1.0}
DATE = re.compile(r"\d{1,4}([-./])\d{1,2}\1\d{2,4}(\D.*)?")
"""A date, in a format that may not be supported."""
FITTED_WITH = "a model needs the columns that it was fitted with"
"""Advice of errors in predictions."""


@dataclass(frozen=True, eq=False)
class Table:
    """A table with named columns."""

    source: str
    columns: dict[str, list]  # strings for CSV, Python values for Parquet; None if a value is missing
    lines: list[int] | None  # CSV: last line of each row, counted from 1
    fitting: bool = True  # whether errors may advise arguments of a fit, which predictions do not have
    decimal_commas: bool = False  # whether numbers may have decimal commas

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def place(self, row: int) -> str:
        """Describe a row; rows are counted from 1, without the header."""
        return f"row {row + 1}" + ("" if self.lines is None else f" (line {self.lines[row]})")

    def require(self, *names: str, argument: str) -> None:
        """Raise an error for a column that is not there; `argument` names columns of this kind."""
        for name in names:
            if name not in self.columns:
                advice = ("choose one with ", Argument(argument)) if self.fitting else (FITTED_WITH,)
                columns = shorten(list(self.columns))
                if len(self.columns) == 1:
                    columns += ", if cells are separated by commas, semicolons or tabs"
                raise ArgumentError(f"{self.source} has no column {name!r}: the columns are {columns}; ", *advice)

    def cells(self, name: str) -> list:
        """Return a column with decimal points in place of decimal commas; raise an error if it has both."""
        column = self.columns[name]
        if not self.decimal_commas:
            return column
        try:
            return list(read_decimals(column))
        except MixedDecimals as error:
            where = f"{self.source}, {self.place(error.comma)} and {self.place(error.point)}, column {name!r}"
            raise ValueError(f"{where}: {error}") from None

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as numbers, NaN where a value is missing."""
        column = self.cells(name)
        try:
            # Fast path: no value is missing or wrong.
            numbers = np.array(column, dtype=np.float64)
        except (TypeError, ValueError):
            numbers = self._read_numbers(name, column)
        infinite = np.flatnonzero(np.isinf(numbers))
        if len(infinite):
            raise ValueError(
                f"{self.source}, {self.place(infinite[0])}, column {name!r} contains infinity: replace it, or leave "
                "the cell empty if the value is missing"
            )
        return numbers

    def times(self, name: str) -> tuple[NDArray[np.float64], Calendar | None]:
        """Return a column as times, and the calendar of dates.

        Numbers are unchanged, dates are in seconds, and months and quarters are evenly spaced.
        """
        numbers, dates, cells = [], [], self.cells(name)
        for row, value in enumerate(cells):
            try:
                numbers.append(parse_number(value))
            except (TypeError, ValueError):
                try:
                    dates.append(parse_date(value))
                except (TypeError, ValueError):
                    raise ValueError(
                        f"{self.source}, {self.place(row)}, column {name!r}: {str(value)[:60]!r} is not a time: use "
                        "numbers, or dates like 2026-01-31 12:00:00"
                    ) from None
            else:
                if not math.isfinite(numbers[-1]):
                    raise ValueError(
                        f"{self.source}, {self.place(row)}: the time in column {name!r} is missing: fill it in"
                    )
        if numbers and dates:
            raise ValueError(f"{self.source}, column {name!r} contains both numbers and dates: use one of them")
        if dates:
            dates = add_zones(dates, cells, lambda row: f"{self.source}, {self.place(row)}, column {name!r}")
            return parse_dates(dates), find_calendar(cells, dates)
        check_not_months(np.array(numbers), f"{self.source}, column {name!r}")
        compact = parse_compact_dates(np.array(numbers))
        return (np.array(numbers), None) if compact is None else (parse_dates(compact), find_calendar(None, compact))

    def check_marks(self, groups: Iterable[Sequence[str]]) -> None:
        """Check that commas and points in columns of numbers are decimal marks, not marks of thousands.

        Args:
            groups: Names of the columns of numbers; those of one group are written in the same way.
        """
        if not self.decimal_commas:
            return
        marks: dict[str, str] = {}  # comma or point -> a column with it
        ambiguous, warning = False, ""
        for group in groups:
            cells = [cell for name in group for cell in self.columns[name]]
            for mark in ",.":
                position = next((position for position, cell in enumerate(cells) if mark in cell), None)
                if position is not None:
                    marks.setdefault(mark, group[position // len(self)])
            position = find_thousands(cells)
            if position is not None:
                ambiguous = True
                if any(map(BELOW_THOUSAND.fullmatch, cells)):
                    where = f"{self.place(position % len(self))}, column {group[position // len(self)]!r}"
                    warning = f"{self.source}, {where}: {cells[position]!r} is read as a number below 1000"
        if ambiguous and len(marks) > 1:
            raise ValueError(
                f"{self.source}: numbers in column {marks[',']!r} have commas, those in column {marks['.']!r} points: "
                "write all decimals in the same way, and thousands without a mark"
            )
        if warning:
            warnings.warn(f"{warning}: if it is not, write thousands without a mark", stacklevel=2)

    def _read_numbers(self, name: str, column: list) -> NDArray[np.float64]:
        numbers, wrong = np.full(len(column), np.nan), []
        for row, value in enumerate(column):
            try:
                numbers[row] = parse_number(BOOLEANS.get(str(value).strip().lower(), value))
            except (TypeError, ValueError):
                wrong.append(row)
        if wrong:
            # Decimal commas are read if nothing else is wrong in the column, so that it is what to correct.
            row = next((row for row in wrong if not has_decimal_comma(str(column[row]))), wrong[0])
            raise self._describe_wrong(name, row, column[row])
        return numbers

    def _describe_wrong(self, name: str, row: int, value: Any) -> ArgumentError:
        time, ignore = Argument("time", name), Argument("ignore", [name])
        remedy: tuple[str | Argument, ...] = ("correct it, or omit the column with ", ignore)
        if isinstance(value, str) and has_decimal_comma(value):
            remedy = ("write decimals with a point and thousands without a mark, or separate the cells by semicolons",)
        elif not self.fitting:
            remedy = ("correct it",)
        elif is_date(value):
            remedy = ("if it is the time of a sample, use ", time, "; else omit it with ", ignore)
        elif isinstance(value, str) and DATE.fullmatch(value.strip()):
            remedy = ("if it is a date, write it like 2026-01-31; else omit it with ", ignore)
        value_shown = f"a {type(value).__name__}" if isinstance(value, list | dict) else repr(value)[:60]
        return ArgumentError(
            f"{self.source}, {self.place(row)}, column {name!r}: {value_shown} is not a number: ", *remedy
        )


def parse_times(cells: Sequence[Any], place: Callable[[int], str]) -> list[float]:
    """Return times as numbers: dates in seconds since 1970, numbers unchanged; NaN if missing.

    Args:
        cells: The times.
        place: Function from the number of a cell to its place, for errors.
    """
    times, dates = [], {}
    for number, cell in enumerate(cells):
        try:
            times.append(parse_number(cell))
        except (TypeError, ValueError):
            try:
                dates[number] = parse_date(cell)
            except (TypeError, ValueError):
                raise ValueError(f"{place(number)}: {str(cell)[:40]!r} is not a time: correct it") from None
            times.append(math.nan)
    rows = list(dates)
    zoned = add_zones(list(dates.values()), [cells[row] for row in rows], lambda row: place(rows[row]))
    for row, date in zip(rows, zoned, strict=True):
        times[row] = date.timestamp()
    return times


def read_csv(path: Path, fitting: bool = True) -> Table:
    """Read columns separated by commas, semicolons or tabs, with their names in the first line."""
    text = read_text(path)
    if not text.strip():
        raise ValueError(f"{path} is blank: expected a header with column names, then rows")
    if told := DELIMITER_LINE.match(text):
        text = text[told.end() :]  # its line break stays, so that lines are counted
    delimiter = _find_delimiter(text) if told is None else told[1]
    frame = parse_csv(path, text, delimiter)
    while frame.shape[1] > 1 and not frame.iloc[:, -1].str.strip().any():
        frame = frame.iloc[:, :-1]  # spreadsheets write empty columns without a name
    names = _check_names(path, frame.iloc[0].tolist(), fitting)
    frame = frame.iloc[1:]
    if not len(frame):
        raise ValueError(f"{path} has no rows: expected a header with column names, then rows")
    lines = (frame.index + 1).tolist()
    columns = [frame[number].tolist() for number in frame.columns]
    return Table(str(path), _name_index(path, names, columns), lines, fitting, delimiter != ",")


def _find_delimiter(text: str) -> str:
    header = HEADER.match(text.lstrip("\r\n"))
    # Names may be times such as 0,25.
    names = "" if header is None else re.sub(r'"[^"]*"|(?<=\d),(?=\d)', "", header[0])
    return max(DELIMITERS, key=names.count)


def parse_csv(path: Path, text: str, delimiter: str) -> Any:
    """Return a DataFrame of strings without a header; its index counts the lines from 0."""
    try:
        import pandas
    except ImportError:
        raise missing_extra("estimators", "tables need pandas") from None

    def reject(cells: list[str]) -> None:
        raise ValueError(
            f"{path}: the row that starts with {', '.join(cells[:3])[:60]} has {len(cells)} cells, more than the first "
            "line, which has the names of the columns: correct or remove one of the two lines"
        )

    last = text.rstrip("\n").count("\n") + 1
    if text.count('"') % 2:
        raise ValueError(
            f"{path}, line {last} cannot be read (a quotation mark is not closed): the file may be truncated or damaged"
        )
    try:
        read: Any = pandas.read_csv
        frame = read(
            io.StringIO(text.strip("\r\n")),
            sep=delimiter,
            header=None,
            index_col=False,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
            skipinitialspace=True,  # a quoted cell may follow a blank
            engine="python",  # it distinguishes short rows from empty cells
            on_bad_lines=reject,
        )
    except (pandas.errors.ParserError, csv.Error) as error:
        raise ValueError(
            f"{path}, line {last} cannot be read ({error}): the file may be truncated or damaged"
        ) from None
    except pandas.errors.EmptyDataError:
        raise ValueError(f"{path} has no rows: expected a header with column names, then rows") from None
    if '"' in text:  # a cell may have several lines
        frame.index = frame.index + frame.apply(lambda column: column.str.count("\n")).sum(axis=1).cumsum()
    frame.index += text[: len(text) - len(text.lstrip("\r\n"))].count("\n")
    if frame.shape[1] == 1:
        return frame.fillna("")  # a blank line is a missing value
    frame = frame[~(frame.iloc[:, 1:].isna().all(axis=1) & (frame[0].fillna("") == ""))]
    cut = frame.index[frame.isna().any(axis=1)]
    if len(cut):
        row, cells = int((frame.index < cut[0]).sum()), int(frame.loc[cut[0]].notna().sum())
        raise ValueError(
            f"{path}, row {row} (line {cut[0] + 1}) has {cells} cells, but the header has {frame.shape[1]}: the file "
            "may be truncated; correct or remove the row"
        )
    return frame


def _name_index(path: Path, names: list[str], columns: list[list]) -> dict[str, list]:
    """Return the columns by name. A column without a name is pandas' index: row numbers are dropped, dates are kept."""
    named = {}
    for position, (name, column) in enumerate(zip(names, columns, strict=True), 1):
        if not name or UNNAMED.fullmatch(name):
            # As a feature it would leak the order of the rows.
            if any([str(row) for row in range(start, start + len(column))] == column for start in (0, 1)):
                continue
            if all(is_date(value) for value in column):
                name = INDEX
        if not name:
            raise ValueError(f"{path}: column {position} has no name: name it, or remove it")
        named[name] = column
    if not named:
        raise ValueError(f"{path} has no named column: add a first line with column names")
    return named


def read_parquet(path: Path, fitting: bool = True) -> Table:
    """Read a Parquet file with pandas."""
    try:
        import pandas
        import pyarrow
    except ImportError:
        raise missing_extra("parquet", "Parquet files need pyarrow", "or save the table as CSV") from None
    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError, LookupError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is not a valid Parquet file ({str(error)[:200]}): save it again") from None
    if isinstance(frame.index, pandas.MultiIndex):
        frame = frame.reset_index()
    elif not isinstance(frame.index, pandas.RangeIndex):
        unnamed = frame.index.name is None
        if not unnamed or isinstance(frame.index, pandas.DatetimeIndex):
            frame = frame.reset_index(names=INDEX if unnamed else None)
    if not len(frame.columns) or not len(frame):
        raise ValueError(f"{path} has no rows: provide at least one")
    columns = {}
    for name in map(str, frame.columns):
        column = frame[name]
        missing = column.isna().to_numpy()
        values = [value.to_pydatetime() for value in column] if column.dtype.kind == "M" else column.tolist()
        columns[name] = [None if is_missing else value for value, is_missing in zip(values, missing, strict=True)]
    return Table(str(path), columns, None, fitting)


def _check_names(path: Path, row: list[str], fitting: bool) -> list[str]:
    names = [name.strip() for name in row]
    doubled = next((name for number, name in enumerate(names) if name and name in names[:number]), None)
    if _are_values(names, fitting):
        raise ValueError(
            f"{path} starts with numbers: add a first line with column names; a file of the UCR archive, with the "
            "class first in each row, must end with .tsv or .txt"
        )
    if doubled is not None:
        raise ValueError(f"{path} has two columns named {doubled!r}: rename one")
    return names


def _are_values(names: list[str], fitting: bool) -> bool:
    """Return whether a first line consists of values, not of names such as 0, 1, 2 or 2021, 2020, 2019."""
    try:
        numbers = [float(name.replace(",", ".") if has_decimal_comma(name) else name) for name in names]
    except ValueError:
        return False
    if len(numbers) == 1:
        return names != ["0"]  # the name that pandas gives
    rising = [number < later for number, later in pairwise(numbers)]
    in_order = all(rising) or (len(rising) > 1 and not any(rising))
    # A model knows the names that it needs, which may be times such as 0.25.
    return not in_order or (fitting and any("." in name or "," in name for name in names))


def shorten(names: list[str]) -> str:
    return ", ".join(names) if len(names) <= 12 else f"{', '.join(names[:8])}, … {names[-1]} ({len(names)} in total)"
