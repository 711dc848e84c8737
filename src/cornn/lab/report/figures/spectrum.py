"""What neurons that hold and neurons that ring know of a sequence: the weights of its steps in their last state."""

from typing import Any

import torch

from cornn import theory
from cornn.plots.style import COLOURS, STYLES, add_note, canvas, set_panel_title, styled

__all__ = ["spectrum"]

LENGTH, HIDDEN = 784, 128
KINDS = {"hold": False, "ring": True}
LEAST = 1e-6
"""Of the largest singular value, that is shown."""


@styled
def spectrum() -> Any:
    """Three panels: the weights of neurons that hold, of neurons that ring, and the singular values of both."""
    figure, ((*maps, values),) = canvas(1, 3, size=(10.0, 3.2), width_ratios=(1, 1, 1.1))
    for number, (axes, (name, ringing)) in enumerate(zip(maps, KINDS.items(), strict=True)):
        found = theory.suggest(LENGTH, HIDDEN, underdamped=ringing)
        constants = found.dt, found.gamma, found.epsilon
        left = theory.linear.impulse_response(*constants, LENGTH)
        shown = left / left.abs().amax(1, keepdim=True)
        # The last step has had the least time: it is on the right, as in the sequence.
        axes.imshow(
            shown.flip(1), aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, extent=(0, LENGTH, HIDDEN, 0), rasterized=True
        )
        axes.grid(visible=False)
        axes.set(xlabel="step of the input", ylabel="neuron")
        set_panel_title(axes, "ab"[number], f"neurons that {name}")
        sizes = torch.linalg.svdvals(torch.nn.functional.normalize(left, dim=1))
        held = theory.effective_rank(*constants, LENGTH)
        values.plot(
            range(1, HIDDEN + 1),
            torch.where(sizes > LEAST * sizes[0], sizes / sizes[0], torch.nan),
            color=COLOURS[number],
            linestyle=STYLES[number],
            label=f"{name}: {held} numbers",
        )
    values.axhline(0.01, color="#666666", linewidth=0.8, linestyle=":")
    values.set(xlabel="singular value", ylabel="share of the largest", yscale="log", xlim=(0, HIDDEN), ylim=(LEAST, 2))
    values.legend(loc="center")
    set_panel_title(values, "c", "how many numbers they hold")
    add_note(
        figure,
        f"The weight of each step's input in the last y of {HIDDEN} uncoupled neurons, as suggested for {LENGTH} "
        "steps, as a share of the neuron's largest.",
    )
    return figure
