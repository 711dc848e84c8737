"""Four claims of the paper that are false, one per panel."""

import math
from typing import Any

import torch

from cornn.plots.style import COLOURS, STYLES, canvas, set_panel_title, styled
from cornn.theory import claims, energy, linear, measure, network, representation
from cornn.theory.counterexamples import chaotic_network

TEN = math.log(10)


@styled
def statements() -> Any:
    """Draw the four panels."""
    figure, axes = canvas(2, 2, size=(9.0, 7.0))
    _product(axes[0, 0])
    _chaos(axes[0, 1])
    _remainder(axes[1, 0])
    _limits(axes[1, 1])
    return figure


def _product(axes: Any) -> None:
    """Plot eq:norm2 at r = 1/2 for one neuron at the limit of the hypothesis."""
    dt, steps = 0.01, 100
    edge = torch.full((1, 1), dt**-0.5 * (1 + dt), dtype=torch.float64)
    neuron = network(edge - 1, edge, dt, 1.0, 1.0, damping="implicit")
    lags, logs = measure.product_norms(neuron, measure.simulate(neuron, torch.zeros(steps, 1, 1)))
    strict = [math.log10(claims.strict_product(dt, 0.5, lag)) for lag in lags.tolist()]
    claimed = [math.log10(claims.approximate_product(dt, 0.5, lag)) for lag in lags.tolist()]
    axes.plot(lags, strict, color=COLOURS[2], linestyle=STYLES[2], label="(1 + 3√dt)^lag (proven bound)")
    axes.plot(lags, logs[:, 0] / TEN, color=COLOURS[0], label="measured")
    axes.plot(lags, claimed, color=COLOURS[1], linestyle=STYLES[1], label="1 + 3·lag·√dt (claimed; not a bound)")
    axes.set(xlabel="lag in steps", ylabel="log₁₀ ‖∂Xₙ/∂Xₖ‖")
    axes.legend()
    set_panel_title(axes, "a", "eq:norm2, prop:3: one neuron with eq:assm, r = 1/2")


def _chaos(axes: Any) -> None:
    """Plot the separation under two inputs that differ by 1e-9 at one step."""
    chaotic, input = chaotic_network()
    other = input.clone()
    other[0, 0, 0] += 1e-9
    apart = torch.sqrt(measure.separation(chaotic, input, other)[1:, 0])
    time = torch.arange(1, len(input) + 1) * 0.1
    bound = torch.sqrt(energy.separation_bound(chaotic, len(input)).sum(1)[1:])
    growth = apart[0] * torch.arange(1, len(input) + 1)
    time, bound, apart, growth = (line[::5] for line in (time, bound, apart, growth))
    axes.plot(time, bound, color=COLOURS[2], linestyle=STYLES[2], label="prop:2 (proven bound)")
    axes.plot(time, apart, color=COLOURS[0], label="measured")
    axes.plot(time, growth, color=COLOURS[1], linestyle=STYLES[1], label="linear growth (claimed)")
    axes.set(yscale="log", xlabel="time", ylabel="distance between the states")
    axes.legend(loc="lower right")
    set_panel_title(axes, "b", "after prop:2: chaos, inputs 10⁻⁹ apart, 64 neurons")


def _remainder(axes: Any) -> None:
    """Plot the remainder of eq:vg2, which does not vanish with dt."""
    for number, dt in enumerate((0.1, 0.03, 0.01)):
        steps = round(1 / dt)
        neuron = network(torch.zeros(1, 1), torch.zeros(1, 1), dt, 1.0, 1.0, damping="implicit")
        _, left = representation.leading_remainder(neuron, measure.simulate(neuron, torch.zeros(steps, 1, 1)))
        time = torch.arange(1, steps + 1) * dt
        axes.plot(time, left[:, 0], color=COLOURS[number], linestyle=STYLES[number], label=f"dt = {dt:g}")
        axes.axhline(dt, color=COLOURS[number], linewidth=0.7, linestyle=STYLES[number])
        axes.text(1.0, dt * 1.08, f"dt = {dt:g}", fontsize=7.5, color=COLOURS[number], ha="right")
    axes.set(xscale="log", yscale="log", xlabel="time between the steps", ylabel="norm of the remainder")
    axes.legend(loc="upper left")
    set_panel_title(axes, "c", "eq:vg2: the remainder is claimed to be of order dt")


def _limits(axes: Any) -> None:
    """Plot the exact stability limits of dt."""
    gamma = torch.logspace(-2, 2.3, 200, dtype=torch.float64)
    for number, epsilon in enumerate((1.0, 9.5)):
        for damping, style in (("explicit", "-"), ("implicit", "--")):
            limit = linear.stability_limit(gamma, epsilon, damping=damping)
            axes.plot(
                gamma, limit, color=COLOURS[number], linestyle=style, label=f"{damping}, $\\epsilon$ = {epsilon:g}"
            )
    axes.axhline(1, color=COLOURS[6], linewidth=0.8, linestyle=":")
    axes.text(0.007, 1.08, "dt = 1", fontsize=8, color=COLOURS[6])
    axes.set(xscale="log", yscale="log", ylim=(0.05, 40), xlabel=r"stiffness $\gamma$", ylabel="largest stable dt")
    axes.legend(loc="upper right")
    set_panel_title(axes, "d", "after eq:dt: “stable in the same range” of dt")
