"""Times of samples, as numbers: dates, months and quarters, and the gaps between samples."""

import re
from calendar import monthrange
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.series import SequenceData
from cornn.estimators.values import parse_number, to_float_array

__all__ = [
    "LONGEST",
    "MONTH",
    "add_zones",
    "are_last_days",
    "check_not_months",
    "choose_unit",
    "complete_spans",
    "compute_gaps",
    "count_months",
    "find_dotted_format",
    "is_date",
    "is_only_date",
    "parse_compact_dates",
    "parse_date",
    "parse_dates",
    "parse_month",
    "read_gaps",
    "scale_timespan",
]

MONTH = 365.2425 / 12 * 86400
"""Seconds of a mean month."""
LONGEST = 1e9  # steps of a gap; longer ones count as this many: their squares are finite, and the C code needs 32 bits
NAMES = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH_WORD = rf"({'|'.join(NAMES)})[a-z]*\.?"
PATTERNS = (
    (re.compile(r"(\d{4})[-/](\d{1,2})"), lambda match: (int(match[1]), int(match[2]))),
    (re.compile(rf"(\d{{4}})[-/ ]{_MONTH_WORD}"), lambda match: (int(match[1]), NAMES.index(match[2]) + 1)),
    (re.compile(rf"{_MONTH_WORD}[-/ ](\d{{4}})"), lambda match: (int(match[2]), NAMES.index(match[1]) + 1)),
    (re.compile(r"(\d{4})[-/ ]?q([1-4])"), lambda match: (int(match[1]), 3 * int(match[2]) - 2)),
)
"""1949-01; 1991 Jul; Jul 1991; 1970 Q1."""
_DOTTED = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{4})(?:[ T]+(\d{1,2}):(\d\d)(?::(\d\d))?)?")


def parse_month(text: str) -> int | None:
    """Return the number of a month since year 0, for a month or a quarter; None if it is something else."""
    for pattern, read in PATTERNS:
        if match := pattern.fullmatch(text.strip().lower()):
            year, month = read(match)
            return 12 * year + month - 1 if 1 <= month <= 12 else None
    return None


