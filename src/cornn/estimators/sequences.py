"""Read the inputs of estimators: arrays, lists, `Series` and DataFrames. Errors name the sequence and the step."""

import contextlib
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from cornn.estimators.times import parse_date, parse_dates
from cornn.estimators.wide_frames import check_order, check_rows, check_same_order

__all__ = [
    "Columns",
    "Series",
    "ValidSeries",
    "check_as_trained",
    "check_known",
    "compute_gaps",
    "find_names",
    "find_steps",
    "format_value",
    "group_rows",
    "is_frame",
    "is_single",
    "read_labels",
    "read_sequences",
    "read_target",
    "select_columns",
    "sequence_ids",
    "split_rows",
    "to_float_array",
]


@dataclass(frozen=True, eq=False)
class Series:
    """One sequence with the times of its samples.

    The estimators accept lists of these, and scikit-learn can split such lists.

    Args:
        values: Values, shape (time, features), or (time,) for a single feature. NaN marks a missing value.
        times: Increasing times of the samples, shape (time,), as numbers or dates. None means evenly spaced.

    Examples:
        >>> Series(np.array([0.1, 0.7, 0.2]), times=np.array([0.0, 0.5, 2.0]))
    """

    values: Any
    times: Any = None


@dataclass(frozen=True, eq=False)
class ValidSeries(Series):
    """A `Series` whose reader has validated it, so that it is not validated again.

    Args:
        values: Values, shape (time, features), of type float64, at least one step, without infinity.
        times: Finite, increasing times of the samples, shape (time,), of type float64. None means evenly spaced.
    """


class Columns(NamedTuple):
    """How X is read: the columns of DataFrames, and the order of axes."""

    id: str | None = None  # of a long-form DataFrame, which has one row per sample
    time: str | None = None
    values: Sequence[Any] | None = None  # of all DataFrames whose columns are features
    steps: Sequence[str] | None = None  # of DataFrames in wide form: the columns in training
    layout: str = "ntc"  # of three-dimensional arrays: (sequences, time, features), or "nct"
    single: bool = False  # for forecasts: one series by itself is a valid X, and series without any value are skipped


LAYOUTS = ("ntc", "nct")


class SequenceData(NamedTuple):
    """A sequence after reading and validation."""

    values: NDArray[np.float64]  # (time, features)
    gaps: NDArray[np.float64] | None  # (time): the time since the previous sample; NaN for the first if unknown


