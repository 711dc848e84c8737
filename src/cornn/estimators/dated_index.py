"""Times of samples in the index of pandas objects: dates, periods, durations, and floats."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.series import Series
from cornn.estimators.times import add_zones, compute_gaps, is_date, is_only_date, parse_date, parse_dates
from cornn.estimators.values import is_frame
from cornn.forecasting.series import regular_steps

__all__ = ["are_even", "check_future_dates", "find_gap", "index_times", "is_dated", "read_date_gaps"]

LONGEST_EVEN = 27 * 86400  # seconds between evenly spaced dates that are not read one by one


def is_dated(X: Any) -> bool:
    """Return whether X has an index of dates, periods or durations, or is no frame and has one of floats.

    The rows of a frame with an index of floats may be series, named by numbers.
    """
    kind = _find_kind(X)
    return kind in ("M", "m") or hasattr(getattr(X, "index", None), "to_timestamp") or (kind == "f" and not is_frame(X))


def _find_kind(X: Any) -> str | None:
    """Return the kind of numpy's type of the index of X; None if X has no index."""
    return getattr(getattr(getattr(X, "index", None), "dtype", None), "kind", None)


def index_times(index: Any) -> NDArray | None:
    """Return the times of a pandas index of `index_gaps`; None if they are evenly spaced."""
    gaps = index_gaps(index)
    return None if len(gaps) > 1 and are_even(gaps) else np.concatenate([[0.0], np.cumsum(gaps[1:])])


def index_gaps(index: Any, where: str = "the index of X") -> NDArray[np.float64]:
    """Return the time before each date, period, duration or float of a pandas index; NaN for the first.

    Those of dates, periods and durations are in seconds.
    """
    index = index.to_timestamp() if hasattr(index, "to_timestamp") else index
    if index.dtype.kind == "f":
        times = index.to_numpy(np.float64)
        if (np.diff(times) <= 0).any():
            raise ValueError(
                f"{where} does not increase: sort the rows by it if it is their time, or drop it with "
                "reset_index(drop=True)"
            )
        return compute_gaps(times, where)
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
    """Return the time before each sample of each sequence of a list by its index: of dates, texts or floats.

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
        timed = is_dated(part) or _find_kind(part) == "f"
        gaps.append(_read_item_gaps(part.index, where) if timed else _read_text_gaps(part, where))
    return gaps


def _read_text_gaps(part: Any, where: str) -> NDArray[np.float64] | None:
    """Return the time before each sample of a pandas object whose index consists of dates as text, or None."""
    if _find_kind(part) not in ("O", "U"):
        return None
    cells = part.index.tolist()
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


def check_future_dates(X: Any, future: Any, unit: float | None = None) -> None:
    """Check that the dates of covariates, if they and X have some, increase, and are those of the steps after X.

    Args:
        X: One series, or a list of series.
        future: Their covariates.
        unit: Time of one step; None if unknown.
    """
    several = all(isinstance(argument, list | tuple) for argument in (X, future))
    for series, ahead in zip(X, future, strict=False) if several else [(X, future)]:
        if not is_dated(series) or not is_dated(ahead) or not len(ahead) or not len(series):
            continue
        index_gaps(ahead.index, "the index of future")
        given = [series.index[-1], *ahead.index]
        kinds = {_find_kind(series), _find_kind(ahead)}
        if not kinds & {"m", "f"}:
            given = add_zones([parse_date(time) for time in given], given, lambda _: "the index of future")
            times = parse_dates(given)
        elif len(kinds) > 1:
            continue
        else:
            times = np.array([time.total_seconds() for time in given] if "m" in kinds else given)
        last, first = given[:2]
        if first <= last:
            raise ValueError(f"future starts at {first}, but X ends at {last}: pass the rows of the steps after X")
        steps = np.arange(len(times)) if unit is None else regular_steps(np.diff(times, prepend=np.nan), unit)
        wrong = np.flatnonzero(steps != np.arange(len(times)))
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(
                f"row {row - 1} of future, {given[row]}, is {steps[row]} steps after the end of X, {last}: pass the "
                "rows of the next steps, without gaps"
            )


def find_gap(X: Any) -> float | None:
    """Return the median time between the samples of X in seconds, by its index of dates or periods.

    Args:
        X: One series by itself, or a list of series.

    Returns:
        The time; None without dates, or if it differs from series to series.
    """
    medians = [np.median(gaps[1:]) for gaps in read_date_gaps(X) if gaps is not None and len(gaps) > 1]
    return float(medians[0]) if medians and np.allclose(medians, medians[0], rtol=1e-6) else None