def parse_date(value: Any) -> datetime:
    """Return a date, with a time zone if it has one. Months and quarters are their first days.

    Raises:
        ValueError: If it is not a date.
    """
    if isinstance(value, str):
        text = value.strip()
        if match := _DOTTED.fullmatch(text):
            day, month, year, hour, minute, second = (int(part or 0) for part in match.groups())
            return datetime(year, month, day, hour, minute, second)
        months = parse_month(text)
        return datetime.fromisoformat(text) if months is None else datetime(months // 12, months % 12 + 1, 1)
    if hasattr(value, "to_timestamp"):  # a period of pandas
        value = value.to_timestamp()
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        raise ValueError(f"{value!r} is not a date")
    return value


def find_dotted_format(text: str) -> str | None:
    """Return the format of a date such as 31.01.2026 12:00, the day first, for `strftime`; None for others."""
    match = _DOTTED.fullmatch(text.strip())
    if match is None:
        return None
    return "%d.%m.%Y" + (" %H:%M" if match[4] else "") + (":%S" if match[6] else "")


def add_zones(dates: Sequence[datetime], cells: Sequence[Any], place: Callable[[int], str]) -> list[datetime]:
    """Return dates from `parse_date` with time zones: UTC if none has one.

    Args:
        dates: The dates.
        cells: The same as they were given, for errors.
        place: Function from the number of a date to its place, for errors.

    Raises:
        ValueError: If some dates have a time zone and others have none, so that their order is unknown.
    """
    for number, (moment, cell) in enumerate(zip(dates, cells, strict=True)):
        if (moment.tzinfo is None) != (dates[0].tzinfo is None):
            here, first = ("no", "one") if moment.tzinfo is None else ("a", "none")
            raise ValueError(
                f"{place(number)}: {str(cell)!r} has {here} time zone, but {str(cells[0])!r} has {first}: write all "
                "dates with a time zone, or all without"
            )
    return [moment if moment.tzinfo else moment.replace(tzinfo=UTC) for moment in dates]


def is_date(value: Any) -> bool:
    """Return whether a value is a date, not a number."""
    try:
        parse_date(value)
    except (TypeError, ValueError):
        return False
    return True


def is_only_date(value: Any) -> bool:
    """Return whether a value is a date and not a number as well, such as 20260131."""
    try:
        parse_number(value)
    except (TypeError, ValueError):
        return is_date(value)
    return False


def parse_dates(dates: Sequence[datetime]) -> NDArray[np.float64]:
    """Return dates in seconds. Dates on the same day of each month are evenly spaced, however long the months are."""
    months = count_months(dates)
    return np.array([date.timestamp() for date in dates]) if months is None else months.astype(np.float64) * MONTH


def parse_compact_dates(times: NDArray) -> list[datetime] | None:
    """Return dates that are written as numbers, such as 20260131; None if any of the numbers is something else."""
    if not _are_integers(times, digits=8):
        return None
    try:
        return [datetime.strptime(str(int(number)), "%Y%m%d").replace(tzinfo=UTC) for number in times.tolist()]
    except ValueError:
        return None


def check_not_months(times: NDArray, where: str) -> None:
    """Reject months that are written as numbers, such as 202601: as numbers, December and January are 89 apart."""
    if len(times) < 2 or not _are_integers(times, digits=6) or not ((times % 100 >= 1) & (times % 100 <= 12)).all():
        return
    ordered = np.unique(times)
    gaps, months = np.diff(ordered), np.diff(12 * (ordered // 100) + ordered % 100)
    if len(set(months.tolist())) < len(set(gaps.tolist())):
        raise ValueError(f"{where} contains months such as {times[0]:.0f}: write them like 2026-01")


def _are_integers(times: NDArray, digits: int) -> bool:
    """Return whether all times are integers of so many digits."""
    if times.dtype.kind not in "iuf" or not len(times) or not np.isfinite(times).all():
        return False
    return bool(((times == np.floor(times)) & (times >= 10 ** (digits - 1)) & (times < 10**digits)).all())


def count_months(dates: Sequence[datetime]) -> NDArray[np.int_] | None:
    """Return 12 * year + month of dates that are on the same day of each month, or on its last; None for others.

    Several sequences may have the same dates.
    """
    months = np.array([12 * date.year + date.month for date in dates])
    # Daylight saving time changes the time zone, not the local time.
    first = {date.replace(year=2000, month=1, day=1, tzinfo=None) for date in dates}
    same = len({date.day for date in dates}) == 1 or are_last_days(dates)
    count = len(set(months.tolist()))
    return months if count > 1 and len(first) == 1 and same and count == len(set(dates)) else None


def are_last_days(dates: Sequence[datetime]) -> bool:
    """Return whether all dates are the last days of their months."""
    return all(date.day == monthrange(date.year, date.month)[1] for date in dates)


def scale_timespan(timespan: Any, unit: float | None) -> NDArray[np.float64]:
    """Return the time since the previous sample of a stream in units of the usual one; NaN if it is unknown.

    Args:
        timespan: The time, a number or one per sensor.
        unit: Median time between the samples of the training data; None if they have no times.
    """
    if unit is None:
        raise ValueError("this estimator was fitted without times: omit timespan")
    values = np.asarray(timespan, np.float64)
    if (values < 0).any() or np.isinf(values).any():
        raise ValueError(f"timespan must be finite and not negative, got {timespan!r}")
    return values / unit


def choose_unit(sequences: Sequence[SequenceData]) -> float | None:
    """Return the median time between the samples of training data, which counts as one step; None without times."""
    if sequences[0].gaps is None:
        return None
    gaps = np.concatenate([np.asarray(sequence.gaps)[1:] for sequence in sequences])
    gaps = gaps[gaps > 0]
    return float(np.median(gaps)) if len(gaps) else 1.0


def complete_spans(spans: NDArray[np.float64], begins: NDArray[np.bool_] | bool) -> NDArray[np.float64]:
    """Return times in steps: 1 where they are unknown, or 0 before a first sample, and at most `LONGEST`.

    Args:
        spans: Times before samples, in steps.
        begins: Which samples are the first of their sequence.
    """
    return np.where(np.isnan(spans) | (begins & (spans == 0)), 1.0, np.minimum(spans, LONGEST))


def compute_gaps(times: Any, where: str, given: Any = None) -> NDArray[np.float64]:
    """Return the time since the previous sample; NaN for the first. Dates and durations are converted to seconds.

    Args:
        times: The times.
        where: What they belong to, for errors.
        given: The times as the user gave them, for errors, such as dates.
    """
    times = np.asarray(times)
    given = np.asarray(times if given is None else given)
    if times.dtype.kind == "M":
        times = (times - times.min()) / np.timedelta64(1, "s")
    elif times.dtype.kind == "m":
        times = times / np.timedelta64(1, "s")
    elif times.dtype.kind in "OUT" and times.ndim == 1 and all(map(is_date, times.tolist())):
        cells = times.tolist()
        dates = add_zones([parse_date(cell) for cell in cells], cells, lambda step: f"{where}, step {step}")
        times = parse_dates(dates)
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


def read_gaps(timespans: Any, number: int, sequence: SequenceData) -> NDArray[np.float64]:
    """Return the times since the previous sample that were given for one of the sequences."""
    gaps = to_float_array(timespans[number], f"timespans of sequence {number}")
    if gaps.shape != (len(sequence.values),):
        raise ValueError(f"timespans of sequence {number} have shape {gaps.shape}, expected ({len(sequence.values)},)")
    if not (gaps[1:] >= 0).all() or gaps[0] < 0:
        raise ValueError(f"timespans of sequence {number} must not be negative, nor NaN after the first")
    return gaps


def _format_time(time: Any) -> str:
    return str(np.datetime_as_string(time, unit="auto") if isinstance(time, np.datetime64) else time)
