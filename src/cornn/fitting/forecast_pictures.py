"""What the page of a fitted forecaster shows: the series, the forecast with its intervals, and the backtest."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.series import ValidSeries
from cornn.fitting.fit import FitResult
from cornn.fitting.readers.calendar import Calendar
from cornn.forecasting.series import count_known
from cornn.plots.forecasts import DrawnForecast, ForecastPanel, draw_errors_ahead, draw_forecasts, draw_members

__all__ = ["draw_forecast_pictures"]

MAX_SERIES = 3  # drawn
MIN_STEPS = 40  # of a drawn series before its forecast
HORIZONS = 8  # before the forecast
BACKTESTS = 6  # forecasts drawn over the test split
LEVELS = (0.9, 0.5)


def draw_forecast_pictures(finished: FitResult) -> list[tuple[str, Any]]:
    """Draw the figures of a fitted forecaster.

    Args:
        finished: The result of `fit`.

    Returns:
        Captions and figures.
    """
    estimator: Any = finished.estimator
    splits = finished.splits
    data = splits.training if splits.test is None else splits.test
    cuts = splits.cuts or [None] * len(data.sequences)
    coming, earlier = [], []
    series_drawn = min(MAX_SERIES, len(data.sequences))
    for number, (series, cut) in enumerate(zip(data.sequences[:series_drawn], cuts[:series_drawn], strict=True)):
        axis = find_axis(data.calendar, series, estimator.unit_, int(estimator.horizon))
        for column, feature in enumerate(estimator.targets_[: max(1, MAX_SERIES // series_drawn)]):
            name = data.features[feature]
            title = name if len(data.sequences) == 1 else f"{data.ids[number]}: {name}"
            values = series.values[:, feature]
            length, horizon = len(values), int(estimator.horizon)
            forecast = _forecast(estimator, series, axis, length, column)
            first = max(0, length - max(MIN_STEPS, HORIZONS * horizon))
            if forecast is not None:
                coming.append(ForecastPanel(title, axis.steps[first:], values[first:], [forecast]))
            if splits.test is not None:
                start = cut if cut is not None else length // 2
                origins = range(max(start, 1), length, max(horizon, -(-(length - start) // BACKTESTS)))
                forecasts = [_forecast(estimator, series, axis, origin, column) for origin in origins]
                first = max(0, start - (length - start))
                backtests = [forecast for forecast in forecasts if forecast is not None]
                first_test = axis.steps[start] if cut else None
                earlier.append(ForecastPanel(title, axis.steps[first:], values[first:], backtests, first_test))
    pictures = []
    if coming:
        pictures.append(("Forecast of the steps after the data, with its intervals", draw_forecasts(coming)))
    if earlier:
        pictures.append(("Backtest: forecasts at earlier origins, made without later values", draw_forecasts(earlier)))
    if splits.test is not None and estimator.horizon > 1:
        table = next(
            scores for scores in estimator.evaluate(splits.training.sequences, data.sequences, splits.cuts) if scores
        )
        caption = "Error by steps ahead, and how many values lie in the interval, over all origins of the test split"
        pictures.append((caption, draw_errors_ahead(table.ahead, table.coverage)))
    if estimator.method_ == "pool":
        weights = {str(member): weight for member, weight in estimator.models_[0].pool.weights.items() if weight > 0}
        pictures.append(
            ("Members of the pool and their weights; a number in brackets is the season", draw_members(weights))
        )
    return pictures


@dataclass(frozen=True, eq=False)
class TimeAxis:
    """Where the samples of a series and its forecasts are drawn: at their dates, or at the numbers of their steps.

    Args:
        times: Times of the samples, shape (steps,).
        unit: Time between two steps of a forecast.
        calendar: Of times that are dates; None if they are the numbers of steps.
    """

    times: NDArray[np.float64]
    unit: float
    calendar: Calendar | None

    @cached_property
    def steps(self) -> NDArray[Any]:
        """Positions of the samples, shape (steps,)."""
        return self._place(self.times)

    def ahead(self, origin: int, horizon: int) -> NDArray[Any]:
        """Return the positions of a forecast from the first `origin` samples, shape (horizon,)."""
        return self._place(self.times[origin - 1] + self.unit * np.arange(1, horizon + 1))

    def _place(self, times: NDArray[np.float64]) -> NDArray[Any]:
        if self.calendar is None:
            return times
        moments = (self.calendar.find_moment(time) for time in times.tolist())
        return np.array([moment and moment.replace(tzinfo=None) for moment in moments], "datetime64[us]")


def find_axis(calendar: Calendar | None, series: ValidSeries, unit: float | None, horizon: int) -> TimeAxis:
    """Return the axis of a series: its dates, or its steps if it has none or they end beyond the year 9999."""
    if calendar is not None and series.times is not None:
        dated = TimeAxis(np.asarray(series.times), unit or 1.0, calendar)
        if not np.isnat(dated.ahead(len(dated.times), horizon)).any():
            return dated
    return TimeAxis(np.arange(float(len(series.values))), 1.0, None)


def _forecast(estimator: Any, series: ValidSeries, axis: TimeAxis, origin: int, column: int) -> DrawnForecast | None:
    """Forecast one target from the first `origin` samples, without those at their end that have no target.

    Returns:
        The forecast; None if the target has no value before it, or covariates of the steps ahead are unknown.
    """
    values = series.values
    if np.isnan(values[:origin, estimator.targets_[column]]).all():
        return None
    origin = count_known(values[:origin, estimator.targets_])
    known = series.take(origin)
    options: dict[str, Any] = {}
    if estimator.known_future_:
        future = values[origin : origin + estimator.horizon, estimator.known_future_]
        if len(future) < estimator.horizon or np.isnan(future).any():
            return None
        options["future"] = future[None]
    intervals: dict[float, tuple[NDArray, NDArray]] = {}
    if estimator.method_ == "pool":
        for level in LEVELS:
            low, high = estimator.predict_interval([known], level, **options)
            intervals[level] = (low[0, :, column], high[0, :, column])
    mean = estimator.predict([known], **options)[0, :, column]
    return DrawnForecast(axis.ahead(origin, estimator.horizon), mean, intervals)
