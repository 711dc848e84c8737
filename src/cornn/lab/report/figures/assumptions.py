"""The paper's hypothesis on the weights during training, from run folders or records."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cornn.lab.config import from_dictionary, read_run_config
from cornn.lab.runs import open_run
from cornn.lab.tasks import Adding
from cornn.plots.style import COLOURS, STYLES, add_note, canvas, set_panel_title, styled


def watched_rows(path: Path) -> tuple[str, list[dict]]:
    """Return a label for a run folder or a record, and its rows with `theory.watch` numbers."""
    if path.is_dir():
        run = open_run(path)
        config, rows = read_run_config(run), run.metrics()
    else:
        try:
            content: Mapping[str, Any] = json.loads(path.read_text(encoding="utf8"))
            config = from_dictionary(content["config"])
            curve = content.get("curve") or {}  # one list per column
            columns = zip(*curve.values(), strict=True)
            rows = content.get("rows") or [dict(zip(curve, values, strict=True)) for values in columns]
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"{path} is not a record of a run: give run folders, or their records") from None
    rows = [row for row in rows if "theory" in row]
    if not rows:
        raise ValueError(f"{path} contains no theory metrics: train with cornn train --theory to record them")
    length = f", T = {config.task.length}" if isinstance(config.task, Adding) else ""
    return f"{config.task.name}{length}, {config.recipe}, m = {config.model.hidden_size}", rows


@styled
def assumptions(paths: Sequence[Path]) -> Any:
    """Plot left side / right side of eq:assm with r = 1/2, and the weight norms: mean and deviation over runs."""
    groups: dict[str, list[list[dict]]] = {}
    for path in paths:
        name, rows = watched_rows(path)
        groups.setdefault(name, []).append(rows)
    if not groups:
        raise ValueError("give run folders, or their records, that were trained with --theory")
    figure, axes = canvas(1, 2, size=(9.5, 4.2))
    left, right = axes[0]
    for number, (name, runs) in enumerate(groups.items()):
        label = f"{name} ({len(runs)} run{'s' if len(runs) > 1 else ''})"
        look = {"color": COLOURS[number % 6], "linestyle": STYLES[number % 6]}
        _plot_band(left, runs, lambda row: row["assumption"] / row["assumption_limit"], label, look)
        _plot_band(right, runs, lambda row: max(row["W_norm"], row["W_z_norm"]), label, look)
    left.axhline(1, color=COLOURS[6], linewidth=1)
    words = {"ha": "right", "va": "top", "fontsize": 8, "color": COLOURS[6]}
    left.text(0.99, 0.96, "hypothesis holds below this line", transform=left.get_yaxis_transform(), **words)
    for panel in (left, right):
        panel.set(yscale="log", xscale="log")
        panel.xaxis.set_major_formatter("{x:,.0f}")
        panel.yaxis.set_major_formatter("{x:g}")
        panel.yaxis.set_minor_formatter(_label_sparsely)
        panel.set_xlabel("training step (the start at 1)")
    left.set_ylabel("left side of eq:assm / dt^(1/2)")
    right.set_ylabel("larger of ‖W‖∞ and ‖W_z‖∞")
    set_panel_title(left, "a", "hypothesis eq:assm with r = 1/2")
    set_panel_title(right, "b", "weight norms")
    figure.legend(*right.get_legend_handles_labels(), loc="outside upper left", ncols=3)
    add_note(figure, "Lines: mean over runs. Bands: ± one standard deviation.")
    return figure


def _label_sparsely(value: float, place: int) -> str:
    """Label only 2 and 5 between powers of ten."""
    return f"{value:g}" if round(value / 10 ** math.floor(math.log10(value))) in (2, 5) else ""


def _plot_band(axes: Any, runs: list[list[dict]], value: Any, label: str, look: dict) -> None:
    count = min(len(rows) for rows in runs)
    steps = [max(1, row["step"]) for row in runs[0][:count]]
    values = np.array([[value(row["theory"]) for row in rows[:count]] for rows in runs])
    mean, deviation = values.mean(0), values.std(0)
    axes.plot(steps, mean, label=label, **look)
    axes.fill_between(steps, mean - deviation, mean + deviation, color=look["color"], alpha=0.2, linewidth=0)
