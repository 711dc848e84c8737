"""Fit the oscillator bank to 50,000 generated sequences of 100 steps; record time and peak memory.

    python benchmarks/bank_large.py --json results/bank-large.json [--sequences 50000] [--steps 100] [--threads 2]

Memory is the largest resident size of the whole process, including Python, PyTorch and the data.
"""

import argparse
import resource
import time
from pathlib import Path

import numpy as np
import torch

from cornn._machine import machine
from cornn._source import source
from cornn.estimators import CoRNNClassifier
from cornn.lab.runs import write_json

CLASSES = 5


def draw(sequences: int, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw noisy waves of five frequencies, shape (sequences, steps), and their classes."""
    random, label = np.random.default_rng(0), np.arange(sequences) % CLASSES
    clock = np.arange(steps) * (0.1 + 0.1 * label[:, None]) + random.uniform(0, 2 * np.pi, (sequences, 1))
    return np.sin(clock) + 0.5 * random.normal(size=clock.shape), label


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sequences", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    X, y = draw(options.sequences, options.steps)
    code, processor = source(), time.process_time()
    fitted = CoRNNClassifier(random_state=0, device="cpu").fit(X, y)
    record = {
        "what": "fit of CoRNNClassifier with default settings to generated sequences",
        "sequences": options.sequences,
        "steps": options.steps,
        "neurons": fitted.bank_.bank.bank.neurons,
        "cpu_seconds": round(time.process_time() - processor, 1),
        "peak_gigabytes": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9, 2),
        "machine": machine(),
        **code,
    }
    print(record)
    if options.json:
        write_json(options.json, record)


if __name__ == "__main__":
    main()
