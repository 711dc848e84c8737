"""Read DataFrames: the names of features and steps, long form, and targets."""

import contextlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.dated_index import is_dated
from cornn.estimators.series import SequenceData, Series, ValidSeries, check_known
from cornn.estimators.times import (
    add_zones,
    check_not_months,
    compute_gaps,
    parse_compact_dates,
    parse_date,
    parse_dates,
)
from cornn.estimators.values import format_value, is_frame, read_labels, to_float_array

__all__ = [
    "Columns",
    "find_names",
    "flatten_index",
    "group_rows",
    "name_target",
    "read_long",
    "read_target",
    "select_columns",
    "sequence_ids",
    "split_rows",
]


class Columns(NamedTuple):
    """How X is read: the columns of DataFrames, and the order of axes."""

    id: str | None = None  # of a long-form DataFrame, which has one row per sample
    time: str | None = None
    values: Sequence[Any] | None = None  # of all DataFrames whose columns are features
    steps: Sequence[str] | None = None  # of DataFrames in wide form: the columns in training
    layout: str = "ntc"  # of three-dimensional arrays: (sequences, time, features), or "nct"
    single: bool = False  # for forecasts: one series by itself is a valid X, and series without any value are skipped


def name_target(y: Any, X: Any) -> Any:
    """Return the name of y if it is a column of X: y itself, or that of `X["name"]`; None if it is none."""
    if isinstance(y, str):
        return y
    column = is_frame(X) and hasattr(y, "loc") and hasattr(y, "name")
    return y.name if column and y.name in X.columns and y.index.equals(X.index) else None


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
        # pandas gives an index 0, 1, 2, … by itself: it is not one of ids.
        if len(absent) < len(ids) and y.index.tolist() != list(range(len(y))):
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
    if column.dtype.kind in "mM":
        raise ValueError(
            f"{where}column {name!r} contains dates or durations: name it in time_column, or remove it from "
            "value_columns"
        )
    return to_float_array(column, f"{where}column {name!r}", "row")


def _require(frame: Any, names: Sequence[str], where: str = "") -> None:
    for name in names:
        if name not in frame.columns:
            raise ValueError(f"{where}no column {name!r}: the columns are {', '.join(map(str, frame.columns))}")
