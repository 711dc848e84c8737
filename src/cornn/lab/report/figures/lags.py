"""Gradients by lag before training, and the proven bounds."""

from typing import Any

import torch
from torch import Tensor

from cornn import theory
from cornn._random import generator
from cornn.layers import CoRNN
from cornn.plots.diagnosis import plot_gradients_by_lag, plot_products
from cornn.plots.style import add_note, canvas, set_panel_title, styled
from cornn.theory import Network, measure
from cornn.theory.measure import Trajectory

LENGTH = 1000
PAPER = {"adding": (0.016, 94.5, 9.5), "sMNIST-128": (0.053, 1.7, 4.0), "psMNIST-128": (0.083, 0.13, 4.1)}
"""Task -> dt, gamma, epsilon of the paper's tables."""


def simulate_untrained_layers(length: int) -> dict[str, tuple[Network, Trajectory]]:
    """Return label -> network and trajectory, with the paper's constants and with ours, on input as in adding."""
    input: Tensor = torch.rand(length, 2, 2, generator=generator(0, "lags", "input"))
    input[..., 1] = 0
    layers = {
        f"paper, {task}: $\\gamma$ {gamma:g}, $\\epsilon$ {epsilon:g}, dt {dt:g}": CoRNN(
            2, 128, dt=dt, gamma=gamma, epsilon=epsilon
        )
        for task, (dt, gamma, epsilon) in PAPER.items()
    }
    layers[f"ours: suggest({length}, 128)"] = suggested = theory.suggest(length, 128).layer(2)
    for name, layer in layers.items():
        layer.reset_parameters(generator(0, "lags", name))
    suggested.centre_(torch.tensor([0.5, 0.0]))
    networks = {name: theory.network_from_layer(layer) for name, layer in layers.items()}
    return {name: (network, measure.simulate(network, input)) for name, network in networks.items()}


@styled
def lags() -> Any:
    """Draw gradients by lag for several constants, and the bounds for one of them."""
    figure, axes = canvas(1, 2, size=(10.5, 5.0))
    cases = simulate_untrained_layers(LENGTH)
    plot_gradients_by_lag(axes[0, 0], cases)
    set_panel_title(axes[0, 0], "a", "gradients before training")
    network, trajectory = next(iter(cases.values()))
    # One sequence is enough: products of Jacobians take most of the time.
    plot_products(axes[0, 1], network, measure.simulate(network, trajectory.input[:, :1]))
    set_panel_title(axes[0, 1], "b", "products of Jacobians, the paper's constants for adding")
    add_note(
        figure,
        "Untrained layers, random input in [0, 1]. In (b) the small-gain bound proves from the weights alone that "
        "gradients vanish for any input;\nthe product of norms leaves the panel at once.",
    )
    return figure
