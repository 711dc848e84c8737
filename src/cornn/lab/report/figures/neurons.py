"""The paper's illustration of one and two neurons: the solution of the ODE and the recurrence.

The paper does not publish initial state, horizon and step input; the values here are ours, printed in the caption.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from cornn._extras import missing_extra
from cornn.functional import ACTIVATIONS, unroll
from cornn.plots.style import COLOURS, STYLES, add_note, canvas, set_panel_title, styled

HORIZON, DT, START = 15.0, 0.01, (0.0, 1.0)
PIECES = ((2.0, 5.0, 1.0), (7.0, 9.0, -1.0), (11.0, 13.0, 0.5))  # from, to, height


@dataclass(frozen=True)
class Oscillator:
    """One or more neurons, with the constants of the paper's appendix on heuristics."""

    W: tuple[tuple[float, ...], ...] = ((0.0,),)
    W_z: tuple[tuple[float, ...], ...] = ((0.0,),)
    V: float = 0.0
    b: float = 0.0
    gamma: float = 1.0
    epsilon: float = 0.0
    activation: str = "identity"


CONTROLLED = Oscillator(((-2.0,),), ((0.75,),), V=2.0, b=0.25, epsilon=0.25)
CORNN = replace(CONTROLLED, activation="tanh")

NEURONS = {
    "SHO": Oscillator(),
    "FHO": Oscillator(V=1.0),
    "FDO": Oscillator(V=1.0, epsilon=0.25),
    "CFDO": CONTROLLED,
    "coRNN": CORNN,
    "DUFF": replace(CONTROLLED, activation="duffing"),
}
"""Legend entry of the paper's top and middle rows -> one neuron."""

NETWORKS = {
    "UC": replace(CORNN, W=((-2.0, 0.0), (0.0, -2.0)), W_z=((0.75, 0.0), (0.0, 0.75))),
    "ORD": replace(CORNN, W=((-2.0, 0.0), (3.0, -2.0)), W_z=((0.75, 0.0), (-1.0, 0.75))),
    "FC": replace(CORNN, W=((-2.0, 1.0), (3.0, -2.0)), W_z=((0.75, 0.3), (-1.0, 0.75))),
}
"""Legend entry of the bottom row -> two neurons."""


def cosine(time: Any) -> np.ndarray:
    return np.cos(4 * np.asarray(time))


def steps(time: Any) -> np.ndarray:
    time = np.asarray(time)
    return np.sum([height * ((time >= first) & (time < last)) for first, last, height in PIECES], axis=0)


def solution(oscillator: Oscillator, input: Callable[[Any], np.ndarray], times: np.ndarray) -> np.ndarray:
    """Solve the ODE: y at `times`, (times, neurons), NaN after leaving +-1e6."""
    try:
        from scipy.integrate import solve_ivp
    except ImportError:
        raise missing_extra("report", "the illustration needs scipy") from None
    W, W_z, m = np.array(oscillator.W), np.array(oscillator.W_z), len(oscillator.W)

    def change(time: float, state: np.ndarray) -> np.ndarray:
        y, z = state[:m], state[m:]
        force = ACTIVATIONS[oscillator.activation].of_array(W @ y + W_z @ z + oscillator.V * input(time) + oscillator.b)
        return np.concatenate((z, force - oscillator.gamma * y - oscillator.epsilon * z))

    def gone(time: float, state: np.ndarray) -> float:
        return 1e6 - np.abs(state).max()

    gone.terminal = True
    start = np.repeat(START, m)
    # A solver with long steps could skip a piece of the step input.
    options = {"method": "DOP853", "t_eval": times, "rtol": 1e-8, "atol": 1e-8, "max_step": 0.5, "events": gone}
    result = solve_ivp(change, (0, times[-1]), start, **options)
    ys = np.full((len(times), m), np.nan)
    ys[: result.y.shape[1]] = result.y[:m].T
    return ys


