"""The page of the demo: one HTML file that needs no other file and no network."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cornn.lab.experiments.demo import BATCH_SIZE, GOAL, HIDDEN_SIZE, PATIENCE, Curve, describe_limits, summarise
from cornn.plots import pages
from cornn.plots.style import COLOURS, STYLES, canvas, data_uri, set_panel_title, styled, use_log_scale

MARKS = ("o", "^", "s")
CHANCE = 1 / 6


@styled
def draw_demo(curves: Sequence[Curve]) -> Any:
    """Draw the validation errors, against training steps and against seconds."""
    figure, axes = canvas(1, 2, size=(8.4, 3.4), sharey=True)
    for panel, name, title, label in (
        (axes[0, 0], "a", "Equal steps", "training step"),
        (axes[0, 1], "b", "Equal time", "processor seconds (log scale)"),
    ):
        for curve, colour, style, mark in zip(curves, COLOURS, STYLES, MARKS, strict=False):
            x = [evaluation.step if name == "a" else evaluation.seconds for evaluation in curve.evaluations]
            errors = [evaluation.error for evaluation in curve.evaluations]
            look = {"color": colour, "linestyle": style, "marker": mark, "markersize": 3.5, "markevery": 4}
            panel.plot(x, errors, label=curve.title, **look)
        panel.axhline(GOAL, color="#666666", linewidth=0.9, linestyle=(0, (4, 3)), label=f"goal {GOAL:g}")
        panel.axhline(CHANCE, color="#aaaaaa", linewidth=0.9, linestyle=":", label="always answering 1")
        use_log_scale(panel)
        panel.set_xlabel(label)
        set_panel_title(panel, name, title)
    axes[0, 1].set_xscale("log")
    axes[0, 0].set_ylabel("validation error (MSE)")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=5)
    return figure


def render_page(curves: Sequence[Curve], *, length: int, seed: int) -> str:
    """Return the HTML page of a demo."""
    pages.check_packages("the demo's page")
    return pages.render(
        Path(__file__).parents[1] / "report" / "demo.html.jinja",
        curves=curves,
        figure=data_uri(draw_demo(curves)),
        verdict=summarise(curves),
        limits=describe_limits(length, seed),
        length=length,
        hidden_size=HIDDEN_SIZE,
        batch_size=BATCH_SIZE,
        goal=GOAL,
        patience=PATIENCE,
        steps=max(curve.last.step for curve in curves),
    )
