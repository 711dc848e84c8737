"""What people bring, read into one form: a list of `Series`. Every complaint names the sequence and the step."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cornn._extras import missing_extra

__all__ = [
    "Columns",
    "Series",
    "gaps_between",
    "grouped",
    "is_frame",
    "numbers",
    "read_sequences",
    "sequence_ids",
    "shown",
    "target_of",
]


@dataclass(frozen=True, eq=False)
class Series:
    """One sequence. Lists of these go wherever lists of arrays go, through scikit-learn's splitting too.

    values: (time, features), or (time) for a single feature; NaN where a value is missing.
    times: (time), when each was taken, rising, numbers or dates; None: evenly.
    """

    values: Any
    times: Any = None


class Columns(NamedTuple):
    """Of a frame in long form, with one row a sample."""

    id: str | None
    time: str | None
    values: Sequence[str] | None


class Read(NamedTuple):
    """A sequence as it was read."""

    values: NDArray[np.float64]  # (time, features)
    gaps: NDArray[np.float64] | None  # (time): the time since the sample before; NaN for the first, where unknown


def is_frame(X: Any) -> bool:
    """Whether X is a table with named columns: pandas' or one that is like it."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


def sequence_ids(frame: Any, column: str) -> tuple[NDArray, list[NDArray]]:
    """The ids in the order in which they appear, and the rows of each."""
    _require(frame, [column])
    return grouped(np.asarray(frame[column]))


def grouped(ids: NDArray) -> tuple[NDArray, list[NDArray]]:
    """Each id once, in the order in which they appear, and the places of each. (rows)"""
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rows = np.split(np.argsort(number, kind="stable"), np.cumsum(np.bincount(number))[:-1])
    return ids[np.sort(first)], [rows[index] for index in order]


def target_of(frame: Any, y: Any, column: str) -> Any:
    """One target a sequence of a long frame: y names a column, or is indexed by the ids, or is in their order."""
    ids, rows = sequence_ids(frame, column)
    if isinstance(y, str):
        _require(frame, [y])
        values = np.asarray(frame[y])
        for name, own in zip(ids, rows, strict=True):
            if (values[own] != values[own[0]]).any():
                raise ValueError(
                    f"column {y!r} changes within sequence {shown(name)}: a target is one value a sequence"
                )
        return values[[own[0] for own in rows]]
    if hasattr(y, "loc") and set(ids) <= set(y.index):
        return np.asarray(y.loc[ids])
    return y


def read_sequences(X: Any, columns: Columns, timespans: Any = None) -> list[Read]:
    """X: (sequences, time, features), (sequences, time), a list of arrays or `Series`, or a frame.

    timespans: the time since the sample before, in the layout of X without features; or (time) for all sequences.
    """
    if is_frame(X) and columns.id is not None:
        if timespans is not None:
            raise ValueError("a frame has its times in a column: set time_column, and leave timespans out")
        return _long(X, columns)
    if hasattr(X, "toarray") or hasattr(X, "todense"):
        raise TypeError("sparse input is not supported: give a dense array, X.toarray()")
    if is_frame(X):
        X = np.asarray(X)
    if hasattr(X, "detach"):
        X = X.detach().cpu().numpy()
    if not isinstance(X, list | tuple):
        X = np.asarray(X)
        if np.iscomplexobj(X):
            raise ValueError("Complex data not supported: give real numbers, for instance real and imaginary parts")
        if X.ndim == 0 or (X.ndim == 1 and X.dtype != object):
            raise ValueError(
                f"X has shape {X.shape}, expected (sequences, time, features) or (sequences, time). Reshape your data "
                "with X.reshape(1, -1) if it is a single sequence"
            )
    if len(X) == 0:
        raise ValueError("X holds no sequences: 0 sample(s) were given, at least 1 is needed")
    if isinstance(X, np.ndarray) and X.ndim > 1 and 0 in X.shape[1:]:
        raise ValueError(f"X has no steps: 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    sequences = [_sequence(item, number) for number, item in enumerate(X)]
    if timespans is not None:
        single = isinstance(timespans, np.ndarray) and timespans.ndim == 1 and timespans.dtype != object
        if not single and len(timespans) != len(sequences):
            raise ValueError(f"X has {len(sequences)} sequences and timespans {len(timespans)}")
        timespans = [timespans] * len(sequences) if single else timespans
        sequences = [own._replace(gaps=_gaps_of(timespans, number, own)) for number, own in enumerate(sequences)]
    _check_alike(sequences)
    return sequences


def _sequence(item: Any, number: int) -> Read:
    series = item if isinstance(item, Series) else Series(item)
    values = numbers(series.values, f"sequence {number}")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"sequence {number} has shape {values.shape}, expected (time, features) or (time)")
    if len(values) == 0:
        raise ValueError(f"sequence {number} is empty: leave it out, a sequence needs at least one step")
    gaps = None if series.times is None else gaps_between(series.times, f"sequence {number}")
    if gaps is not None and len(gaps) != len(values):
        raise ValueError(f"sequence {number} has {len(values)} steps and {len(gaps)} times")
    return Read(values, gaps)


