"""Read DataFrames whose columns are features: in long form, with an index of dates, or one per sequence."""

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.series import SequenceData, Series, ValidSeries, check_known
from cornn.estimators.times import (
    add_zones,
    check_not_months,
    compute_gaps,
    is_date,
    is_only_date,
    parse_compact_dates,
    parse_date,
    parse_dates,
)
from cornn.estimators.values import format_value, read_labels, to_float_array

__all__ = [
    "Columns",
    "are_even",
    "check_future_dates",
    "find_gap",
    "find_names",
    "find_steps",
    "flatten_index",
    "group_rows",
    "index_gaps",
    "index_times",
    "is_dated",
    "is_frame",
    "name_target",
    "read_date_gaps",
    "read_long",
    "read_target",
    "select_columns",
    "sequence_ids",
    "split_rows",
]


LONGEST_EVEN = 27 * 86400  # seconds between evenly spaced dates that are not read one by one


class Columns(NamedTuple):
    """How X is read: the columns of DataFrames, and the order of axes."""

    id: str | None = None  # of a long-form DataFrame, which has one row per sample
    time: str | None = None
    values: Sequence[Any] | None = None  # of all DataFrames whose columns are features
    steps: Sequence[str] | None = None  # of DataFrames in wide form: the columns in training
    layout: str = "ntc"  # of three-dimensional arrays: (sequences, time, features), or "nct"
    single: bool = False  # for forecasts: one series by itself is a valid X, and series without any value are skipped


