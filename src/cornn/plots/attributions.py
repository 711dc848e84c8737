"""Figures of attributions: sequences, coloured by what each value contributed."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.plots.style import COLOURS, canvas, shorten, styled

__all__ = ["draw_attributions", "plot_attributions"]

MAX_FEATURES = 6  # that are drawn, those with the largest attributions
MAX_CHARACTERS = 24  # of a feature's name next to its panel
AGAINST, NEUTRAL, FOR = COLOURS[0], "#d9d9d9", COLOURS[1]


@styled
def draw_attributions(
    values: Any,
    attributions: NDArray[np.float64],
    *,
    times: Any = None,
    features: Sequence[str] = (),
    title: str = "",
    label: str = "attribution",
) -> Any:
    """Draw one sequence, coloured by its attributions: orange for the prediction, blue against it.

    Args:
        values: The sequence, shape (steps, features) or (steps,); NaN marks a missing value.
        attributions: Its attributions, shape (steps, features), as the estimators' `attributions` returns them; steps
            past the end of the sequence are ignored.
        times: Times of the steps, shape (steps,): numbers or dates. Defaults to the numbers of the steps.
        features: Names of the features.
        title: Title of the figure.
        label: Label of the colour bar.

    Returns:
        The figure, with one panel per feature; of more than six those with the largest attributions.

    Examples:
        >>> figure = draw_attributions(X[0], classifier.attributions(X)[0])
        >>> figure.savefig("attributions.png")
    """
    values = np.asarray(values, np.float64).reshape(len(values), -1)
    attributions = np.asarray(attributions)[: len(values)].reshape(values.shape)
    names = list(features) or [f"feature {number}" for number in range(values.shape[1])]
    size = np.abs(attributions).sum(0)
    features_shown = sorted(np.argsort(-size, kind="stable")[:MAX_FEATURES].tolist())
    figure, axes = canvas(len(features_shown), 1, size=(6.8, 0.7 + 1.6 * len(features_shown)), sharex=True)
    clock = np.arange(len(values)) if times is None else np.asarray(times)
    limit = float(np.abs(attributions).max()) or 1.0
    collection = None
    for panel, number in zip(axes[:, 0], features_shown, strict=True):
        collection = plot_attributions(panel, clock, values[:, number], attributions[:, number], limit)
        if len(names) > 1:
            panel.set_ylabel(shorten(names[number], MAX_CHARACTERS))
    axes[-1, 0].set_xlabel("step" if times is None else "time")
    axes[0, 0].set_title(title.replace("$", r"\$"))
    figure.colorbar(
        collection, ax=axes[:, 0].tolist(), label=label, aspect=12 * len(features_shown), pad=0.01, shrink=0.9
    )
    return figure


def plot_attributions(panel: Any, clock: Any, values: NDArray, attributions: NDArray, limit: float) -> Any:
    """Plot one feature in a panel: a thin line, and a thick one whose colour is the attribution.

    Args:
        panel: The axes.
        clock: Times of the steps, shape (steps,): numbers or dates.
        values: Values, shape (steps,).
        attributions: Attributions, shape (steps,).
        limit: Attribution of the strongest colour.

    Returns:
        The coloured line, for a colour bar.
    """
    from matplotlib.collections import LineCollection
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.dates import AutoDateLocator, ConciseDateFormatter, date2num

    clock = np.asarray(clock)
    if clock.dtype.kind == "M":
        clock, locator = date2num(clock), AutoDateLocator()
        panel.xaxis.set_major_locator(locator)
        panel.xaxis.set_major_formatter(ConciseDateFormatter(locator))
    clock = clock.astype(np.float64)
    known = ~np.isnan(values)
    points = np.stack([clock[known], values[known]], 1)
    # Each value has the halves of the two segments that meet in it.
    middles = (points[1:] + points[:-1]) / 2
    before = np.concatenate([points[:1], middles])
    after = np.concatenate([middles, points[-1:]])
    colours = LinearSegmentedColormap.from_list("attributions", [AGAINST, NEUTRAL, FOR])
    lines = LineCollection(
        [*np.stack([before, points, after], 1)], cmap=colours, linewidths=3.2, capstyle="round", joinstyle="round"
    )
    lines.set_array(attributions[known])
    lines.set_clim(-limit, limit)
    panel.add_collection(lines)
    panel.plot(*points.T, color="#444444", linewidth=0.7)
    if len(points) == 1:  # a line alone would not show it
        panel.scatter(*points.T, c=colours(0.5 + 0.5 * attributions[known] / limit), s=18)
    for step in np.flatnonzero(~known):  # a missing value has a mark of its colour at the lower end
        share = 0.5 + 0.5 * attributions[step] / limit
        panel.plot(
            clock[step], 0.02, "|", color=colours(share), transform=panel.get_xaxis_transform(), markersize=7, mew=2
        )
    panel.margins(x=0.01)
    return lines
