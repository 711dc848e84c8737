"""Learning curves of models that were tuned alike."""

from typing import Any

from cornn.report.compared import Compared
from cornn.report.figures.style import COLOURS, STYLES, canvas, styled

__all__ = ["compared"]


@styled
def compared(contest: Compared) -> Any:
    """Validation of the final runs against training, a line for each run and a colour and style for each model."""
    figure, axes = canvas(size=(8.4, 3.8))
    panel = axes[0, 0]
    for number, one in enumerate(contest.rows):
        look = {"color": COLOURS[number % len(COLOURS)], "linestyle": STYLES[number // len(COLOURS)]}
        curves = [final["curve"] for final in one.ended]
        for index, curve in enumerate(curves):
            at = curve.get("epoch") or curve["step"]
            label = one.title if index == 0 else None
            panel.plot(at, curve["validation"], linewidth=1.0, alpha=0.8, label=label, **look)
    lower = contest.record["better"] == "lower"
    if lower:
        panel.set_yscale("log")
    panel.set_xlabel("epoch" if contest.record["unit"] == "epochs" else "training step")
    panel.set_ylabel(f"validation {contest.record['metric']}" + ("" if lower else ", %"))
    if any(one.ended for one in contest.rows):
        figure.legend(loc="outside right upper")
    return figure
