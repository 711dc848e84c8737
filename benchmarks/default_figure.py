"""Draw the figure of docs/default.md into docs/figures: `python benchmarks/default_figure.py`."""

from pathlib import Path
from typing import Any

import torch

from cornn import functional
from cornn._scaling import impulse_norms, spread_time_scales
from cornn.plots.style import COLOURS, STYLES, canvas, save, styled

ROOT = Path(__file__).resolve().parents[1]
NEURONS = 64
SHOWN = {12: "fast", 40: "slow", 56: "underdamped"}
"""Neuron -> its kind."""


@styled
def draw() -> Any:
    """Draw impulse responses of three neurons, and the norms of all neurons."""
    figure, axes = canvas(1, 2, size=(9.0, 2.9))
    response, norms = axes[0]
    constants = spread_time_scales(NEURONS, "explicit")
    drive = torch.zeros(400, NEURONS, dtype=torch.float64)
    drive[1] = 1.0
    rest, none = torch.zeros(NEURONS, dtype=torch.float64), torch.zeros(NEURONS, NEURONS, dtype=torch.float64)
    y, _ = functional.unroll(drive, rest, rest, none, none, *constants, activation="identity")
    for number, (neuron, name) in enumerate(SHOWN.items()):
        response.plot(range(400), y[:, neuron], color=COLOURS[number], linestyle=STYLES[number], label=name)
    response.set(xscale="log", xlim=(1, 400), xlabel="step", ylabel="y after an impulse", title="Three neurons")
    response.legend(loc="upper right")
    sizes = impulse_norms(constants, "explicit")
    curves = {"white force: RMS of y": sizes.white_y, "constant force: y": sizes.constant, "RMS of z": sizes.white_z}
    for number, (name, values) in enumerate(curves.items()):
        look = {"color": COLOURS[number], "linestyle": "none", "marker": "o^s"[number], "markersize": 3}
        norms.plot(range(NEURONS), values, **look, label=name)
    norms.set(yscale="log", xlabel="neuron: fast, slow, underdamped", title="Sizes for a force of 1")
    norms.legend(loc="upper left")
    return figure


if __name__ == "__main__":
    svg, png = save(draw(), ROOT / "docs" / "figures" / "default")
    png.unlink()
    print(svg.relative_to(ROOT))
