"""What dt, gamma and epsilon do: how one neuron answers a push, and the half-lives that are suggested."""

from typing import Any

import torch
from torch import Tensor

from cornn import theory
from cornn.plots.style import COLOURS, STYLES, add_note, canvas, set_panel_title, styled
from cornn.theory.linear import damping_ratio, half_life, step_matrix

__all__ = ["NEURONS", "answer", "memory"]

NEURONS = {"rings": (0.05, 20.0, 1.0), "returns": (0.05, 4.0, 4.0), "holds": (0.05, 0.5, 4.0)}
"""What it does -> dt, gamma, epsilon: a damping ratio below 1, at 1 and above it."""
STEPS = 300
LENGTHS, HIDDEN = (100, 500, 2000), 64


def answer(dt: float, gamma: float, epsilon: float, steps: int) -> Tensor:
    """y of a free neuron after a push, its largest value 1: (steps + 1)."""
    matrix = step_matrix(dt, gamma, epsilon)
    state = torch.tensor([0.0, 1.0], dtype=torch.float64)
    y = [state[0]]
    for _ in range(steps):
        state = matrix @ state
        y.append(state[0])
    return torch.stack(y) / torch.stack(y).abs().max()


@styled
def memory() -> Any:
    """Two panels: a push and what is left of it, and the half-lives of `theory.suggest`."""
    figure, ((left, right),) = canvas(1, 2, size=(8.0, 3.2))
    for number, (name, constants) in enumerate(NEURONS.items()):
        _, gamma, epsilon = constants
        ratio, half = damping_ratio(gamma, epsilon).item(), half_life(*constants).item()
        label = f"{name}: $\\gamma$ {gamma:g}, $\\epsilon$ {epsilon:g}, ratio {ratio:.2g}, half-life {half:.0f}"
        left.plot(answer(*constants, STEPS), color=COLOURS[number], linestyle=STYLES[number], label=label)
    left.set(xlabel="steps after the push", ylabel="y", ylim=(-1.05, 2.05), yticks=[-1, 0, 1])
    left.legend(loc="upper right")
    set_panel_title(left, "a", "one neuron, dt = 0.05")
    for number, length in enumerate(LENGTHS):
        right.plot(
            range(1, HIDDEN + 1),
            theory.suggest(length, HIDDEN).half_lives,
            color=COLOURS[number],
            linestyle=STYLES[number],
            label=f"{length:,} steps",
        )
    right.set(xlabel="neuron", ylabel="half-life, steps", yscale="log")
    right.legend(loc="upper left")
    set_panel_title(right, "b", f"theory.suggest(length, {HIDDEN})")
    add_note(figure, "Neurons without coupling and input; y is shown as a share of its largest value.")
    return figure
