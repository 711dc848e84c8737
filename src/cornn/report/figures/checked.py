"""What `cornn check` shows of one network."""

from typing import Any

import torch

from cornn.report.figures.lags import by_lag, products
from cornn.report.figures.style import COLOURS, STYLES, canvas, letter, styled
from cornn.theory import Network, energy
from cornn.theory.measure import Trajectory

__all__ = ["checked"]


@styled
def checked(network: Network, trajectory: Trajectory) -> Any:
    """Energy along the sequence, gradients by lag, products of Jacobians: each with the bounds that stand."""
    figure, axes = canvas(1, 3, size=(13.0, 4.2))
    first, second, third = axes[0]
    own = energy.energy(network, trajectory.y, trajectory.z)[1:].amax((1, 2))
    steps = torch.arange(1, len(own) + 1)
    first.plot(steps, own, color=COLOURS[0], label="largest of a neuron")
    if network.activation == "tanh":  # of the others there is none
        bound = energy.energy_bound(network, len(own))[1:].amax(1)
        if bound.isfinite().all():
            first.plot(steps, bound, color=COLOURS[2], linestyle=STYLES[2], label="bound: rate n dt")
        y, z = energy.reach(network, len(own))
        most = (network.gamma * y**2 + z**2)[1:].amax(1)
        first.plot(steps, most, color=COLOURS[1], linestyle=STYLES[1], label="bound: reach of y and z")
    first.set_yscale("log")
    first.set_xlabel("step")
    first.set_ylabel(r"energy $\gamma y^2 + z^2$")
    first.legend(loc="lower right")
    letter(first, "a", "energy")
    by_lag(second, {"this network": (network, trajectory)})
    letter(second, "b", "gradients by lag")
    products(third, network, trajectory)
    letter(third, "c", "products of Jacobians")
    return figure
