"""The figure and the HTML page of `cornn check`."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cornn.functional import ACTIVATIONS
from cornn.plots import pages
from cornn.plots.style import (
    COLOURS,
    STYLES,
    add_legend_below,
    canvas,
    data_uri,
    plot_line,
    set_panel_title,
    styled,
    use_log_scale,
    use_whole_ticks,
)
from cornn.theory import Diagnosis, Network, energy, gradients, hypotheses, measure, register, small_gain
from cornn.theory.measure import Trajectory

__all__ = ["draw_diagnosis", "plot_gradients_by_lag", "plot_products", "render_page"]

TEN = math.log(10)


@styled
def draw_diagnosis(network: Network, trajectory: Trajectory) -> Any:
    """Draw the energy along a trajectory, gradients by lag, and products of Jacobians, with the proven bounds."""
    figure, axes = canvas(1, 3, size=(10.0, 4.4))
    first, second, third = axes[0]
    largest = energy.energy(network, trajectory.y, trajectory.z)[1:].amax((1, 2))
    steps = torch.arange(1, len(largest) + 1)
    plot_line(first, steps, largest, color=COLOURS[0], label="measured, largest over neurons")
    if ACTIVATIONS[network.activation].unit_bounded:
        bound = energy.energy_bound(network, len(largest))[1:].amax(1)
        if bound.isfinite().all():
            plot_line(first, steps, bound, color=COLOURS[2], linestyle=STYLES[2], label="bound: rate · n · dt")
        y, z = energy.state_bound(network, len(largest))
        max_energy = (network.gamma * y**2 + z**2)[1:].amax(1)
        plot_line(first, steps, max_energy, color=COLOURS[1], linestyle=STYLES[1], label="bound: |y| and |z|")
    use_log_scale(first)
    first.set(xlabel="step", ylabel="energy \N{GREEK SMALL LETTER GAMMA}y² + z²")
    add_legend_below(first)
    set_panel_title(first, "a", "energy")
    plot_gradients_by_lag(second, {"this network": (network, trajectory)})
    set_panel_title(second, "b", "gradients by lag")
    plot_products(third, network, trajectory)
    add_legend_below(third)  # in one column: the panel is narrow
    set_panel_title(third, "c", "products of Jacobians")
    for panel in axes[0]:
        use_whole_ticks(panel.xaxis)
    return figure


def plot_gradients_by_lag(axes: Any, cases: Mapping[str, tuple[Network, Trajectory]]) -> None:
    """Plot |dE_n/dX_k| / |dE_n/dX_n| against the lag n - k, where n is the last step, on a logarithmic scale."""
    lowest = highest = 0.0
    for number, (name, (network, trajectory)) in enumerate(cases.items()):
        logs = measure.gradient_decay(network, trajectory).mean(1).flip(0)
        lowest, highest = min(lowest, logs.min().item()), max(highest, logs.max().item())
        plot_line(axes, range(len(logs)), logs, color=COLOURS[number], linestyle=STYLES[number], label=name)
    smallest = math.log10(torch.finfo(torch.float32).tiny)
    if lowest < smallest / 2:
        lowest = min(lowest, smallest - 1)
        axes.axhline(smallest, color=COLOURS[6], linewidth=0.8, linestyle=":")
        place = {"xycoords": ("axes fraction", "data"), "textcoords": "offset points", "ha": "right"}
        axes.annotate("smallest normal float32", (1, smallest), (-2, 2), **place, fontsize=8, color=COLOURS[6])
    axes.set_ylim(min(max(lowest - 2, -48), -2), highest + 2)
    axes.set(xlabel="lag n - k in steps", ylabel="log₁₀ (|∂Eₙ/∂Xₖ| / |∂Eₙ/∂Xₙ|)")
    if len(cases) > 1:
        add_legend_below(axes)


def plot_products(axes: Any, network: Network, trajectory: Trajectory) -> None:
    """Plot ||dX_n/dX_k|| by lag with its bounds and the paper's approximation, on a logarithmic scale.

    All bounds are converted to the Euclidean norm. It is at most sqrt(2 m) times the max norm, and at most the square
    root of the ratio of the largest to the smallest energy weight times the energy norm.
    """
    steps = len(trajectory)
    lags, logs = measure.product_norms(network, trajectory, norm="euclid", every=max(1, steps // 100))
    every = torch.arange(steps + 1, dtype=torch.float64)
    dt = network.dt.max().item()
    r = min(max(hypotheses.largest_r(network), 0.5), 1.0)
    weights = torch.cat((network.gamma, torch.ones(1, dtype=torch.float64)))
    uneven = math.log(weights.max().item() / max(weights.min().item(), 1e-300)) / 2
    wide = math.log(2 * network.hidden_size) / 2
    # The bounds are proven for activations with a slope of at most 1.
    proven = ACTIVATIONS[network.activation].unit_slope
    lines = {
        "measured": (True, lags, logs.amax(1) / TEN),
        "bound: small gain": (proven, every, small_gain.log_growth_bound(network, steps) / TEN),
        "bound: energy": (proven, every, (every * math.log1p(gradients.energy_growth(network)) + uneven) / TEN),
        "bound: product of norms": (proven, every, (every * math.log(gradients.step_norm(network)) + wide) / TEN),
        "1 + 3·lag·dt^r (claimed; not a bound)": (True, every, torch.log10(1 + 3 * every * dt**r)),
    }
    for number, (name, (is_shown, x, y)) in enumerate(lines.items()):
        if is_shown and y.isfinite().all():
            axes.plot(x, y, color=COLOURS[number], linestyle=STYLES[number], label=name)
    low, high = (logs.amax(1) / TEN).aminmax()
    axes.set_ylim(min(low.item(), -1) * 1.15, max(high.item() * 1.5, 12))
    axes.set(xlabel="lag n - k in steps", ylabel="log₁₀ ‖∂Xₙ/∂Xₖ‖")
    add_legend_below(axes, columns=2)


def render_page(diagnosis: Diagnosis) -> str:
    """Render a diagnosis as one self-contained HTML page."""
    pages.check_packages("the page")
    figure = data_uri(draw_diagnosis(diagnosis.subject.network, diagnosis.trajectory))
    template = Path(__file__).parent / "check.html.jinja"
    return pages.render(template, check=diagnosis, register=register.REGISTER, figure=figure)
