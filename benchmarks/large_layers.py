"""Layers above 128 neurons on a GPU, in exact fp32 and on tensor cores: time, and error against float64.

    python benchmarks/large_layers.py [--out results/large-layers.json] [--repeats 10]

Times are medians of captured passes by device events. Errors are relative, of the output and of all gradients, after 60
steps.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path

import torch

from cornn import CoRNN
from cornn._tf32 import no_tf32
from cornn.lab.bench.measure import capture, record

# steps, batch, neurons
SIZES = [(784, 120, size) for size in (256, 512, 768, 1024)] + [(784, 1024, 256), (784, 1024, 512), (784, 64, 1536)]
PRECISIONS = ("exact", "tf32", "bf16")


def seconds(replay: Callable[[], object], repeats: int) -> float:
    """Return the median time of a captured pass."""
    times = []
    for number in range(repeats + 2):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        replay()
        end.record()
        end.synchronize()
        times += [begin.elapsed_time(end) / 1e3] if number > 1 else []
    return statistics.median(times)


def measure(steps: int, batch: int, hidden: int, precision: str, repeats: int) -> dict:
    """Measure one layer."""
    layer = CoRNN(1, hidden, dt=0.05, precision=precision, device="cuda")
    input, gradient = (torch.randn(steps, batch, size, device="cuda") for size in (1, hidden))
    weights = list(layer.parameters())

    def forward() -> torch.Tensor:
        with torch.no_grad():
            return layer(input)[0]

    def both() -> tuple[torch.Tensor, ...]:
        return torch.autograd.grad(layer(input)[0], weights, gradient)

    times = {"forward_seconds": seconds(capture(forward), repeats), "seconds": seconds(capture(both), repeats)}
    return {"steps": steps, "batch": batch, "hidden": hidden, "precision": precision, **times}


def error(batch: int, hidden: int, precision: str) -> float:
    """Return the largest relative error of the output and the gradients against float64."""
    torch.manual_seed(0)
    layer = CoRNN(3, hidden, dt=0.05, precision=precision, device="cuda")
    exact = CoRNN(3, hidden, dt=0.05, device="cuda", dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    input, results = torch.randn(60, min(batch, 128), 3, device="cuda"), []
    for model, values in ((layer, input), (exact, input.double())):
        output = model(values)[0]
        results.append((output, *torch.autograd.grad(output.square().sum(), list(model.parameters()))))
    pairs = zip(*results, strict=True)
    return max(((actual.double() - expected).norm() / expected.norm()).item() for actual, expected in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()
    rows = []
    with no_tf32():
        for steps, batch, hidden in SIZES:
            for precision in PRECISIONS:
                row = measure(steps, batch, hidden, precision, options.repeats)
                rows.append(row | {"error": error(batch, hidden, precision)})
                print(json.dumps(rows[-1]), flush=True)
    if options.out:
        content = record("captured passes of large layers, median; relative errors against float64", rows)
        options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
