"""Measure the processor time of one step of a cell on a CPU, next to `nn.LSTMCell`: medians over turns.

python benchmarks/cell.py [--json results/cell-cpu.json]
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from cornn import CoRNNCell
from cornn.lab.bench.measure import record

SIZES = ((1, 16), (1, 64), (8, 32))  # sequences, neurons and features
TURNS, CALLS = 25, 200
CELLS: dict[str, Callable[[int], nn.Module]] = {
    "CoRNNCell": lambda size: CoRNNCell(size, size),
    "CoRNNCell, given constants": lambda size: CoRNNCell(size, size, dt=0.05),
    "nn.LSTMCell": lambda size: nn.LSTMCell(size, size),
}


def passes(cell: nn.Module, batch: int, size: int) -> tuple[Callable, Callable]:
    """One step without gradients, and one with the gradients of all weights."""
    input, state = torch.randn(batch, size), (torch.zeros(batch, size), torch.zeros(batch, size))
    weights, gradient = list(cell.parameters()), torch.ones(batch, size)

    def forward():
        with torch.no_grad():
            return cell(input, state)

    def both():
        return torch.autograd.grad(cell(input, state)[0], weights, gradient)

    return forward, both


def microseconds(call: Callable) -> float:
    start = time.process_time()
    for _ in range(CALLS):
        call()
    return (time.process_time() - start) / CALLS * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = []
    for batch, size in SIZES:
        calls = {name: passes(make(size), batch, size) for name, make in CELLS.items()}
        times: dict[tuple[str, int], list[float]] = {(name, kind): [] for name in calls for kind in (0, 1)}
        for _ in range(TURNS):
            for name, kind in times:
                times[name, kind].append(microseconds(calls[name][kind]))
        for name in calls:
            forward, both = (statistics.median(times[name, kind]) for kind in (0, 1))
            rows.append({"batch": batch, "hidden": size, "contender": name, "forward_us": forward, "both_us": both})
            print(f"{batch:3} {size:4} {name:28} {forward:7.1f} {both:7.1f}", flush=True)
    if options.json:
        content = record("one step of a cell, processor time, one thread, median", rows)
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
