"""Figures of forecasts."""

import matplotlib.dates
import numpy as np
import pytest

from cornn.estimators.series import ValidSeries
from cornn.fitting.forecast_pictures import find_axis
from cornn.fitting.readers.table import Table
from cornn.plots.forecasts import DrawnForecast, ForecastPanel, draw_errors_ahead, draw_forecasts


def labels(axes):
    axes.figure.canvas.draw()
    return [label.get_text() for label in axes.get_xticklabels()]


def axis(dates, horizon=2):
    times, calendar = Table("x.csv", {"t": dates}, None).times("t")
    return find_axis(calendar, ValidSeries(np.zeros((len(dates), 1)), times), times[1] - times[0], horizon)


def test_forecasts_are_drawn_at_their_dates():
    dated = axis(["2026-01", "2026-02", "2026-04"])
    assert [str(step)[:7] for step in dated.steps] == ["2026-01", "2026-02", "2026-04"]
    assert [str(step)[:7] for step in dated.ahead(3, 2)] == ["2026-05", "2026-06"]
    zoned = axis(["2026-03-29 01:00:00+01:00", "2026-03-29 03:00:00+02:00"], 1)
    assert [str(step)[11:16] for step in [*zoned.steps, *zoned.ahead(2, 1)]] == ["02:00", "03:00", "04:00"]
    for plain in (find_axis(None, ValidSeries(np.zeros((3, 1))), None, 2), axis(["9998-01-01", "9999-01-01"])):
        assert plain.steps.tolist() == list(range(len(plain.steps)))
        assert plain.ahead(2, 2).tolist() == [2, 3]


@pytest.mark.parametrize(("first", "step"), [("2015-01-31", "M"), ("2025-11-17", "D")])
def test_ticks_are_at_the_first_days_of_months(first, step):
    dates = (np.datetime64(first, step) + np.arange(92)).astype("datetime64[us]")
    forecast = DrawnForecast(dates[90:], np.zeros(2), {})
    (axes,) = draw_forecasts([ForecastPanel("sales", dates[:90], np.zeros(90), [forecast])]).axes
    assert len(labels(axes)) > 2
    assert {date.day for date in matplotlib.dates.num2date(axes.get_xticks())} == {1}
    (plain,) = draw_forecasts([ForecastPanel("sales", np.arange(90), np.zeros(90), [])]).axes
    assert [axes.get_xlabel(), plain.get_xlabel()] == ["", "step"]


def test_intervals_of_a_single_step_and_values_between_missing_ones_are_visible():
    ends = {0.9: (np.array([-1.0]), np.array([2.0]))}
    forecast = DrawnForecast(np.array([5.0]), np.zeros(1), ends)
    values = np.array([1.0, np.nan, 3.0, np.nan, 5.0])
    axes = draw_forecasts([ForecastPanel("sales", np.arange(5), values, [forecast])]).axes[0]
    (interval,) = axes.collections
    assert [path.vertices.tolist() for path in interval.get_paths()] == [[[5.0, -1.0], [5.0, 2.0]]]
    points = [line for line in axes.lines if line.get_marker() == "." and len(line.get_xdata()) == 3]
    assert [line.get_xdata().tolist() for line in points] == [[0, 2, 4]]


def test_steps_ahead_are_whole_numbers():
    assert all(label.isdigit() for label in labels(draw_errors_ahead({"cornn": [1.0, 2.0]}, None).axes[0]))
