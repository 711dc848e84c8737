"""Learning curves of recorded runs."""

from collections.abc import Sequence
from typing import Any

from cornn.report.figures.style import COLOURS, STYLES, canvas, styled
from cornn.report.tables import NAMES, Reached

__all__ = ["curves"]


@styled
def curves(found: Sequence[Reached]) -> Any:
    """Validation against training, a line for each run and a colour for each group of runs."""
    figure, axes = canvas(size=(7.2, 3.2))
    panel = axes[0, 0]
    for number, one in enumerate(found):
        for index, record in enumerate(one.records):
            columns = record["curve"]
            at = columns.get("epoch") or columns["step"]
            name = f"{NAMES.get(one.model, one.model)}-{one.units}" + (f", {one.case}" if one.case else "")
            panel.plot(
                at,
                columns["metric"],
                color=COLOURS[number % len(COLOURS)],
                linestyle=STYLES[number % len(STYLES)],
                alpha=1.0 if len(one.records) == 1 else 0.45,
                linewidth=1.0,
                label=name if index == 0 else None,
            )
    first = found[0].records[0]
    lower = found[0].better == "lower"
    if lower:
        panel.set_yscale("log")
    panel.set_xlabel("epoch" if first["curve"] and "epoch" in first["curve"] else "training step")
    panel.set_ylabel(f"validation {first['result']['metric']}" + ("" if lower else ", %"))
    panel.legend(loc="upper right" if lower else "lower right")
    return figure