def is_frame(X: Any) -> bool:
    """Return whether X is a table with named columns: a pandas DataFrame or similar."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


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
        parts = (item.values if isinstance(item, Series) else item for item in X)
        frame = next((part for part in parts if is_frame(part)), None)
    elif columns.single and is_frame(X) and _is_dated(X):
        frame = X
    if frame is None:
        return None
    names = list(columns.values or frame.columns)
    return names if columns.values or all(isinstance(name, str) for name in names) else None


def find_steps(X: Any, columns: Columns) -> list[str] | None:
    """Return the names of the columns of a DataFrame in wide form, whose columns are steps; None for other X."""
    wide = is_frame(X) and columns.id is None and not (columns.single and _is_dated(X))
    return [str(name) for name in X.columns] if wide else None


def sequence_ids(frame: Any, column: str) -> tuple[NDArray, list[NDArray]]:
    """Return the ids in order of first appearance, and the rows of each."""
    return group_rows(_read_ids(frame, column))


def _read_ids(frame: Any, column: str) -> NDArray:
    """Return the ids of the rows of a long-form DataFrame, all known and of one type."""
    _require(frame, [column])
    return read_labels(frame[column], f"column {column!r}", "id", "row")


def read_labels(labels: Any, where: str, what: str, axis: str) -> NDArray:
    """Return ids or groups as an array, all known and of one type.

    Args:
        labels: The labels, shape (rows,).
        where: What contains them, for errors.
        what: What a label is, for errors.
        axis: What the labels belong to, for errors.
    """
    array = np.asarray(labels)
    if array.dtype.kind in "mM":
        missing = np.isnat(array)
    elif array.dtype.kind in "fc":
        missing = np.isnan(array)
    else:
        missing = np.array([_is_missing(own) for own in array] if array.dtype == object else [], bool)
    if missing.any():
        raise ValueError(f"{where}, {axis} {missing.argmax()}: the {what} is missing: fill it in, or remove the {axis}")
    if array.dtype == object and len({isinstance(own, str) for own in array}) > 1:
        raise ValueError(f"{where} contains both strings and other types: convert them to one type")
    return array


def _is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or one of pandas' missing values."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


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
        rows = [own[np.argsort(times[own], kind="stable")] for own in rows]
    return list(zip(names.tolist(), rows, strict=True))


def read_target(frame: Any, y: Any, column: str) -> Any:
    """Return one target per sequence: y is a column name, a Series indexed by id, or an array in order of the ids."""
    ids, rows = sequence_ids(frame, column)
    if isinstance(y, str):
        _require(frame, [y])
        values = read_labels(frame[y], f"column {y!r}", "target", "row")
        for name, own in zip(ids, rows, strict=True):
            if (values[own] != values[own[0]]).any():
                raise ValueError(
                    f"column {y!r} changes within sequence {format_value(name)}: a target must be constant per sequence"
                )
        return values[[own[0] for own in rows]]
    if hasattr(y, "loc") and set(ids) <= set(y.index):
        return np.asarray(y.loc[ids])
    return y


def read_sequences(X: Any, columns: Columns, timespans: Any = None, *, warn: bool = False) -> list[SequenceData]:
    """Read and validate sequences.

    Args:
        X: An array (sequences, time, features) or (sequences, time), a list of arrays or `Series`, or a DataFrame.
        columns: Columns of DataFrames, and the order of axes.
        timespans: Times since the previous sample, in the layout of X without features, or (time,) for all sequences.
        warn: Whether to warn if a three-dimensional array has fewer steps than features.

    Returns:
        One entry per sequence.
    """
    if is_frame(X) and columns.id is not None:
        if timespans is not None:
            raise ValueError("a long-form DataFrame has its times in a column: set time_column and omit timespans")
        return _long(X, columns)
    if hasattr(X, "toarray") or hasattr(X, "todense"):
        raise TypeError("sparse input is not supported: pass a dense array, X.toarray()")
    if columns.layout not in LAYOUTS:
        raise ValueError(f"unknown layout {columns.layout!r}: choose one of {', '.join(LAYOUTS)}")
    if columns.single and (series := _read_single(X)) is not None:
        X = [series]
    if is_frame(X):
        if columns.single:
            check_rows(X)
        check_order(X)
        check_same_order(X, columns.steps or ())
        X = np.asarray(X)
    if not isinstance(X, list | tuple):
        X = _to_array(X)
        if np.iscomplexobj(X):
            raise ValueError("Complex data not supported: pass real numbers, for instance real and imaginary parts")
        if X.ndim == 0 or (X.ndim == 1 and X.dtype != object):
            raise ValueError(
                f"X has shape {X.shape}, expected (sequences, time, features) or (sequences, time). Reshape your data "
                "with X.reshape(1, -1) if it is a single sequence"
            )
    if len(X) == 0:
        raise ValueError("X contains no sequences: 0 sample(s) were passed, at least 1 is required")
    if isinstance(X, np.ndarray) and X.ndim > 1 and 0 in X.shape[1:]:
        raise ValueError(f"X has no steps: 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if isinstance(X, np.ndarray) and X.ndim == 3:
        X = X.swapaxes(1, 2) if columns.layout == "nct" else X
        if warn and X.shape[1] < X.shape[2]:
            warnings.warn(
                f"X has {X.shape[1]} steps of {X.shape[2]} features: if its axes are (sequences, features, time), use "
                "layout='nct'"
                if columns.layout == "ntc"
                else f"X has {X.shape[1]} steps of {X.shape[2]} features: if its axes are (sequences, time, features), "
                "use layout='ntc'",
                stacklevel=3,
            )
    sequences = [_sequence(item, number, columns.values) for number, item in enumerate(X)]
    if not columns.single:
        for number, own in enumerate(sequences):
            check_known(own, f"sequence {number}")
    if timespans is not None:
        single = isinstance(timespans, np.ndarray) and timespans.ndim == 1 and timespans.dtype != object
        if not single and len(timespans) != len(sequences):
            raise ValueError(f"X has {len(sequences)} sequences and timespans {len(timespans)}: pass one entry each")
        timespans = [timespans] * len(sequences) if single else timespans
        sequences = [own._replace(gaps=_read_gaps(timespans, number, own)) for number, own in enumerate(sequences)]
    _check_alike(sequences)
    return sequences


def check_known(sequence: SequenceData, where: str) -> None:
    """Check that at least one value of a sequence is known."""
    # The first step alone decides for almost all sequences.
    if np.isnan(sequence.values[0]).all() and np.isnan(sequence.values).all():
        raise ValueError(f"{where} has no values, all are missing: remove it")


def is_single(X: Any) -> bool:
    """Return whether X is one series by itself: a one-dimensional array, a pandas Series, or a frame by dates."""
    return _read_single(X) is not None


def _read_single(X: Any) -> "Series | None":
    """Return one series that is given by itself: a one-dimensional array, a pandas Series, or a frame by dates."""
    if is_frame(X):
        return Series(X, _index_times(X.index)) if _is_dated(X) else None
    if isinstance(X, list | tuple) and len(X) and all(isinstance(own, int | float | np.number) for own in X):
        return Series(np.asarray(X))
    if getattr(X, "ndim", None) == 1 and getattr(X, "dtype", np.dtype(object)).kind != "O":
        return Series(np.asarray(X), _index_times(X.index) if _is_dated(X) else None)
    return None


def _is_dated(X: Any) -> bool:
    """Return whether X has an index of dates or periods."""
    index = getattr(X, "index", None)
    return getattr(getattr(index, "dtype", None), "kind", None) == "M" or hasattr(index, "to_timestamp")


def _index_times(index: Any) -> NDArray | None:
    """Return the times of a pandas index of dates or periods; None if they are evenly spaced."""
    index = index.to_timestamp() if hasattr(index, "to_timestamp") else index
    times = parse_dates([own.to_pydatetime() for own in index])
    gaps = compute_gaps(times, "the index of X", index)[1:]
    return None if len(gaps) and np.allclose(gaps, gaps[0], rtol=1e-6) else times


def _sequence(item: Any, number: int, names: Sequence[Any] | None = None) -> SequenceData:
    if isinstance(item, ValidSeries):
        return SequenceData(item.values, None if item.times is None else np.diff(item.times, prepend=np.nan))
    series = item if isinstance(item, Series) else Series(item)
    if is_frame(series.values) and names:
        values = select_columns(series.values, names, f"sequence {number}, ")
    else:
        values = to_float_array(series.values, f"sequence {number}")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"sequence {number} has shape {values.shape}, expected (time, features) or (time)")
    if len(values) == 0:
        raise ValueError(f"sequence {number} is empty: remove it, a sequence needs at least one step")
    gaps = None if series.times is None else compute_gaps(series.times, f"sequence {number}")
    if gaps is not None and len(gaps) != len(values):
        raise ValueError(f"sequence {number} has {len(values)} steps but {len(gaps)} times: pass one time per step")
    return SequenceData(values, gaps)


def _to_array(values: Any) -> NDArray:
    """Return a tensor, a masked array or any other values as an array; masked values are missing."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        values = values.astype(np.float64).filled(np.nan)
    return np.asarray(values)