def numbers(values: Any, where: str) -> NDArray[np.float64]:
    """An array of float64; what is no number is named. NaN and None are missing values, infinity is refused."""
    array = np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)
    if array.dtype == object:
        # pandas has a missing value of its own, which is no number.
        array = array.copy()
        array[np.vectorize(lambda value: type(value).__name__ == "NAType", otypes=[bool])(array)] = None
    if np.iscomplexobj(array):
        raise ValueError(f"{where}: Complex data not supported, give real numbers")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        for place, value in np.ndenumerate(array):
            try:
                float("nan" if value is None else value)
            except (TypeError, ValueError):
                at = ", ".join(f"{name} {index}" for name, index in zip(("step", "feature"), place, strict=False))
                error = (
                    f"{where}, {at}: {shown(value)} is no number, the argument must be a string of digits or a real "
                    "number (NaN if it is missing)"
                )
                raise (ValueError if isinstance(value, str) else TypeError)(error) from None
        raise
    if np.isinf(array).any():
        step = np.argwhere(np.isinf(array))[0][0]
        raise ValueError(f"{where}, step {step} holds infinity: replace it, NaN stands for a missing value")
    return array


def gaps_between(times: Any, where: str) -> NDArray[np.float64]:
    """The time since the sample before; NaN for the first. Dates count in seconds."""
    times = np.asarray(times)
    if times.dtype.kind == "M":
        times = (times - times.min()) / np.timedelta64(1, "s")
    times = numbers(times, where)
    if np.isnan(times).any():
        raise ValueError(f"{where}: the time of step {np.argwhere(np.isnan(times))[0][0]} is missing")
    gaps = np.diff(times, prepend=np.nan)
    if (gaps[1:] <= 0).any():
        step = int(np.argmax(gaps[1:] <= 0)) + 1
        raise ValueError(f"{where}: times must rise, step {step} is at {times[step]} after {times[step - 1]}")
    return gaps


def _gaps_of(timespans: Any, number: int, sequence: Read) -> NDArray[np.float64]:
    own = numbers(timespans[number], f"timespans of sequence {number}")
    if own.shape != (len(sequence.values),):
        raise ValueError(f"timespans of sequence {number} have shape {own.shape}, it has {len(sequence.values)} steps")
    if not (own[1:] >= 0).all():
        raise ValueError(f"timespans of sequence {number} must be 0 or more")
    return own


def _check_alike(sequences: list[Read]) -> None:
    first = sequences[0]
    for number, sequence in enumerate(sequences):
        if sequence.values.shape[1] != first.values.shape[1]:
            raise ValueError(
                f"sequence {number} has {sequence.values.shape[1]} features, sequence 0 has {first.values.shape[1]}: "
                "all need the same (features are columns, steps are rows)"
            )
        if (sequence.gaps is None) != (first.gaps is None):
            raise ValueError(f"sequence {number} and sequence 0 differ: only one of them has times")


def shown(value: Any) -> str:
    """Without the names of numpy's types."""
    return repr(value.item() if isinstance(value, np.generic) else value)


def _require(frame: Any, names: Sequence[str]) -> None:
    for name in names:
        if name not in frame.columns:
            raise ValueError(f"no column {name!r}: there are {', '.join(map(str, frame.columns))}")


def _long(frame: Any, columns: Columns) -> list[Read]:
    assert columns.id is not None
    used = (columns.id, columns.time)
    names = list(columns.values or [name for name in frame.columns if name not in used])
    _require(frame, [*names, *filter(None, used)])
    if not names:
        raise ValueError(f"no column of values beside {columns.id!r}: name them in value_columns")
    if len(frame) == 0:
        raise ValueError("the frame has no rows")
    ids, rows = sequence_ids(frame, columns.id)
    times = None if columns.time is None else _times(frame, columns.time)
    values = [_column(frame, name) for name in names]
    found = []
    for name, own in zip(ids, rows, strict=True):
        if times is not None:
            own = own[np.argsort(times[own], kind="stable")]
        gaps = None if times is None else gaps_between(times[own], f"sequence {shown(name)}")
        found.append(Read(np.stack([column[own] for column in values], 1), gaps))
    return found


def _times(frame: Any, name: str) -> NDArray:
    """Numbers or dates; dates may be texts, and have a time zone."""
    times = np.asarray(frame[name])
    if times.dtype.kind not in "OUST":
        return times
    with contextlib.suppress(TypeError, ValueError):
        return times.astype(np.float64)
    try:
        import pandas
    except ImportError:
        raise missing_extra("estimators", "dates need pandas", "or use numbers for times") from None
    try:
        found = pandas.to_datetime(pandas.Series(times), utc=True, format="ISO8601")
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"column {name!r} holds what is no time: use numbers, or dates like 2026-01-31 12:00:00"
        ) from error
    return found.dt.tz_localize(None).to_numpy()


def _column(frame: Any, name: str) -> NDArray[np.float64]:
    column = np.asarray(frame[name])
    if column.dtype.kind == "M":
        raise ValueError(f"column {name!r} holds dates: name it in time_column, or leave it out of value_columns")
    try:
        return numbers(column, f"column {name!r}")
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace(", step ", ", row ")) from None
