"""Learning curves of recorded runs."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cornn.baselines import MODELS
from cornn.lab.report.tables import RunGroup
from cornn.plots.style import COLOURS, STYLES, canvas, styled, use_log_scale

MAX_LINES = 5
"""Largest group whose runs are drawn one by one."""


@styled
def curves(groups: Sequence[RunGroup]) -> Any:
    """Plot the validation metric by training step or epoch, one colour per group of runs.

    Small groups show one line per run, large ones their median and the range of 90 % of the runs.
    """
    figure, axes = canvas(size=(7.2, 3.2))
    panel = axes[0, 0]
    for number, group in enumerate(groups):
        name = f"{MODELS[group.model].title}-{group.units}" + (f", {group.case}" if group.case else "")
        look = {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number % len(STYLES)], "linewidth": 1.0}
        runs = [record["curve"] for record in group.records]
        if len(runs) > MAX_LINES:
            count = min(len(run["metric"]) for run in runs)
            low, median, high = np.quantile([run["metric"][:count] for run in runs], (0.05, 0.5, 0.95), axis=0)
            at = (runs[0].get("epoch") or runs[0]["step"])[:count]
            panel.plot(at, median, label=f"{name}, {len(runs)} runs", **look)
            panel.fill_between(at, low, high, color=look["color"], alpha=0.12, linewidth=0)
            continue
        for index, run in enumerate(runs):
            at = run.get("epoch") or run["step"]
            alpha = 1.0 if len(runs) == 1 else 0.45
            panel.plot(at, run["metric"], alpha=alpha, label=name if index == 0 else None, **look)
    first = groups[0].records[0]
    lower = groups[0].better == "lower"
    if lower:
        use_log_scale(panel)
    panel.set_xlabel("epoch" if first["curve"] and "epoch" in first["curve"] else "training step")
    panel.set_ylabel(f"validation {first['result']['metric']}" + ("" if lower else ", %"))
    panel.legend(loc="upper right" if lower else "lower right")
    return figure
