"""Lorenz-96 on the plane of its first two variables, for a weak and for a strong force."""

from typing import Any

import numpy as np

from cornn.lab.tasks.lorenz96 import trajectories
from cornn.plots.style import COLOURS, canvas, letter, note, styled

__all__ = ["lorenz96"]

POINTS = 2000


@styled
def lorenz96() -> Any:
    figure, axes = canvas(1, 2, size=(8.0, 4.0))
    for column, force in enumerate((0.9, 8.0)):
        offsets = np.random.default_rng(4).uniform(-0.5, 0.5, 5)
        path = trajectories((force + offsets)[None], force, POINTS)[0]
        here = axes[0, column]
        here.plot(path[:, 0], path[:, 1], color=COLOURS[column], linewidth=0.9)
        here.plot(*path[0, :2], "o", color=COLOURS[6], markersize=5, label="start")
        here.plot(*path[-1, :2], "s", color=COLOURS[6], markersize=5, label="t = 20")
        here.set_xlabel("x₁")
        here.set_ylabel("x₂")
        letter(here, "ab"[column], f"F = {force:g}: " + ("towards a periodic orbit" if column == 0 else "chaos"))
        here.legend(loc="upper right" if column == 0 else "upper left")
    note(figure, f"{POINTS:,} points, 0.01 apart; one start in [F - 1/2, F + 1/2]⁵, the same offsets in both panels.")
    return figure
