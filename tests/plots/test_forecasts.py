"""Figures of forecasts."""

import numpy as np

from cornn.estimators import Series
from cornn.fitting.forecast_pictures import _list_dates
from cornn.fitting.readers.table import Table
from cornn.plots.forecasts import DrawnForecast, ForecastPanel, draw_errors_ahead, draw_forecasts


def labels(axes):
    axes.figure.canvas.draw()
    return [label.get_text() for label in axes.get_xticklabels()]


def test_steps_have_dates_if_the_file_has():
    times, calendar = Table("x.csv", {"t": ["2026-01", "2026-02", "2026-04"]}, None).times("t")
    format_step = _list_dates(calendar, Series(np.zeros(3), times), times[1] - times[0])
    assert format_step is not None
    assert [format_step(step) for step in range(-1, 5)] == ["", "2026-01", "2026-02", "2026-04", "2026-05", "2026-06"]
    assert _list_dates(None, Series(np.zeros(3), times), 1.0) is None
    forecast = DrawnForecast(np.arange(3.0, 5), np.zeros(2), {})
    dated = ForecastPanel("sales", np.arange(3), np.zeros(3), [forecast], format_step=format_step)
    plain = ForecastPanel("sales", np.arange(3), np.zeros(3), [forecast])
    assert {"2026-01", "2026-06"} <= set(labels(draw_forecasts([dated]).axes[0]))
    figure = draw_forecasts([plain])
    assert "2026-01" not in labels(figure.axes[0])
    assert [draw_forecasts([one]).axes[0].get_xlabel() for one in (dated, plain)] == ["", "step"]


def test_dates_of_months_and_hours_are_a_year_or_a_day_apart():
    def find_ticks(format_step):
        forecast = DrawnForecast(np.arange(150.0, 160), np.zeros(10), {})
        panel = ForecastPanel("sales", np.arange(60, 150), np.zeros(90), [forecast], format_step=format_step)
        return labels(draw_forecasts([panel]).axes[0])

    months = find_ticks(lambda step: f"{1990 + step // 12}-{step % 12 + 1:02}")
    hours = find_ticks(lambda step: f"2026-01-{step // 24 + 1:02} {step % 24:02}:00")
    assert len(months) > 4
    assert all(label.endswith("-01") for label in months)
    assert len(hours) > 2
    assert all(label.endswith((" 00:00", " 12:00")) for label in hours)


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
