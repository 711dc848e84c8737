"""The dates of a file, so that the dates of forecasts can be written like them."""

from calendar import monthrange
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from typing import Any

from cornn.estimators.times import MONTH, are_last_days, count_months, find_dotted_format, parse_month

__all__ = ["Calendar", "find_calendar"]


@dataclass(frozen=True)
class Calendar:
    """How the dates of a column are written.

    Args:
        first: The first date.
        monthly: Whether times are whole months, in mean months; otherwise they are seconds.
        last_days: Whether monthly dates are the last days of their months.
        words: What a date consists of: "quarter", "month", "day", "compact" for a day without dashes, "time" for day
            and time, or a format of `strftime`.
        zone: The time zone of the last date; None if dates have none.
    """

    first: datetime
    monthly: bool
    last_days: bool
    words: str
    zone: tzinfo | None

    def format(self, time: float) -> str:
        """Return a time, as the reader gives it, as a date; an empty text beyond the year 9999."""
        moment = self.find_moment(time)
        if moment is None:
            return ""
        if self.words == "quarter":
            return f"{moment.year} Q{(moment.month + 2) // 3}"
        if self.words == "month":
            return f"{moment.year:04}-{moment.month:02}"
        if self.words == "compact":
            return f"{moment:%Y%m%d}"
        if "%" in self.words:
            return moment.strftime(self.words)
        if self.words == "day":
            return moment.date().isoformat()
        return moment.replace(tzinfo=self.zone).isoformat(" ")

    def find_moment(self, time: float) -> datetime | None:
        """Return a time, as the reader gives it, in the time zone of the last date; None beyond the year 9999."""
        try:
            if self.monthly:
                return self._in_months(time)
            return datetime.fromtimestamp(time, self.zone or UTC)
        except (OverflowError, ValueError, OSError):
            return None

    def _in_months(self, time: float) -> datetime:
        year, month = divmod(round(time / MONTH) - 1, 12)
        last = monthrange(year, month + 1)[1]
        return self.first.replace(year=year, month=month + 1, day=last if self.last_days else min(self.first.day, last))


def find_calendar(values: Sequence[Any] | None, dates: Sequence[datetime]) -> Calendar:
    """Return the calendar of a column.

    Args:
        values: The cells of the column; None if they are numbers such as 20260131.
        dates: The same as dates, of which those without a time zone are in UTC.
    """
    last, zone = max(range(len(dates)), key=lambda row: dates[row]), None
    value = None if values is None else values[last]
    if value is None:
        words = "compact"
    elif isinstance(value, str) and parse_month(value) is not None:
        words = "quarter" if "q" in value.lower() else "month"
    elif isinstance(value, str) and (dotted := find_dotted_format(value)) is not None:
        words = dotted
    else:
        moment = datetime.fromisoformat(value.strip()) if isinstance(value, str) else value
        zone = moment.tzinfo if isinstance(moment, datetime) else None
        midnight = all(date.hour == date.minute == date.second == date.microsecond == 0 for date in dates)
        words = "day" if midnight and zone is None else "time"
    monthly = count_months(dates) is not None
    return Calendar(dates[0], monthly, monthly and are_last_days(dates), words, zone)
