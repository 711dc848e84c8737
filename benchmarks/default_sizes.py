"""Measure the size of the state of four default layers before training: `python benchmarks/default_sizes.py`."""

import json
from pathlib import Path

import torch
from torch import Tensor

from cornn import CoRNN
from cornn._source import source

RECORD = Path(__file__).resolve().parents[1] / "results" / "default-layer-sizes.json"
LAYERS, NEURONS, FEATURES, BATCH = 4, 64, 3, 8


def make_input(kind: str, steps: int) -> Tensor:
    white = torch.randn(steps, BATCH, FEATURES)
    if kind == "white":
        return white
    if kind == "constant, ±1":
        return white[:1].sign().expand(steps, BATCH, FEATURES)
    if kind == "uniform in [0, 1]":
        return torch.rand(steps, BATCH, FEATURES)
    spectrum = torch.fft.rfft(white, dim=0) / torch.arange(steps // 2 + 1).clamp(min=1).sqrt()[:, None, None]
    spectrum[0] = 0
    pink = torch.fft.irfft(spectrum, n=steps, dim=0)
    return pink / pink.std()


def main() -> None:
    rows = []
    for kind in ("white", "1/f", "constant, ±1", "uniform in [0, 1]"):
        for steps in (100, 1000, 5000):
            torch.manual_seed(0)
            layer = CoRNN(FEATURES, NEURONS, LAYERS)
            with torch.no_grad():
                y, _ = layer.last_state(make_input(kind, steps))
            rows.append({"input": kind, "steps": steps, "rms": y.square().mean((1, 2)).sqrt().tolist()})
    what = "RMS of y over a layer after the last step, four default layers before training, seed 0"
    content = {"what": what, **source(), "neurons": NEURONS, "features": FEATURES, "batch": BATCH, "rows": rows}
    RECORD.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
