"""The plot of a sweep: microseconds per step against one size."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cornn._extras import missing_extra
from cornn.lab.bench.sweep import Point
from cornn.plots.style import canvas, save

# Okabe and Ito's palette, safe for colour-blind readers; markers differ as well.
THIN, BOLD = 1.4, 2.4
STYLES = {
    "plain loop": ("#000000", "x", THIN),
    "torchrecurrent coRNN": ("#999999", "+", THIN),
    "nn.LSTM": ("#0072B2", "s", THIN),
    "nn.GRU": ("#56B4E9", "^", THIN),
    "nn.RNN": ("#009E73", "v", THIN),
    "coRNN, portable": ("#E69F00", "d", BOLD),
    "coRNN, c": ("#D55E00", "o", BOLD),
    "coRNN, cuda": ("#CC79A7", "o", BOLD),
    "coRNN, graph": ("#F0E442", "P", BOLD),
}
SPARE = ("#7F3C00", "*", THIN)


def check_plotting() -> None:
    """Raise ImportError if matplotlib is missing. Call it before measuring."""
    if importlib.util.find_spec("matplotlib") is None:
        raise missing_extra("report", "a plot needs matplotlib")


def draw(points: Sequence[Point], floor: Sequence[Point], label: str, title: str, stem: Path) -> list[Path]:
    """Write stem.svg and stem.png; return their paths."""
    figure, panels = canvas(size=(8, 4.8))
    axes = panels[0, 0]

    def plot(line: Sequence[Point], **look: Any) -> None:
        axes.plot([point.value for point in line], [point.seconds / point.steps * 1e6 for point in line], **look)

    at_the_end = {point.contender: point.seconds / point.steps for point in points}
    for name in sorted(at_the_end, key=lambda name: -at_the_end[name]):
        colour, marker, width = STYLES.get(name, SPARE)
        line = [point for point in points if point.contender == name]
        plot(line, color=colour, marker=marker, label=name, linewidth=width)
    plot(floor, color="#000000", linestyle=":", label="floor: its products at the\nspeed of one large product")
    axes.set(xscale="log", yscale="log", xlabel=label, ylabel="µs per step, forward and backward", title=title)
    axes.grid(which="major", color="#DDDDDD")
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside right center", frameon=False)
    return save(figure, stem)
