"""Measure what a layer costs in a user's own loop, next to PyTorch's layers: launched, captured and compiled.

    python benchmarks/user_loop.py [--out results/user-loop-cuda.json] [--repeats 3] [--cases har2-64 ...]
        [--compiled har2-64 ...]
    python benchmarks/user_loop.py --device cpu --cases har2-64 psmnist-128 --out results/user-loop-cpu.json

`--compiled` names the cases that are also compiled, which takes longest. On a CPU passes are only launched.
"""

import argparse
import json
import time
from pathlib import Path

import torch

from cornn.lab.bench.measure import record, row
from cornn.lab.bench.user_loop import COMPILED, LOOPS, MODES, follow_loops


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cuda")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--cases", nargs="*", choices=LOOPS, default=list(LOOPS))
    parser.add_argument("--compiled", nargs="*", choices=LOOPS, default=list(COMPILED))
    options = parser.parse_args()
    start, rows, left_out = time.perf_counter(), [], {}
    for name in options.cases:
        case = LOOPS[name]
        modes = [mode for mode in MODES if mode != "compiled" or name in options.compiled]
        modes = modes if options.device == "cuda" else ["launched"]
        figures, reasons = follow_loops(case, modes, options.repeats, options.device)
        rows += [row(name, case, figure) for figure in figures]
        left_out |= {f"{name}: {key}": reason for key, reason in reasons.items()}
        print(f"\n{name} ({case.steps}, {case.batch}, {case.hidden}, {case.inputs}): ms, both (forward)", flush=True)
        for figure in figures:
            print(
                f"  {figure.mode:9} {figure.contender:24} {figure.seconds * 1e3:8.3f} "
                f"({figure.forward_seconds * 1e3:.3f})",
                flush=True,
            )
        if options.out:
            content = record("launched, captured and compiled passes of a layer, median", rows)
            options.out.write_text(json.dumps(content | {"left_out": left_out}, indent=1) + "\n", encoding="utf8")
    for key, reason in left_out.items():
        print(f"left out: {key}: {reason}")
    where = torch.cuda.get_device_name() if options.device == "cuda" else f"{torch.get_num_threads()} threads"
    print(f"{time.perf_counter() - start:.0f} s on {where}")


if __name__ == "__main__":
    main()
