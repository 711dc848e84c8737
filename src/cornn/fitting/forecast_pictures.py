"""What the page of a fitted forecaster shows: the series, the forecast with its intervals, and the backtest."""

from collections.abc import Callable
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
TO_MINUTES = len("2026-01-31 12:00")  # seconds and time zones would take too much space


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
        format_step = _list_dates(data.calendar, series, estimator.unit_)
        for column, feature in enumerate(estimator.targets_[: max(1, MAX_SERIES // series_drawn)]):
            name = data.features[feature]
            title = name if len(data.sequences) == 1 else f"{data.ids[number]}: {name}"
            values = series.values[:, feature]
            length, horizon = len(values), int(estimator.horizon)
            forecast = _forecast(estimator, series, length, column)
            first = max(0, length - max(MIN_STEPS, HORIZONS * horizon))
            if forecast is not None:
                steps = np.arange(first, length)
                coming.append(ForecastPanel(title, steps, values[first:], [forecast], format_step=format_step))
            if splits.test is not None:
                start = cut if cut is not None else length // 2
                origins = range(max(start, 1), length, max(horizon, -(-(length - start) // BACKTESTS)))
                forecasts = [_forecast(estimator, series, origin, column) for origin in origins]
                first = max(0, start - (length - start))
                backtests = [forecast for forecast in forecasts if forecast is not None]
                steps, first_test = np.arange(first, length), start if cut else None
                earlier.append(ForecastPanel(title, steps, values[first:], backtests, first_test, format_step))
    pictures = []
    if coming:
        pictures.append(("Forecast of the steps after the data, with its intervals", draw_forecasts(coming)))
    if earlier:
        pictures.append(("Backtest: forecasts at earlier origins, made without later values", draw_forecasts(earlier)))
    if splits.test is not None:
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


def _list_dates(calendar: Calendar | None, series: Any, unit: float | None) -> Callable[[int], str] | None:
    """Return what gives the date of a step of a series or after it; None if its times are not dates."""
    if calendar is None or series.times is None:
        return None
    times = np.asarray(series.times)

    def format_step(step: int) -> str:
        after = max(0, step - len(times) + 1)
        text = calendar.format(times[step - after] + after * (unit or 1.0)) if step >= 0 else ""
        return text[:TO_MINUTES]

    return format_step


def _forecast(estimator: Any, series: ValidSeries, origin: int, column: int) -> DrawnForecast | None:
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
    return DrawnForecast(np.arange(origin, origin + estimator.horizon, dtype=float), mean, intervals)
