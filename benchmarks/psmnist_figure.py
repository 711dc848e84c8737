"""Draw the curves of psMNIST-256 of docs/reproduction.md into docs/figures: `python benchmarks/psmnist_figure.py`."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from run_tables import DROPPED, causes

from cornn.lab.recipes import LOGS
from cornn.plots.style import COLOURS, add_note, canvas, save, set_panel_title, styled

ROOT = Path(__file__).resolve().parents[1]


@styled
def draw() -> Any:
    """Plot one panel per change and one line per run."""
    changes = causes()
    figure, axes = canvas(1, len(changes), size=(9.5, 3.2), sharey=True)
    log = LOGS["psmnist", 256]
    for panel, letter, (words, settings, group) in zip(axes[0], "abc", changes, strict=True):
        for record in group.records:
            curve = record["curve"]
            panel.plot(curve["epoch"], curve["metric"], color=COLOURS[0], alpha=0.45, linewidth=0.9)
        panel.axvline(settings.get("drop_after", DROPPED), color=COLOURS[6], linestyle=":", linewidth=1)
        panel.plot(list(log), list(log.values()), "x", color=COLOURS[1], markersize=6)
        panel.set_xlabel("epoch")
        panel.set_ylim(40, 100)
        title = {"none": "the paper's values"}.get(words, words)
        set_panel_title(panel, letter, f"{title}, {len(group.records)} runs")
    axes[0, 0].set_ylabel("validation accuracy, %")
    add_note(figure, "Dotted: the learning rate drops by a factor of ten. Crosses: the authors' log, one run.")
    return figure


if __name__ == "__main__":
    svg, png = save(draw(), ROOT / "docs" / "figures" / "psmnist-causes")
    png.unlink()
    print(svg.relative_to(ROOT))
