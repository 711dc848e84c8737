"""The effect of dt, gamma and epsilon: impulse responses of one neuron, and the suggested half-lives."""

from typing import Any

import torch
from torch import Tensor

from cornn import theory
from cornn.plots.style import COLOURS, STYLES, add_note, canvas, set_panel_title, styled
from cornn.theory.linear import damping_ratio, half_life, step_matrix

NEURONS = {"underdamped": (0.05, 20.0, 1.0), "critical": (0.05, 4.0, 4.0), "overdamped": (0.05, 0.5, 4.0)}
"""Kind -> dt, gamma, epsilon: a damping ratio below 1, equal to 1 and above 1."""
STEPS = 300
LENGTHS, HIDDEN = (100, 500, 2000), 64


def response(dt: float, gamma: float, epsilon: float, steps: int) -> Tensor:
    """Return y of an uncoupled neuron after an impulse, scaled to a maximum of 1: (steps + 1)."""
    matrix = step_matrix(dt, gamma, epsilon)
    state = torch.tensor([0.0, 1.0], dtype=torch.float64)
    y = [state[0]]
    for _ in range(steps):
        state = matrix @ state
        y.append(state[0])
    return torch.stack(y) / torch.stack(y).abs().max()


@styled
def memory() -> Any:
    """Draw impulse responses, and the half-lives of `theory.suggest`."""
    figure, ((left, right),) = canvas(1, 2, size=(8.0, 3.2))
    for number, (name, constants) in enumerate(NEURONS.items()):
        _, gamma, epsilon = constants
        ratio, half = damping_ratio(gamma, epsilon).item(), half_life(*constants).item()
        label = f"{name}: $\\gamma$ = {gamma:g}, $\\epsilon$ = {epsilon:g}, ratio {ratio:.2g}, half-life {half:.0f}"
        left.plot(response(*constants, STEPS), color=COLOURS[number], linestyle=STYLES[number], label=label)
    left.set(xlabel="steps after the impulse", ylabel="y", ylim=(-1.05, 2.05), yticks=[-1, 0, 1])
    left.legend(loc="upper right")
    set_panel_title(left, "a", "impulse response of one neuron, dt = 0.05")
    for number, length in enumerate(LENGTHS):
        right.plot(
            range(1, HIDDEN + 1),
            theory.suggest(length, HIDDEN).half_lives,
            color=COLOURS[number],
            linestyle=STYLES[number],
            label=f"{length:,} steps",
        )
    right.set(xlabel="neuron", ylabel="half-life in steps", yscale="log")
    right.legend(loc="upper left")
    set_panel_title(right, "b", f"half-lives of theory.suggest(length, {HIDDEN})")
    add_note(figure, "Uncoupled neurons without input. y is scaled to a maximum of 1; ratio is the damping ratio.")
    return figure
