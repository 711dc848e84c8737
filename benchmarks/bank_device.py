"""Time the oscillator bank on a GPU: its CUDA kernel, PyTorch on the GPU, and C on all cores of the CPU.

python benchmarks/bank_device.py [--json results/bank-cuda.json]

Seconds to pool the states of the default bank, and of a whole fit of `CoRNNClassifier`, median of a few repeats. The
time on the GPU contains the copies from and to the CPU. The first call, which compiles the kernel, is apart.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cornn._machine import machine
from cornn._source import source
from cornn.engine import bank as engine
from cornn.engine import bank_portable
from cornn.estimators import CoRNNClassifier, OscillatorBank
from cornn.estimators.frames import Columns
from cornn.estimators.sequences import read_sequences

CASES = ((50, 150, 1), (200, 427, 1), (1000, 100, 6), (1000, 1000, 1), (4000, 500, 3))
"""Sequences, steps, features."""
REPEATS = 5
PYTORCH_STEPS = 500  # longest sequences that PyTorch by itself is timed on


def seconds(run: Callable[[], Any], repeats: int = REPEATS) -> float:
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def draw(sequences: int, steps: int, features: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    y = np.arange(sequences) % 3
    phase = random.uniform(0, 6, (sequences, 1, features))
    X = np.sin(np.arange(steps)[:, None] * (0.1 + 0.05 * y)[:, None, None] + phase)
    return X + 0.3 * random.normal(size=X.shape), y


def measure(sequences: int, steps: int, features: int) -> dict[str, Any]:
    X, y = draw(sequences, steps, features)
    bank = OscillatorBank(random_state=0).fit(X).bank_
    data = bank.inputs(read_sequences(X, Columns()))
    answers = {name: engine.pool(bank.bank, data, device=device) for name, device in (("c", "cpu"), ("cuda", "cuda"))}
    differ = float((np.abs(answers["c"] - answers["cuda"]) > 1e-4).mean())
    row: dict[str, Any] = {"sequences": sequences, "steps": steps, "features": features, "differ": differ}
    row["neurons"] = bank.bank.neurons
    row["c"] = seconds(lambda: engine.pool(bank.bank, data))
    row["cuda"] = seconds(lambda: engine.pool(bank.bank, data, device="cuda"))
    if steps <= PYTORCH_STEPS and sequences <= 1000:
        gpu = torch.device("cuda")
        row["pytorch"] = seconds(lambda: bank_portable.pool(bank.bank, data, None, gpu), 1)
    for device in ("cpu", "cuda"):
        row[f"fit_{device}"] = seconds(lambda where=device: CoRNNClassifier(random_state=0, device=where).fit(X, y), 1)
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if engine.backend("cuda")[0] != "cuda":
        raise SystemExit(f"the bank's kernel cannot run here: {engine.backend('cuda')[1]}")
    X, _ = draw(20, 50, 1)
    start = time.perf_counter()
    OscillatorBank(random_state=0, device="cuda").fit_transform(X)
    first = time.perf_counter() - start
    rows = []
    for case in CASES:
        rows.append(measure(*case))
        print(json.dumps(rows[-1]), flush=True)
    record = {
        "what": "seconds to pool the states of the default bank, and of a fit of CoRNNClassifier",
        "machine": machine(),
        "cores": len(os.sched_getaffinity(0)),
        **source(),
        "first_call": first,
        "rows": rows,
    }
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
