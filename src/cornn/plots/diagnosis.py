"""The figure and the page of `cornn check`: one network compared with the theory."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cornn._extras import missing_extra
from cornn.plots.style import COLOURS, STYLES, canvas, data_uri, set_panel_title, styled
from cornn.theory import Network, energy, gradients, hypotheses, measure, register, small_gain
from cornn.theory.diagnose import Diagnosis
from cornn.theory.measure import Trajectory

__all__ = ["draw_diagnosis", "plot_gradients_by_lag", "plot_products", "render_page"]

TEN = math.log(10)
UPPER_RIGHT = {
    "xycoords": ("axes fraction", "data"),
    "textcoords": "offset points",
    "ha": "right",
    "fontsize": 8,
    "color": COLOURS[6],
}


@styled
def draw_diagnosis(network: Network, trajectory: Trajectory) -> Any:
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
        y, z = energy.state_bound(network, len(own))
        most = (network.gamma * y**2 + z**2)[1:].amax(1)
        first.plot(steps, most, color=COLOURS[1], linestyle=STYLES[1], label="bound: reach of y and z")
    first.set_yscale("log")
    first.set_xlabel("step")
    first.set_ylabel(r"energy $\gamma y^2 + z^2$")
    first.legend(loc="lower right")
    set_panel_title(first, "a", "energy")
    plot_gradients_by_lag(second, {"this network": (network, trajectory)})
    set_panel_title(second, "b", "gradients by lag")
    plot_products(third, network, trajectory)
    set_panel_title(third, "c", "products of Jacobians")
    return figure


def plot_gradients_by_lag(axes: Any, cases: Mapping[str, tuple[Network, Trajectory]]) -> None:
    """|dE_n/dX_k| over |dE_n/dX_n| for all k, n the last step, on a logarithmic scale."""
    least = most = 0.0
    for number, (name, (network, trajectory)) in enumerate(cases.items()):
        logs = measure.gradient_decay(network, trajectory).mean(1).flip(0)
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


def plot_products(axes: Any, network: Network, trajectory: Trajectory) -> None:
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
        "bound: small gain": (every, small_gain.log_growth_bound(network, steps) / TEN),
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


def render_page(check: Diagnosis) -> str:
    """The check as one HTML page that needs no other file."""
    try:
        import jinja2
    except ImportError:
        raise missing_extra("report", "the page needs Jinja2 and matplotlib") from None
    template = (Path(__file__).parent / "check.html.jinja").read_text(encoding="utf8")
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["number"] = lambda value: f"{value:.4g}"
    figure = data_uri(draw_diagnosis(check.subject.network, check.trajectory))
    return environment.from_string(template).render(check=check, register=register.REGISTER, figure=figure)
