"""Draw the two figures of the README into docs/figures: `python benchmarks/readme_figures.py`.

`readme.svg` explains the model. Its first two panels are simulated here, the third is drawn from the record
results/default-layer.json. `readme-speed.svg` is drawn from results/speed-against-size-*.json.
"""

from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from cornn import functional, theory
from cornn._json import read_json
from cornn.plots.style import COLOURS, canvas, save, styled

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "results"
FIGURES = ROOT / "docs" / "figures"

STEPS = 400
PULSES = {40: 1.0, 150: -0.6}
"""Step -> height of the input pulses of the first two panels."""
PULSE_WIDTH = 4
MODELS = {"default": "CoRNN, one rate", "gru": "nn.GRU, tuned rate", "lstm": "nn.LSTM, tuned rate"}
TASKS = {
    "pixels": "permuted\npixels",
    "rows": "image\nrows",
    "noise": "rows,\nnoise",
    "cifar": "CIFAR,\nnoise",
    "har": "HAR-2",
    "imdb": "IMDB",
}


def pulses() -> torch.Tensor:
    """Return the input of the first two panels, of shape (STEPS,)."""
    signal = torch.zeros(STEPS)
    for start, height in PULSES.items():
        signal[start : start + PULSE_WIDTH] = height
    return signal


def respond(gamma: torch.Tensor, epsilon: float, dt: float, gain: float) -> torch.Tensor:
    """Return y of uncoupled neurons that receive the pulses, of shape (STEPS, neurons)."""
    neurons = len(gamma)
    drive = gain * pulses()[:, None].expand(STEPS, neurons)
    rest, none = torch.zeros(neurons), torch.zeros(neurons, neurons)
    return functional.unroll(drive, rest, rest, none, none, dt, gamma, epsilon)[0]


@styled
def idea() -> Any:
    """Draw one neuron, a layer, and an application."""
    figure, axes = canvas(1, 3, size=(10.0, 3.2), width_ratios=(1, 1, 1.25))
    neuron, layer, learning = axes[0]

    neuron.set_title("A neuron: a damped, driven oscillator")
    neuron.fill_between(range(STEPS), 0.5 * pulses(), step="post", color="#bbbbbb", label="input")
    holding = respond(torch.tensor([0.002]), 2.0, 0.3, 1.2)[:, 0]
    ringing = respond(torch.tensor([0.6]), 0.04, 0.3, 0.35)[:, 0]
    neuron.plot(holding, color=COLOURS[0], label="overdamped: keeps a value")
    neuron.plot(ringing, color=COLOURS[1], linewidth=1.1, label="underdamped: oscillates")
    neuron.set(xlabel="step", ylabel="y", ylim=(-0.7, 1.05))
    neuron.legend(loc="upper right")

    layer.set_title("A layer: y of 48 underdamped neurons")
    suggestion = theory.suggest(STEPS, 48, shortest=12, underdamped=True)
    states = respond(torch.as_tensor(suggestion.gamma).float(), float(suggestion.epsilon), suggestion.dt, 1.0)
    states = states / states.abs().amax(0)
    layer.imshow(states.T, aspect="auto", cmap="RdBu_r", vmin=-1, vmax=1, interpolation="nearest", origin="lower")
    layer.grid(visible=False)
    layer.set(xlabel="step", ylabel="neuron, fast to slow")

    learning.set_title("Validation accuracy after short training, %")
    rows = read_json(RESULTS / "default-layer.json")["rows"]
    width = 0.27
    for number, (model, label) in enumerate(MODELS.items()):
        for place, task in enumerate(TASKS):
            values = [r["value"] for r in rows if (r["task"], r["model"], r["hidden_size"]) == (task, model, 128)]
            where = place + (number - 1) * width
            legend = label if place == 0 else None
            learning.bar(where, fmean(values), 0.9 * width, color=COLOURS[number], label=legend)
            learning.plot([where] * len(values), values, ".", color="#222222", markersize=3)
    learning.set_xticks(range(len(TASKS)), TASKS.values(), fontsize=7.5)
    learning.grid(visible=False, axis="x")
    learning.set(ylim=(0, 130), yticks=range(0, 101, 20))
    learning.legend(loc="upper center", ncols=3, fontsize=7, columnspacing=0.6, handlelength=0.8, handletextpad=0.4)
    return figure


@styled
def speed() -> Any:
    """Draw the time per step against the number of neurons, on a CPU and on a GPU."""
    figure, axes = canvas(1, 2, size=(9.0, 2.9))
    titles = {"cpu": "CPU, one thread", "cuda": "H200, every layer captured as a CUDA graph"}
    for panel, (device, title) in zip(axes[0], titles.items(), strict=True):
        record = read_json(RESULTS / f"speed-against-size-{device}.json")
        ours = {"cpu": "coRNN, c", "cuda": "coRNN, cuda"}[device]
        for number, name in enumerate((ours, "nn.GRU", "nn.LSTM")):
            rows = [row for row in record["rows"] if row["contender"] == name]
            cost = [row["seconds"] / row["steps"] * 1e6 for row in rows]
            label = "coRNN" if name == ours else name
            panel.plot([row["value"] for row in rows], cost, "o-", color=COLOURS[number], markersize=3, label=label)
        panel.set(xscale="log", yscale="log", xlabel="neurons", ylabel="µs per step", title=title)
        ticks = sorted({row["value"] for row in record["rows"]})
        panel.set_xticks(ticks, [str(value) for value in ticks])
        panel.minorticks_off()
    axes[0, 0].legend(loc="upper left")
    return figure


def main() -> None:
    """Write both figures."""
    for name, draw in {"readme": idea, "readme-speed": speed}.items():
        svg, png = save(draw(), FIGURES / name)
        png.unlink()
        print(svg.relative_to(ROOT))


if __name__ == "__main__":
    main()
