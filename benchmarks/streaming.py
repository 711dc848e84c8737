"""What one sample costs: a stream of a layer and of a model beside a loop over the cell, on one thread of a CPU.

    python benchmarks/streaming.py [--json results/speed-stream.json] [--repeats 30]

Microseconds a sample, medians over runs of 2,000 samples after a warm-up, the contenders taking turns.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from cornn import CoRNN, CoRNNCell
from cornn.models import SequenceModel
from cornn.runs import commit, machine
from cornn.seeds import generator

SAMPLES, INPUTS, OUTPUTS = 2000, 3, 5
SIZES = (20, 64, 128, 256)


def contenders(hidden: int) -> dict[str, Callable[[torch.Tensor], None]]:
    """Name -> go through all samples (time, inputs), one by one."""
    layer = CoRNN(INPUTS, hidden)
    layer.reset_parameters(generator(0, "streaming"))
    model = SequenceModel(layer, OUTPUTS)
    cell = CoRNNCell(INPUTS, hidden)

    def loop(samples: torch.Tensor) -> None:
        state = None
        with torch.no_grad():
            for sample in samples:
                state = cell(sample, state)

    def streamed(make: Callable) -> Callable[[torch.Tensor], None]:
        def run(samples: torch.Tensor) -> None:
            stream = make()
            for sample in samples.numpy():
                stream(sample)

        return run

    return {
        "loop over the cell": loop,
        "layer.stream()": streamed(layer.stream),
        "model.stream()": streamed(model.stream),
    }


def measure(hidden: int, repeats: int) -> list[dict]:
    samples = torch.randn(SAMPLES, INPUTS, generator=generator(0, "samples"))
    runs = contenders(hidden)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run(samples[:200])
    for _ in range(repeats):
        for name, run in runs.items():
            began = time.perf_counter()
            run(samples)
            seconds[name].append(time.perf_counter() - began)
    return [
        {"hidden": hidden, "contender": name, "us": statistics.median(taken) / SAMPLES * 1e6}
        for name, taken in seconds.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=30)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for hidden in SIZES:
        rows += measure(hidden, options.repeats)
        for row in rows[-3:]:
            print(f"{row['hidden']:4}  {row['contender']:20} {row['us']:8.2f} us a sample", flush=True)
    if options.json:
        content = {"measured": __doc__.strip().splitlines()[0], "rows": rows, "machine": machine(), "commit": commit()}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
