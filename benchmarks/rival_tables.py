"""The tables of the rivals: their speed on a GPU beside coRNN's, and their sizes beside the published ones."""

import json
from pathlib import Path

import torch
from torch import nn

from cornn import CoRNN
from cornn.baselines import LAYERS
from cornn.models import SequenceModel, count_parameters
from cornn.paper import PUBLISHED
from cornn.report.tables import NAMES

RECORD = Path(__file__).resolve().parents[1] / "results" / "speed-rivals.json"


def speed_rivals() -> str:
    """The kernels alone, then forward and backward with the weights' gradients, and what the parameters cost apart."""
    if not RECORD.exists():
        return "There is no record yet."
    lines = [
        "| model | forward, µs a step | backward, µs a step | kernels ÷ coRNN's | both, ms | ÷ coRNN's | apart, ms |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for row in json.loads(RECORD.read_text(encoding="utf8"))["rows"]:
        if "failed" in row:
            lines.append(f"| {row['model']} | - | - | - | - | - | - |")
            continue
        apart = "-" if row["apart_ms"] is None else f"{row['apart_ms']:.2f}"
        lines.append(
            f"| {row['model']} | {row['forward_us']:.3f} | {row['backward_us']:.3f} | {row['kernels_ratio']:.2f} "
            f"| {row['both_ms']:.3f} | {row['both_ratio']:.2f} | {apart} |"
        )
    return "\n".join(lines)


# Task -> inputs and outputs. Of IMDB the words, which all models share, are not counted.
SIZES = {
    "smnist": (1, 10),
    "psmnist": (1, 10),
    "noisy-cifar10": (96, 10),
    "har2": (9, 1),
    "imdb": (100, 1),
    "lorenz96": (5, 5),
}
OTHERS = {"cornn": lambda *sizes: CoRNN(*sizes, dt=0.1, gamma=1.0, epsilon=1.0), "lstm": nn.LSTM, "gru": nn.GRU}


def rival_sizes() -> str:
    """Every model of the paper's tables as it is here, with its readout, beside what the paper prints."""
    lines = [
        "| task | model | units | parameters here | printed |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    keys = {name: key for key, name in NAMES.items()}
    for task, rows in PUBLISHED.items():
        for units, model, printed in dict.fromkeys((row.units, row.model, row.parameters) for row in rows):
            key, (inputs, outputs) = keys[model], SIZES[task]
            # The printed units of uRNN are complex, and hidden_size counts real numbers.
            hidden = 2 * units if key == "unitary" else units
            with torch.device("meta"):
                size = count_parameters(SequenceModel((OTHERS | LAYERS)[key](inputs, hidden), outputs))
            lines.append(f"| {task} | {model} | {units} | {size:,} | {printed // 1000}k |")
    return "\n".join(lines)


TABLES = {"speed-rivals": speed_rivals, "rival-sizes": rival_sizes}
