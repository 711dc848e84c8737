"""Learning curves of models tuned with the same budget."""

import statistics
from typing import Any

from cornn.lab.report.comparison import ContestResult
from cornn.plots.style import COLOURS, STYLES, canvas, styled


@styled
def comparison_curves(contest: ContestResult) -> Any:
    """Plot the validation metric of the final runs: the median per model, and the single runs in the background."""
    figure, axes = canvas(size=(8.4, 3.8))
    panel = axes[0, 0]
    for number, row in enumerate(contest.rows):
        look = {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS)]}
        runs = [final["curve"] for final in row.tested_runs]
        curves = [dict(zip(run.get("epoch") or run["step"], run["validation"], strict=True)) for run in runs]
        for curve in curves:
            panel.plot(curve.keys(), curve.values(), linewidth=0.7, alpha=0.18, **look)
        if curves:
            common = [at for at in curves[0] if all(at in curve for curve in curves)]
            median = [statistics.median(curve[at] for curve in curves) for at in common]
            panel.plot(common, median, linewidth=1.4, label=row.title, **look)
    lower = contest.record["better"] == "lower"
    if lower:
        panel.set_yscale("log")
    panel.set_xlabel("epoch" if contest.record["unit"] == "epochs" else "training step")
    panel.set_ylabel(f"validation {contest.record['metric']}" + ("" if lower else ", %"))
    if any(row.tested_runs for row in contest.rows):
        figure.legend(loc="outside right upper")
    return figure