def is_frame(X: Any) -> bool:
    """Return whether X is a table with named columns: a pandas DataFrame or similar."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


def name_target(y: Any, X: Any) -> Any:
    """Return the name of y if it is a column of X: y itself, or that of `X["name"]`; None if it is none."""
    if isinstance(y, str):
        return y
    column = is_frame(X) and hasattr(y, "loc") and hasattr(y, "name")
    return y.name if column and y.name in X.columns and y.index.equals(X.index) else None


def is_dated(X: Any) -> bool:
    """Return whether X has an index of dates, periods or durations."""
    index = getattr(X, "index", None)
    return getattr(getattr(index, "dtype", None), "kind", None) in ("M", "m") or hasattr(index, "to_timestamp")


def index_times(index: Any) -> NDArray | None:
    """Return the times of a pandas index of dates, periods or durations; None if they are evenly spaced."""
    gaps = index_gaps(index)
    return None if len(gaps) > 1 and are_even(gaps) else np.concatenate([[0.0], np.cumsum(gaps[1:])])


def index_gaps(index: Any, where: str = "the index of X") -> NDArray[np.float64]:
    """Return the time before each date, period or duration of a pandas index, in seconds; NaN for the first."""
    index = index.to_timestamp() if hasattr(index, "to_timestamp") else index
    if index.hasnans:
        row = int(np.argmax(index.isna()))
        raise ValueError(f"{where} has no date in row {row}: fill it in, or remove the row")
    if index.dtype.kind == "m":
        return compute_gaps(index.total_seconds().to_numpy(), where, index.astype(object))
    # Reading dates one by one is slow. Up to there, evenly spaced dates cannot be months.
    if len(index) > 1 and 0 < (index[1] - index[0]).total_seconds() <= LONGEST_EVEN:
        gaps = np.diff((index - index[0]).total_seconds(), prepend=np.nan)
        if are_even(gaps):
            return gaps
    return compute_gaps(parse_dates([time.to_pydatetime() for time in index]), where, index)


def are_even(gaps: NDArray[np.float64]) -> bool:
    """Return whether samples are evenly spaced, given the time before each of them."""
    return len(gaps) < 3 or np.allclose(gaps[1:], gaps[1], rtol=1e-6)


def read_date_gaps(X: Any) -> list[NDArray[np.float64] | None]:
    """Return the time before each sample of each sequence of a list by its index of dates, or of texts, in seconds.

    Args:
        X: A list of sequences. One series by itself counts as a list of one.

    Returns:
        One entry per sequence, None for one without dates; an empty list if X is neither.
    """
    if is_dated(X):
        return [index_gaps(X.index)]
    gaps = []
    for number, item in enumerate(X) if isinstance(X, list | tuple) else ():
        part: Any = item
        if isinstance(item, Series):
            part = item.values if item.times is None else None
        where = f"the index of sequence {number}"
        gaps.append(_read_item_gaps(part.index, where) if is_dated(part) else _read_text_gaps(part, where))
    return gaps


def _read_text_gaps(part: Any, where: str) -> NDArray[np.float64] | None:
    """Return the time before each sample of a pandas object whose index consists of dates as text, or None."""
    index: Any = getattr(part, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", None) not in ("O", "U"):
        return None
    cells = index.tolist()
    dated = [is_only_date(cell) for cell in cells]
    advice = "or drop it with reset_index(drop=True) if the rows are evenly spaced"
    if not any(dated):
        if cells and all(isinstance(cell, str) and is_date(cell) for cell in cells):
            raise ValueError(
                f"{where} contains texts such as {cells[0]!r}, which may be dates or numbers: convert it with "
                f"pandas.to_datetime, {advice}"
            )
        return None
    if not all(dated):
        row, first = dated.index(False), dated.index(True)
        raise ValueError(
            f"{where} has {str(cells[row])!r} in row {row}, which is not a date like {str(cells[first])!r} in row "
            f"{first}: correct it, {advice}"
        )
    dates = add_zones([parse_date(cell) for cell in cells], cells, lambda row: f"{where}, row {row}")
    gaps = compute_gaps(parse_dates(dates), where, cells)
    return gaps if are_even(gaps) else _prefer_local(gaps, dates)


def _read_item_gaps(index: Any, where: str) -> NDArray[np.float64]:
    gaps = index_gaps(index, where)
    if getattr(index, "tz", None) is None or are_even(gaps):
        return gaps
    return _prefer_local(gaps, [time.to_pydatetime() for time in index])


def _prefer_local(gaps: NDArray[np.float64], dates: Sequence[datetime]) -> NDArray[np.float64]:
    """Return the gaps between local dates if they are even, as those of days when the clocks change; else the gaps."""
    local = np.diff(parse_dates([moment.replace(tzinfo=UTC) for moment in dates]), prepend=np.nan)
    return local if are_even(local) else gaps


def check_future_dates(X: Any, future: Any) -> None:
    """Check that the dates of covariates, if they and X have some, increase and come after X."""
    several = all(isinstance(argument, list | tuple) for argument in (X, future))
    for series, ahead in zip(X, future, strict=False) if several else [(X, future)]:
        if not is_dated(series) or not is_dated(ahead) or not len(ahead) or not len(series):
            continue
        index_gaps(ahead.index, "the index of future")
        last, first = series.index[-1], ahead.index[0]
        durations = [part.index.dtype.kind == "m" for part in (series, ahead)]
        if not any(durations):
            given = (last, first)
            last, first = add_zones([parse_date(time) for time in given], given, lambda _: "the index of future")
        elif not all(durations):
            continue
        if first <= last:
            raise ValueError(f"future starts at {first}, but X ends at {last}: pass the rows of the steps after X")


def flatten_index(X: Any, columns: Columns) -> tuple[Any, Columns]:
    """Return a frame whose index has the levels (sequence, time), as in sktime, in long form; other X as they are."""
    levels = getattr(getattr(X, "index", None), "levels", None)
    if levels is None or not is_frame(X) or columns.id in X.columns:
        return X, columns
    if len(levels) != 2:
        raise ValueError(
            f"the index of X has {len(levels)} levels, expected two, sequence and time: omit the others with "
            "X.droplevel, or pass X.reset_index() and set id_column and time_column"
        )
    names = [f"level_{number}" if name is None else name for number, name in enumerate(X.index.names)]
    twice = next((name for name in names if name in X.columns), None)
    if twice is not None:
        raise ValueError(f"{twice!r} is both a column of X and a level of its index: rename one of them")
    frame = X.reset_index(names=names)
    if hasattr(levels[1], "to_timestamp"):
        frame[names[1]] = X.index.get_level_values(1).to_timestamp()
    completed = columns._replace(id=columns.id or names[0], time=columns.time or names[1])
    return frame.drop(columns=[name for name in names if name not in (completed.id, completed.time)]), completed


def find_gap(X: Any) -> float | None:
    """Return the median time between the samples of X in seconds, by its index of dates or periods.

    Args:
        X: One series by itself, or a list of series.

    Returns:
        The time; None without dates, or if it differs from series to series.
    """
    medians = [np.median(gaps[1:]) for gaps in read_date_gaps(X) if gaps is not None and len(gaps) > 1]
    return float(medians[0]) if medians and np.allclose(medians, medians[0], rtol=1e-6) else None


def find_names(X: Any, columns: Columns, leave_out: Sequence[str] = ()) -> list[Any] | None:
    """Return the names of the columns of X that are features.

    Args:
        X: The sequences, as for `read_sequences`.
        columns: How X is read; its `values`, if given, are the names.
        leave_out: Columns of a long-form DataFrame that are not features.

    Returns:
        The names; None if the features of X have none, or not all of them are strings, as scikit-learn defines it.
    """
    if is_frame(X) and columns.id is not None:
        used = {columns.id, columns.time, *leave_out}
        return list(columns.values or [name for name in X.columns if name not in used])
    frame = None
    if isinstance(X, list | tuple):
        if X and isinstance(X[0], ValidSeries) and X[0].names:
            return list(X[0].names)
        parts = (item.values if isinstance(item, Series) else item for item in X)
        frame = next((part for part in parts if is_frame(part)), None)
    elif columns.single and is_frame(X) and is_dated(X):
        frame = X
    if frame is None:
        return None
    names = list(columns.values or frame.columns)
    return names if columns.values or all(isinstance(name, str) for name in names) else None


def find_steps(X: Any, columns: Columns) -> list[str] | None:
    """Return the names of the columns of a DataFrame in wide form, whose columns are steps; None for other X."""
    wide = is_frame(X) and columns.id is None and not (columns.single and is_dated(X))
    return [str(name) for name in X.columns] if wide else None


def sequence_ids(frame: Any, column: str) -> tuple[NDArray, list[NDArray]]:
    """Return the ids in order of first appearance, and the rows of each."""
    return group_rows(_read_ids(frame, column))


def _read_ids(frame: Any, column: str) -> NDArray:
    """Return the ids of the rows of a long-form DataFrame, all known and of one type."""
    _require(frame, [column])
    return read_labels(frame[column], f"column {column!r}", "id", "row")


def group_rows(ids: NDArray) -> tuple[NDArray, list[NDArray]]:
    """Return the unique ids of an array (rows,), in order of first appearance, and the rows of each."""
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    return ids[np.sort(first)], [rows[index] for index in order]


def split_rows(ids: NDArray, times: NDArray | None) -> list[tuple[Any, NDArray]]:
    """Split the rows of a long table: the id and the rows of each sequence, in order of time if there are times."""
    names, rows = group_rows(ids)
    if times is not None:
        rows = [group[np.argsort(times[group], kind="stable")] for group in rows]
    return list(zip(names.tolist(), rows, strict=True))


def read_target(frame: Any, y: Any, column: str) -> Any:
    """Return one target per sequence.

    Args:
        frame: The DataFrame in long form.
        y: The name of a column, a Series of such a column (one value per row), a Series indexed by id, or an array in
            order of the ids.
        column: The column of the ids.
    """
    ids, rows = sequence_ids(frame, column)
    if isinstance(y, str):
        _require(frame, [y])
        return _read_constant(frame[y], f"column {y!r}", ids, rows)
    if hasattr(y, "loc"):
        if len(ids) < len(frame) and y.index.equals(frame.index):
            return _read_constant(y, "y", ids, rows)
        known = set(y.index)
        absent = [name for name in ids if name not in known]
        if not absent:
            return np.asarray(y.loc[ids])
        if len(absent) < len(ids) and not _counts_from_zero(y.index):
            raise ValueError(
                f"the index of y has no target for sequence {format_value(absent[0])}: index y by the ids, or pass an "
                "array in order of the ids"
            )
    return y


def _read_constant(column: Any, where: str, ids: NDArray, rows: list[NDArray]) -> NDArray:
    """Return the target of each sequence from a column, which must be constant within it."""
    values = read_labels(column, where, "target", "row")
    for name, group in zip(ids, rows, strict=True):
        if (values[group] != values[group[0]]).any():
            raise ValueError(
                f"{where} changes within sequence {format_value(name)}: a target must be constant per sequence"
            )
    return values[[group[0] for group in rows]]


def _counts_from_zero(index: Any) -> bool:
    """Return whether an index is the one that pandas gives by itself, and not one of ids."""
    return index.tolist() == list(range(len(index)))


def read_long(frame: Any, columns: Columns) -> list[SequenceData]:
    """Read the sequences of a long-form DataFrame, in order of the first appearance of their ids."""
    assert columns.id is not None
    used = (columns.id, columns.time)
    names = find_names(frame, columns)
    _require(frame, [name for name in used if name is not None])
    if not names:
        raise ValueError(f"the DataFrame has no feature columns next to {columns.id!r}: add them")
    if len(frame) == 0:
        raise ValueError("the DataFrame has no rows: pass at least one sequence")
    times = None if columns.time is None else _times(frame, columns.time)
    values = select_columns(frame, names)
    time_values = None if columns.time is None else np.asarray(frame[columns.time])
    sequences = []
    for name, rows in split_rows(_read_ids(frame, columns.id), times):
        where = f"sequence {format_value(name)}"
        gaps = None if times is None or time_values is None else compute_gaps(times[rows], where, time_values[rows])
        sequences.append(SequenceData(values[rows], gaps))
        if not columns.single:
            check_known(sequences[-1], where)
    return sequences


def _times(frame: Any, name: str) -> NDArray:
    """Return numbers or dates; dates may be strings and may have a time zone."""
    times = read_labels(frame[name], f"column {name!r}", "time", "row")
    if times.dtype.kind in "OUST":
        with contextlib.suppress(TypeError, ValueError):
            times = times.astype(np.float64)
    if times.dtype.kind not in "OUST":
        check_not_months(times, f"column {name!r}")
        dates = parse_compact_dates(times)
        return times if dates is None else parse_dates(dates)
    cells = times.tolist()
    try:
        dates = [parse_date(cell) for cell in cells]
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} contains values that are not times: use numbers, or dates like 2026-01-31 12:00:00"
        ) from error
    return parse_dates(add_zones(dates, cells, lambda row: f"column {name!r}, row {row}"))


def select_columns(frame: Any, names: Sequence[Any], where: str = "") -> NDArray[np.float64]:
    """Return some columns, shape (rows, columns). Names are compared as text, as files store them."""
    by_text = {str(name): name for name in frame.columns}
    _require(frame, [name for name in names if str(name) not in by_text], where)
    return np.stack([_column(frame, by_text[str(name)], where) for name in names], 1)


def _column(frame: Any, name: Any, where: str) -> NDArray[np.float64]:
    column = np.asarray(frame[name])
    if column.ndim != 1:
        raise ValueError(f"{where}two columns are named {name!r}: rename one of them")
    if column.dtype.kind == "M":
        raise ValueError(
            f"{where}column {name!r} contains dates: name it in time_column, or remove it from value_columns"
        )
    return to_float_array(column, f"{where}column {name!r}", "row")


def _require(frame: Any, names: Sequence[str], where: str = "") -> None:
    for name in names:
        if name not in frame.columns:
            raise ValueError(f"{where}no column {name!r}: the columns are {', '.join(map(str, frame.columns))}")
