"""Time the default layer with uneven times: its kernels, the plain equations, and nn.LSTM with the time as a feature.

    python benchmarks/durations.py [--out results/durations-cpu.json]

Forward and backward pass with all gradients of the weights, medians. On a GPU calls are launched from Python.
"""

import argparse
import json
import statistics
from pathlib import Path

import torch
from torch import nn

from cornn import CoRNN
from cornn.lab.bench.measure import record, turns

CASES = {"cpu": ((128, 64, 64), (784, 120, 128)), "cuda": ((128, 64, 64), (784, 120, 128), (784, 120, 256))}
"""Device -> (steps, batch, neurons)."""
FEATURES = 3
REPEATS = 3
CONTENDERS = ("coRNN, even times", "coRNN, uneven times", "coRNN, plain equations", "nn.LSTM", "nn.GRU")


def make_pass(contender: str, steps: int, batch: int, hidden: int, device: str):
    """Return a function that runs one forward and backward pass."""
    input, spans = torch.randn(steps, batch, FEATURES, device=device), 2 * torch.rand(steps, batch, device=device)
    if contender.startswith("nn."):
        layer = {"nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU}[contender](FEATURES + 1, hidden, device=device)
        arguments, options = torch.cat((input, spans.unsqueeze(-1)), -1), {}
    else:
        backend = "reference" if contender == "coRNN, plain equations" else "auto"
        layer, arguments = CoRNN(FEATURES, hidden, device=device, backend=backend), input
        options = {} if contender == "coRNN, even times" else {"timespans": spans}
    weights = list(layer.parameters())

    def run() -> None:
        output, _ = layer(arguments, **options)
        torch.autograd.grad(output.sum(), weights)

    return run


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    rows = []
    for steps, batch, hidden in CASES[device]:
        times = turns({name: make_pass(name, steps, batch, hidden, device) for name in CONTENDERS}, device, REPEATS)
        for contender in CONTENDERS:
            seconds = statistics.median(times[contender])
            rows.append({"steps": steps, "batch": batch, "hidden": hidden, "contender": contender, "seconds": seconds})
            print(f"{steps}, {batch}, {hidden}  {contender:24} {seconds * 1e3:9.2f} ms", flush=True)
    content = record(f"forward and backward with uneven times, {torch.get_num_threads()} threads, median", rows)
    if options.out:
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