def recurrence(oscillator: Oscillator, input: Callable[[Any], np.ndarray], times: np.ndarray) -> np.ndarray:
    """Run the recurrence with explicit damping: y at `times`, which are multiples of DT from 0, (times, neurons)."""
    W, W_z = torch.tensor(oscillator.W, dtype=torch.float64), torch.tensor(oscillator.W_z, dtype=torch.float64)
    m = len(W)
    drive = torch.from_numpy(oscillator.V * input(times[1:]) + oscillator.b)[:, None].expand(-1, m)
    y, z = (torch.full((m,), value, dtype=torch.float64) for value in START)
    ys, _ = unroll(drive, y, z, W, W_z, DT, oscillator.gamma, oscillator.epsilon, activation=oscillator.activation)
    return torch.cat((y[None], ys)).numpy()


@styled
def illustration() -> Any:
    """Draw the six panels."""
    figure, axes = canvas(3, 2, size=(9.0, 8.6), sharex=True)
    times = np.arange(round(HORIZON / DT) + 1) * DT
    for row, (input, name) in enumerate(((cosine, "u(t) = cos 4t"), (steps, "u(t) piecewise constant"))):
        left, right = axes[row]
        left.plot(times[::2], input(times[::2]), color=COLOURS[6])
        left.set(ylim=(-1.3, 1.3), ylabel="input u")
        set_panel_title(left, "ab"[row], name)
        _states(right, times, {key: (oscillator, input, 0) for key, oscillator in NEURONS.items()})
        right.set_ylim(-3.3, 3.3)
        set_panel_title(right, "cd"[row], f"one neuron, y(t), input ({'ab'[row]})")
        right.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    for column in (0, 1):
        _states(axes[2, column], times, {key: (oscillator, cosine, column) for key, oscillator in NETWORKS.items()})
        axes[2, column].set_xlabel("time t")
        set_panel_title(axes[2, column], "ef"[column], f"two neurons, y{'₁₂'[column]}(t), input (a)")
        axes[2, column].set_ylim(-3.3, 3.3)
    axes[2, 1].legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
    pieces = ", ".join(f"{height:g} on [{first:g}, {last:g})" for first, last, height in PIECES)
    add_note(
        figure,
        "Lines: the ODE (scipy). Dots: the recurrence, explicit damping, dt = 0.01. Our choice, not given in the paper:"
        f" y(0) = 0, y'(0) = 1,\nt up to {HORIZON:g}, step input {pieces}. With the published values CFDO has "
        "negative net damping\n(epsilon - W_z = -0.5) and grows without bound; DUFF diverges in finite time. The first "
        "neurons of ORD and UC are identical: their lines in (e) coincide.",
    )
    return figure


def _states(axes: Any, times: np.ndarray, cases: dict[str, tuple[Oscillator, Callable, int]]) -> None:
    for number, (name, (oscillator, input, neuron)) in enumerate(cases.items()):
        ys = solution(oscillator, input, times)[:, neuron]
        ends = times[np.isfinite(ys)][-1]
        # A line that leaves the panel ends there: its later crossings would only hide the others.
        out = np.flatnonzero(~(np.abs(ys) < 3.0))
        inside = np.arange(len(times)) < (out[0] if len(out) else len(times))
        ys = np.where(inside, ys, np.nan)
        dots = np.where(inside, recurrence(oscillator, input, times)[:, neuron], np.nan)
        look = {"color": COLOURS[number]}
        # UC is drawn wide and pale in the background, so that coinciding lines stay visible.
        under = {"linewidth": 4.5, "alpha": 0.35, "zorder": 1} if name == "UC" else {}
        axes.plot(times[::4], ys[::4], linestyle=STYLES[number], label=name, **(look | under))
        every = slice(10 * number, None, 75)
        axes.plot(times[every], dots[every], ".", markersize=4.5, **look)
        if not inside.all():
            last = np.flatnonzero(inside)[-1]
            axes.plot(times[last], ys[last], "^" if ys[last] > 0 else "v", markersize=6, **look)
            words = f"{name} →∞ at {ends:.1f}" if ends < times[-1] else name
            # Two lines may leave at nearly the same place: labels of diverging ones go to the left.
            left = ends < times[-1]
            side = {"xytext": (-6 if left else 6, -3), "textcoords": "offset points", "ha": "right" if left else "left"}
            axes.annotate(words, (times[last], ys[last]), fontsize=8, color=COLOURS[number], **side)
    axes.set_ylabel("state y")
