"""Measure the speed-up by a second thread, block by block: two processors of a virtual machine may share a core.

python benchmarks/two_threads.py [--json results/two-threads.json]
"""

import argparse
import json
import statistics
from pathlib import Path

import torch

from cornn._machine import machine
from cornn._source import source
from cornn.lab.bench.cases import CASES
from cornn.lab.bench.measure import passes, seconds
from cornn.layers import CoRNN

NAMES = ("har2-64", "adding-500")
BLOCKS, BLOCK_SECONDS = 40, 0.25


def block(call, threads: int) -> float:
    """Return the median seconds of the calls within a quarter of a second, with this number of threads."""
    torch.set_num_threads(threads)
    call()
    times = []
    while sum(times) < BLOCK_SECONDS:
        times.append(seconds(call, "cpu"))
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows = []
    for name in NAMES:
        case = CASES[name]
        _, both = passes(CoRNN(case.inputs, case.hidden, backend="c"), case, "cpu")
        blocks = [(block(both, 1), block(both, 2)) for _ in range(BLOCKS)]
        rows.append({"case": name, "one": [single for single, _ in blocks], "two": [double for _, double in blocks]})
        ratios = sorted(single / double for single, double in blocks)
        print(f"{name}: {ratios[0]:.2f} to {ratios[-1]:.2f}, median {statistics.median(ratios):.2f}")
    if options.json:
        content = {"rows": rows, "machine": machine(), **source()}
        options.json.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


if __name__ == "__main__":
    main()
