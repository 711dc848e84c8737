"""Figures of forecasts: the series with what comes next, the backtest, errors by step ahead, and the pool."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.plots.style import COLOURS, STYLES, canvas, plot_line, set_panel_title, styled, use_whole_ticks

__all__ = ["DrawnForecast", "ForecastPanel", "draw_errors_ahead", "draw_forecasts", "draw_members"]

MAX_MEMBERS = 12


@dataclass(frozen=True)
class DrawnForecast:
    """One forecast of one series, with its intervals if it has some.

    Attributes:
        steps: Steps that are forecast, shape (horizon,): numbers, or dates if those of the series are dates.
        mean: Forecasts, shape (horizon,).
        intervals: Level -> lower and upper ends, each of shape (horizon,); the widest first.
    """

    steps: NDArray[Any]
    mean: NDArray[np.float64]
    intervals: Mapping[float, tuple[NDArray[np.float64], NDArray[np.float64]]]


@dataclass(frozen=True)
class ForecastPanel:
    """What one panel of `draw_forecasts` shows.

    Args:
        title: The title.
        steps: Steps of the series, shape (steps,): numbers or dates.
        values: Values of the series, shape (steps,).
        forecasts: The forecasts.
        cut: The first test step, if any.
    """

    title: str
    steps: NDArray[Any]
    values: NDArray[np.float64]
    forecasts: Sequence[DrawnForecast]
    cut: Any = None


@styled
def draw_forecasts(panels: Sequence[ForecastPanel]) -> Any:
    """Draw series and forecasts, one panel each, and return the figure."""
    figure, axes = canvas(len(panels), 1, size=(6.8, 2.6 * len(panels)))
    for panel, content in zip(axes[:, 0], panels, strict=True):
        plot_line(panel, content.steps, content.values, color=COLOURS[6], linewidth=1.1, label="series")
        for number, forecast in enumerate(content.forecasts):
            for level, (low, high) in forecast.intervals.items():
                shade = 0.35 if level == min(forecast.intervals) else 0.18
                label = f"{100 * level:.0f} % interval" if number == 0 else None
                options = {"color": COLOURS[0], "alpha": shade, "label": label}
                if len(forecast.steps) == 1:  # there is no area between single points
                    panel.vlines(forecast.steps, low, high, linewidth=8, **options)
                else:
                    panel.fill_between(forecast.steps, low, high, linewidth=0, **options)
            marker = "." if len(forecast.steps) < 4 else None
            label = "forecast" if number == 0 else None
            panel.plot(forecast.steps, forecast.mean, color=COLOURS[0], marker=marker, label=label)
        if content.cut is not None:
            panel.axvline(content.cut, color="#999999", linewidth=0.8, linestyle=":")
        panel.set_title(content.title.replace("$", r"\$"))
        if content.steps.dtype.kind == "M":
            _use_date_ticks(panel.xaxis)
        else:
            use_whole_ticks(panel.xaxis)
    if panels[-1].steps.dtype.kind != "M":
        axes[-1, 0].set_xlabel("step")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower left", ncols=4)
    return figure


def _use_date_ticks(axis: Any) -> None:
    """Put the ticks of an axis at round dates, such as the first days of months."""
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter

    locator = AutoDateLocator(minticks=3, maxticks=8)
    axis.set_major_locator(locator)
    axis.set_major_formatter(ConciseDateFormatter(locator))


@styled
def draw_errors_ahead(ahead: Mapping[str, Sequence[float]], coverage: Sequence[float] | None) -> Any:
    """Draw the error of each method, and the coverage of the intervals, by the number of steps ahead.

    Args:
        ahead: Method -> root mean square error of each step ahead.
        coverage: Share of the values in the interval of level 0.9, for each step ahead, or None.
    """
    figure, axes = canvas(1, 1 if coverage is None else 2, size=(6.8, 3.2))
    first = axes[0, 0]
    for number, (name, errors) in enumerate(ahead.items()):
        steps = range(1, len(errors) + 1)
        first.plot(steps, errors, color=COLOURS[number], linestyle=STYLES[number], marker=".", label=name)
    first.set_ylim(bottom=0)
    first.set_xlabel("steps ahead")
    use_whole_ticks(first.xaxis)
    first.set_ylabel("root mean square error")
    set_panel_title(first, "a", "errors")
    figure.legend(loc="outside lower left", ncols=4)
    if coverage is not None:
        second = axes[0, 1]
        second.plot(range(1, len(coverage) + 1), [100 * share for share in coverage], color=COLOURS[0], marker=".")
        second.axhline(90, color=COLOURS[6], linewidth=0.8, linestyle="--")
        second.set(ylim=(0, 102), xlabel="steps ahead")
        use_whole_ticks(second.xaxis)
        second.set_ylabel("% of the values inside")
        set_panel_title(second, "b", "coverage of the 90 % interval")
    return figure


@styled
def draw_members(weights: Mapping[str, float]) -> Any:
    """Draw the weights of the members of a pool, the largest first."""
    largest = sorted(weights.items(), key=lambda pair: -pair[1])[:MAX_MEMBERS]
    figure, axes = canvas(size=(6.6, 0.8 + 0.26 * len(largest)))
    panel = axes[0, 0]
    panel.barh(range(len(largest)), [100 * weight for _, weight in largest], color=COLOURS[0])
    panel.set_yticks(range(len(largest)), [name for name, _ in largest])
    panel.invert_yaxis()
    panel.set_xlabel("weight, %")
    panel.grid(axis="y", visible=False)
    return figure
