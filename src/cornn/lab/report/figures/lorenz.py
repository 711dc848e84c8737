"""The first two variables of Lorenz-96, for a weak and a strong force."""

from typing import Any

import numpy as np

from cornn.lab.tasks.lorenz96 import trajectories
from cornn.plots.style import COLOURS, add_note, canvas, set_panel_title, styled

POINTS = 2000


@styled
def lorenz96() -> Any:
    """Draw one trajectory per force."""
    figure, axes = canvas(1, 2, size=(8.0, 4.0))
    for column, (force, behaviour) in enumerate(((0.9, "towards a periodic orbit"), (8.0, "chaos"))):
        offsets = np.random.default_rng(4).uniform(-0.5, 0.5, 5)
        path = trajectories((force + offsets)[None], force, POINTS)[0]
        panel = axes[0, column]
        panel.plot(path[:, 0], path[:, 1], color=COLOURS[column], linewidth=0.9)
        panel.plot(*path[0, :2], "o", color=COLOURS[6], markersize=5, label="start")
        panel.plot(*path[-1, :2], "s", color=COLOURS[6], markersize=5, label="t = 20")
        panel.set(xlabel="x₁", ylabel="x₂")
        set_panel_title(panel, "ab"[column], f"F = {force:g}: {behaviour}")
        panel.legend(loc="upper right" if column == 0 else "upper left")
    add_note(
        figure,
        f"{POINTS:,} points, 0.01 apart, from one start in [F - 1/2, F + 1/2]⁵ with equal offsets in both panels.",
    )
    return figure
