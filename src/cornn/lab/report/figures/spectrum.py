"""Impulse responses and effective rank of overdamped and underdamped neurons."""

from typing import Any

import torch

from cornn import theory
from cornn.plots.style import COLOURS, STYLES, add_note, canvas, set_panel_title, styled

LENGTH, HIDDEN = 784, 128
KINDS = {"overdamped": False, "underdamped": True}
MIN_RATIO = 1e-6
"""Smallest singular value to show, as a share of the largest."""


@styled
def spectrum() -> Any:
    """Draw the impulse responses of overdamped and underdamped neurons, and the singular values of both."""
    figure, ((*maps, values),) = canvas(1, 3, size=(10.0, 3.2), width_ratios=(1, 1, 1.1))
    for number, (axes, (name, underdamped)) in enumerate(zip(maps, KINDS.items(), strict=True)):
        suggested = theory.suggest(LENGTH, HIDDEN, underdamped=underdamped)
        constants = suggested.dt, suggested.gamma, suggested.epsilon
        left = theory.linear.impulse_response(*constants, LENGTH)
        scaled = left / left.abs().amax(1, keepdim=True)
        # The most recent step is on the right, as in the sequence.
        axes.imshow(
            scaled.flip(1),
            aspect="auto",
            cmap="RdBu_r",
            vmin=-1,
            vmax=1,
            extent=(0, LENGTH, HIDDEN, 0),
            rasterized=True,
        )
        axes.grid(visible=False)
        axes.set(xlabel="step of the input", ylabel="neuron")
        set_panel_title(axes, "ab"[number], f"{name} neurons")
        sizes = torch.linalg.svdvals(torch.nn.functional.normalize(left, dim=1))
        rank = theory.effective_rank(*constants, LENGTH)
        values.plot(
            range(1, HIDDEN + 1),
            torch.where(sizes > MIN_RATIO * sizes[0], sizes / sizes[0], torch.nan),
            color=COLOURS[number],
            linestyle=STYLES[number],
        )
        label = f"{name}:\neffective rank {rank}"
        side = {"x": rank - 3, "y": 1e-3, "ha": "right"} if underdamped else {"x": rank + 5, "y": 3e-5, "ha": "left"}
        values.text(**side, s=label, va="center", fontsize=8, color=COLOURS[number])
    values.axhline(0.01, color="#666666", linewidth=0.8, linestyle=":")
    values.set(xlabel="index", ylabel="singular value / largest", yscale="log", xlim=(0, HIDDEN), ylim=(MIN_RATIO, 2))
    set_panel_title(values, "c", "singular values")
    add_note(
        figure,
        f"(a), (b): weight of each input step in the last y of {HIDDEN} uncoupled neurons from "
        f"theory.suggest({LENGTH}, {HIDDEN}), scaled to a maximum of 1 per neuron.\n"
        "(c): the effective rank counts singular values above the dotted line.",
    )
    return figure
