"""How gradients depend on the lag, and what is proven of it."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from cornn import theory
from cornn.layers import CoRNN
from cornn.report.figures.style import COLOURS, STYLES, canvas, letter, note, styled
from cornn.seeds import generator
from cornn.theory import Network, gradients, hypotheses, measure, memory
from cornn.theory.measure import Trajectory

__all__ = ["by_lag", "fresh_layers", "lags", "products"]

LENGTH = 1000
PAPER = {"adding": (0.016, 94.5, 9.5), "sMNIST-128": (0.053, 1.7, 4.0), "psMNIST-128": (0.083, 0.13, 4.1)}
"""Task -> dt, gamma, epsilon of the paper's tables."""
TEN = math.log(10)
UPPER_RIGHT = {
    "xycoords": ("axes fraction", "data"),
    "textcoords": "offset points",
    "ha": "right",
    "fontsize": 8,
    "color": COLOURS[6],
}


def by_lag(axes: Any, cases: Mapping[str, tuple[Network, Trajectory]]) -> None:
    """|dE_n/dX_k| over |dE_n/dX_n| for all k, n the last step, on a logarithmic scale."""
    least = most = 0.0
    for number, (name, (network, trajectory)) in enumerate(cases.items()):
        logs = measure.fading(network, trajectory).mean(1).flip(0)
        least, most = min(least, logs.min().item()), max(most, logs.max().item())
        axes.plot(logs, color=COLOURS[number], linestyle=STYLES[number], label=name)
    smallest = math.log10(torch.finfo(torch.float32).tiny)
    if least < smallest / 2:
        least = min(least, smallest - 1)
        axes.axhline(smallest, color=COLOURS[6], linewidth=0.8, linestyle=":")
        axes.annotate("smallest float32", (1, smallest), (-2, 2), **UPPER_RIGHT)
    axes.set_ylim(min(max(least - 2, -48), -2), most + 2)
    axes.set_xlabel("lag n - k, steps")
    axes.set_ylabel("log₁₀ of |∂Eₙ/∂Xₖ| / |∂Eₙ/∂Xₙ|")
    if len(cases) > 1:
        axes.legend(loc="lower left", bbox_to_anchor=(0.0, 0.08))


def products(axes: Any, network: Network, trajectory: Trajectory) -> None:
    """||dX_n/dX_k|| by lag beside every bound on it, and the paper's approximation, on a logarithmic scale.

    All bounds as such on the Euclidean norm: it is sqrt(2 m) times the norm for maximum norms at the most, and the root
    of the ratio of the largest to the smallest weight in the energy times its norm.
    """
    steps = len(trajectory)
    seen, logs = measure.product_norms(network, trajectory, norm="euclid", every=max(1, steps // 100))
    every = torch.arange(steps + 1, dtype=torch.float64)
    dt = network.dt.max().item()
    r = min(max(hypotheses.largest_r(network), 0.5), 1.0)
    weights = torch.cat((network.gamma, torch.ones(1, dtype=torch.float64)))
    uneven = math.log(weights.max().item() / max(weights.min().item(), 1e-300)) / 2
    wide = math.log(2 * network.hidden_size) / 2
    lines = {
        "measured": (seen, logs.amax(1) / TEN),
        "bound: small gain": (every, memory.log_growth_bound(network, steps) / TEN),
        "bound: energy": (every, (every * math.log1p(gradients.energy_growth(network)) + uneven) / TEN),
        "bound: strict product": (every, (every * math.log(gradients.step_norm(network)) + wide) / TEN),
        "paper: 1 + 3 lag dt^r": (every, torch.log10(1 + 3 * every * dt**r)),
    }
    for number, (name, (x, y)) in enumerate(lines.items()):
        if y.isfinite().all():
            axes.plot(x, y, color=COLOURS[number], linestyle=STYLES[number], label=name)
    low, high = (logs.amax(1) / TEN).aminmax()
    axes.set_ylim(min(low.item(), -1) * 1.15, max(high.item() * 1.5, 12))
    axes.set_xlabel("lag n - k, steps")
    axes.set_ylabel("log₁₀ ‖∂Xₙ/∂Xₖ‖")
    axes.legend(loc="best")


def fresh_layers(length: int) -> dict[str, tuple[Network, Trajectory]]:
    """Layers before training, on the adding problem's kind of input: the paper's constants and start, and ours."""
    input: Tensor = torch.rand(length, 2, 2, generator=generator(0, "lags", "input"))
    input[..., 1] = 0
    layers = {
        f"paper, {task}: $\\gamma$ {gamma:g}, $\\epsilon$ {epsilon:g}, dt {dt:g}": CoRNN(
            2, 128, dt=dt, gamma=gamma, epsilon=epsilon
        )
        for task, (dt, gamma, epsilon) in PAPER.items()
    }
    layers[f"ours: suggest({length}, 128)"] = own = theory.suggest(length, 128).layer(2)
    for name, layer in layers.items():
        layer.reset_parameters(generator(0, "lags", name))
    own.centre_(torch.tensor([0.5, 0.0]))
    found = {name: theory.network_of(layer) for name, layer in layers.items()}
    return {name: (network, measure.follow(network, input)) for name, network in found.items()}


@styled
def lags() -> Any:
    figure, axes = canvas(1, 2, size=(9.5, 4.3))
    cases = fresh_layers(LENGTH)
    by_lag(axes[0, 0], cases)
    letter(axes[0, 0], "a", "gradients before training")
    network, trajectory = next(iter(cases.values()))
    # One sequence will do, and a product of Jacobians is most of the work here.
    products(axes[0, 1], network, measure.follow(network, trajectory.input[:, :1]))
    letter(axes[0, 1], "b", "products of Jacobians at the paper's adding start")
    note(
        figure,
        "Fresh layers, random input in [0, 1]. In (b) the small-gain bound proves from the weights alone that the "
        "gradient vanishes, whatever the input;\nthe strict product leaves the panel at once.",
    )
    return figure