def to_float_array(values: Any, where: str, axis: str = "step") -> NDArray[np.float64]:
    """Convert to float64. NaN and None are missing values; infinity and non-numbers raise an error.

    Args:
        values: The values.
        where: What they are, for errors.
        axis: What the first index counts, for errors.
    """
    array = _to_array(values)
    if array.dtype == object:
        # pandas has a missing value of its own, pandas.NA.
        array = array.copy()
        array[np.vectorize(_is_missing, otypes=[bool])(array)] = None
    if np.iscomplexobj(array):
        raise ValueError(f"{where}: Complex data not supported, pass real numbers")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        for place, value in np.ndenumerate(array):
            try:
                float("nan" if value is None else value)
            except (TypeError, ValueError):
                at = "".join(f", {name} {index}" for name, index in zip((axis, "feature"), place, strict=False))
                error = (
                    f"{where}{at}: {format_value(value)} is not a number, the argument must be a string of digits or "
                    "a real number (NaN if it is missing)"
                )
                raise (ValueError if isinstance(value, str) else TypeError)(error) from None
        raise
    if np.isinf(array).any():
        place = np.argwhere(np.isinf(array))[0][0]
        raise ValueError(f"{where}, {axis} {place} contains infinity: replace it; NaN marks a missing value")
    return array


def check_as_trained(sequences: Sequence[SequenceData], features: int, *, timed: bool) -> None:
    """Check that sequences match the training data of an estimator.

    Args:
        sequences: The sequences.
        features: Number of features in training.
        timed: Whether the estimator was fitted with times.
    """
    for number, sequence in enumerate(sequences):
        if sequence.values.shape[1] != features:
            raise ValueError(
                f"sequence {number} of X has {sequence.values.shape[1]} features, but this estimator is expecting "
                f"{features} features as input, as in training"
            )
        if (sequence.gaps is not None) != timed:
            fitted, here = ("with", "lacks") if timed else ("without", "has")
            raise ValueError(f"this estimator was fitted {fitted} times, but sequence {number} {here} them")


