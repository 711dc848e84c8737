"""Figures for the report of a fit."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.series import Series
from cornn.fitting.evaluate import Evaluation
from cornn.plots.attributions import plot_attributions
from cornn.plots.style import (
    COLOURS,
    STYLES,
    canvas,
    plot_line,
    shorten,
    styled,
    use_log_scale,
    use_whole_ticks,
)

__all__ = ["draw_confusion", "draw_losses", "draw_predictions", "draw_residuals", "draw_sequence"]

MAX_CLASSES = 20  # above this, cells show no numbers
ROW_CHARACTERS = 20  # of all names of up to three classes, side by side below a confusion matrix
MAX_CHARACTERS = 32  # of the name of a target
MAX_FEATURES = 3  # of a sequence


@styled
def draw_losses(history: Sequence[dict[str, float]]) -> Any:
    """Plot training and validation loss by epoch."""
    figure, axes = canvas(size=(6.6, 3.0))
    panel = axes[0, 0]
    for number, name in enumerate(("training", "validation")):
        points = [(row["epoch"], row[name]) for row in history if name in row]
        if points:
            plot_line(panel, *zip(*points, strict=True), color=COLOURS[number], linestyle=STYLES[number], label=name)
    if any(row[name] > 0 for row in history for name in ("training", "validation") if name in row):
        use_log_scale(panel)
    use_whole_ticks(panel.xaxis)
    panel.set(xlabel="epoch", ylabel="loss")
    panel.legend(loc="upper right")
    return figure


@styled
def draw_confusion(evaluation: Evaluation) -> Any:
    """Draw a confusion matrix: one row per true class, shaded by share."""
    count = len(evaluation.classes)
    size = min(9.0, 2.5 + 0.45 * count)
    figure, axes = canvas(size=(size, size))
    panel = axes[0, 0]
    shares = [[value / max(1, sum(row)) for value in row] for row in evaluation.confusion]
    panel.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    if count <= MAX_CLASSES:
        for row, values in enumerate(evaluation.confusion):
            for column, value in enumerate(values):
                colour = "white" if shares[row][column] > 0.5 else "#333333"
                panel.text(column, row, str(value), ha="center", va="center", color=colour, fontsize=8)
    names = [shorten(name) for name in evaluation.classes]
    slanted = count > 3 or sum(map(len, names)) > ROW_CHARACTERS
    panel.set_xticks(range(count), names, rotation=45 if slanted else 0, ha="right" if slanted else "center")
    panel.set_yticks(range(count), names)
    panel.grid(False)
    panel.set(xlabel="predicted", ylabel="true")
    return figure


@styled
def draw_predictions(name: str, truth: Sequence[float], predictions: Sequence[float]) -> Any:
    """Plot predictions against true values."""
    figure, axes = canvas(size=(4.2, 3.4))
    panel = axes[0, 0]
    ends = [min(*truth, *predictions), max(*truth, *predictions)]
    panel.plot(ends, ends, color=COLOURS[6], linewidth=0.8)
    panel.plot(truth, predictions, ".", color=COLOURS[0], markersize=4, alpha=0.6)
    panel.set(xlabel=f"{shorten(name, MAX_CHARACTERS)}, true", ylabel="predicted")
    return figure


@styled
def draw_residuals(name: str, truth: Sequence[float], predictions: Sequence[float]) -> Any:
    """Plot a histogram of the residuals."""
    bins = max(5, min(30, round(len(truth) ** 0.5 * 2)))
    figure, axes = canvas(size=(4.2, 3.4))
    panel = axes[0, 0]
    panel.hist(
        [true - predicted for true, predicted in zip(truth, predictions, strict=True)], bins=bins, color=COLOURS[0]
    )
    panel.axvline(0, color=COLOURS[6], linewidth=0.8)
    panel.set(xlabel=f"{shorten(name, MAX_CHARACTERS)}, true minus predicted", ylabel="count")
    use_whole_ticks(panel.yaxis)
    return figure


@styled
def draw_sequence(series: Series, features: Sequence[str], attributions: NDArray[np.float64]) -> Any:
    """Plot one sequence, coloured by its attributions (steps, features): the features with the largest, up to three."""
    values = np.asarray(series.values).reshape(len(series.values), -1)
    attributions = attributions[: len(values)]
    features_shown: list[int] = sorted(np.argsort(-np.abs(attributions).sum(0), kind="stable")[:MAX_FEATURES].tolist())
    figure, axes = canvas(len(features_shown), 1, size=(3.6, 0.9 + len(features_shown)), sharex=True)
    clock = np.arange(len(values)) if series.times is None else np.asarray(series.times) - series.times[0]
    limit = float(np.abs(attributions).max()) or 1.0
    for panel, number in zip(axes[:, 0], features_shown, strict=True):
        plot_attributions(panel, clock, values[:, number], attributions[:, number], limit)
        if len(features) > 1:
            panel.set_title(shorten(features[number]))
    axes[-1, 0].set_xlabel("step" if series.times is None else "time")
    return figure
