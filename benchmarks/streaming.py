"""Measure the time per sample of the streams of a layer and a model, and of a loop over the cell, on one CPU thread.

    python benchmarks/streaming.py [--json results/speed-stream.json] [--repeats 7]

Microseconds per sample, medians over runs of 2,000 samples after a warm-up, the contenders taking turns.
"""

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

from cornn import CoRNN, CoRNNCell
from cornn._random import generator
from cornn.lab.bench.measure import record, turns
from cornn.models import SequenceModel

SAMPLES, INPUTS, OUTPUTS = 2000, 3, 5
SIZES = (20, 64, 128, 256)


def contenders(hidden: int) -> dict[str, Callable[[torch.Tensor], None]]:
    """Name -> function that processes all samples (time, inputs), one by one."""
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
    times = turns({name: partial(run, samples) for name, run in runs.items()}, "cpu", repeats)
    return [
        {"hidden": hidden, "contender": name, "us": statistics.median(seconds) / SAMPLES * 1e6}
        for name, seconds in times.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for hidden in SIZES:
        rows += measure(hidden, options.repeats)
        for row in rows[-3:]:
            print(f"{row['hidden']:4}  {row['contender']:20} {row['us']:8.2f} us per sample", flush=True)
    if options.json:
        content = record(__doc__.splitlines()[0], rows)
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