def compute_gaps(times: Any, where: str, given: Any = None) -> NDArray[np.float64]:
    """Return the time since the previous sample; NaN for the first. Dates are converted to seconds.

    Args:
        times: The times.
        where: What they belong to, for errors.
        given: The times as the user gave them, for errors, such as dates.
    """
    times = np.asarray(times)
    given = np.asarray(times if given is None else given)
    if times.dtype.kind == "M":
        times = (times - times.min()) / np.timedelta64(1, "s")
    times = to_float_array(times, where)
    if np.isnan(times).any():
        raise ValueError(
            f"{where}: the time of step {np.argwhere(np.isnan(times))[0][0]} is missing: fill it in, or remove the step"
        )
    gaps = np.diff(times, prepend=np.nan)
    if (gaps[1:] <= 0).any():
        step = int(np.argmax(gaps[1:] <= 0)) + 1
        before, after = map(_format_time, given[step - 1 : step + 1])
        raise ValueError(
            f"{where}: times must increase, but step {step} is at {after} after {before}: sort the rows by time, and "
            "keep one row per time"
        )
    return gaps


def _format_time(time: Any) -> str:
    return str(np.datetime_as_string(time, unit="auto") if isinstance(time, np.datetime64) else time)


def _read_gaps(timespans: Any, number: int, sequence: SequenceData) -> NDArray[np.float64]:
    own = to_float_array(timespans[number], f"timespans of sequence {number}")
    if own.shape != (len(sequence.values),):
        raise ValueError(f"timespans of sequence {number} have shape {own.shape}, expected ({len(sequence.values)},)")
    if not (own[1:] >= 0).all() or own[0] < 0:
        raise ValueError(f"timespans of sequence {number} must not be negative, nor NaN after the first")
    return own


def _check_alike(sequences: list[SequenceData]) -> None:
    first = sequences[0]
    for number, sequence in enumerate(sequences):
        if sequence.values.shape[1] != first.values.shape[1]:
            raise ValueError(
                f"sequence {number} has {sequence.values.shape[1]} features, sequence 0 has {first.values.shape[1]}: "
                "all must have the same (features are columns, steps are rows)"
            )
        if (sequence.gaps is None) != (first.gaps is None):
            raise ValueError(
                f"only one of sequence {number} and sequence 0 has times: pass times for all sequences or for none"
            )


def format_value(value: Any) -> str:
    """Format a value without the names of numpy's types."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _require(frame: Any, names: Sequence[str], where: str = "") -> None:
    for name in names:
        if name not in frame.columns:
            raise ValueError(f"{where}no column {name!r}: the columns are {', '.join(map(str, frame.columns))}")


def _long(frame: Any, columns: Columns) -> list[SequenceData]:
    assert columns.id is not None
    used = (columns.id, columns.time)
    names = find_names(frame, columns)
    _require(frame, [name for name in used if name is not None])
    if not names:
        raise ValueError(f"no feature columns besides {columns.id!r}: name them in value_columns")
    if len(frame) == 0:
        raise ValueError("the DataFrame has no rows: pass at least one sequence")
    times = None if columns.time is None else _times(frame, columns.time)
    values = select_columns(frame, names)
    given = None if columns.time is None else np.asarray(frame[columns.time])
    found = []
    for name, rows in split_rows(_read_ids(frame, columns.id), times):
        where = f"sequence {format_value(name)}"
        gaps = None if times is None or given is None else compute_gaps(times[rows], where, given[rows])
        found.append(SequenceData(values[rows], gaps))
        if not columns.single:
            check_known(found[-1], where)
    return found


def _times(frame: Any, name: str) -> NDArray:
    """Return numbers or dates; dates may be strings and may have a time zone."""
    times = np.asarray(frame[name])
    if times.dtype.kind not in "OUST":
        return times
    with contextlib.suppress(TypeError, ValueError):
        return times.astype(np.float64)
    try:
        return parse_dates([parse_date(own) for own in times.tolist()])
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} contains values that are not times: use numbers, or dates like 2026-01-31 12:00:00"
        ) from error


def select_columns(frame: Any, names: Sequence[Any], where: str = "") -> NDArray[np.float64]:
    """Return some columns, shape (rows, columns). Names are compared as text, as files store them."""
    there = {str(name): name for name in frame.columns}
    _require(frame, [name for name in names if str(name) not in there], where)
    return np.stack([_column(frame, there[str(name)], where) for name in names], 1)


def _column(frame: Any, name: Any, where: str) -> NDArray[np.float64]:
    column = np.asarray(frame[name])
    if column.ndim != 1:
        raise ValueError(f"{where}two columns are named {name!r}: rename one of them")
    if column.dtype.kind == "M":
        raise ValueError(
            f"{where}column {name!r} contains dates: name it in time_column, or remove it from value_columns"
        )
    return to_float_array(column, f"{where}column {name!r}", "row")
