"""Run the kernels of large layers, weight gradients and durations under compute-sanitizer, at small odd sizes.

    python benchmarks/sanitize.py [--tools memcheck racecheck synccheck] [--limit 60] [--out PATH]

The kernels run once without the sanitizer, which compiles them, then once with each tool; `--limit` is the number of
seconds that a tool may take. A tool that finds nothing exits with 0.
"""

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import torch

from cornn import CoRNN
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.backends.cuda import weights
from cornn.engine.contract import BackwardInputs, Needs, Operands, Request, Scales
from cornn.engine.updates import UPDATES
from cornn.lab.bench.measure import record

# precision, products of pieces where there are, batch, hidden, timespans and gradients of the parameters
GRIDS = [
    ("exact", True, 9, 516, False),
    ("exact", True, 41, 530, True),
    ("exact", False, 9, 516, False),
    ("tf32", False, 9, 530, True),
    ("bf16", False, 41, 516, False),
]
# batch, hidden, features, whether by products of pieces
WEIGHTS = [(5, 33, 3, False), (7, 64, 1, False), (5, 132, 3, True), (3, 260, 1, True)]
# batch, hidden, features of the kernels of durations
DURATIONS = [(1, 33, 3), (9, 20, 1), (7, 128, 6)]
STEPS = 3


def draw(*shape: int) -> torch.Tensor:
    return (torch.randn(shape) * 0.3).cuda()


def run_grid(precision: str, pieces: bool, batch: int, hidden: int, rich: bool) -> None:
    plan = cuda.grid_plan
    cuda.grid_plan = lambda *given, split, rich: plan(*given, split=split and pieces, rich=rich)
    cuda._grid.cache_clear()
    cuda._choose_grid.cache_clear()
    lengths = torch.randint(0, STEPS + 1, (batch,)) if rich else None
    spans = draw(STEPS, batch).abs() if rich else None
    parameters = torch.full((3, hidden), 0.1).cuda()
    given = Operands(draw(STEPS, batch, hidden), draw(2, batch, hidden), None, None, draw(hidden, 2 * hidden) / 10,
                  parameters, spans, lengths)  # fmt: skip
    request = Request(UPDATES["cornn/implicit/tanh"], keep=True, precision=precision)
    output, last, trail = cuda.forward(given, request)
    needs = Needs(True, True, False, False, False, parameters=rich, timespans=rich)
    assert trail is not None
    cuda.backward_steps(given, BackwardInputs(torch.ones_like(output), last, output, trail), request, needs)
    torch.cuda.synchronize()
    assert output.isfinite().all()
    cuda.grid_plan = plan


def run_weights(batch: int, hidden: int, features: int, pieces: bool) -> None:
    output, trail = draw(STEPS, batch, hidden), draw(2, STEPS, batch, hidden)
    scales = Scales(draw(hidden, features), draw(hidden), draw(hidden, 2 * hidden))
    given = Operands(draw(STEPS, batch, features), draw(2, batch, hidden), draw(hidden, features), draw(hidden),
                  draw(hidden, 2 * hidden), draw(3, hidden), None, None)  # fmt: skip
    after, needs = BackwardInputs(None, None, output, trail), Needs(False, False, True, True, True, False, False)
    if pieces:
        gradient = weights.gradient_by_pieces(draw(STEPS, batch, hidden), given, after, scales)
    else:
        gradient = weights.weight_gradients(draw(STEPS, batch, hidden), given, after, needs, scales)[-1]
    torch.cuda.synchronize()
    assert gradient is not None
    assert gradient.isfinite().all()


def run_durations(batch: int, hidden: int, features: int) -> None:
    layer = CoRNN(features, hidden, device="cuda", backend="cuda")
    spans = (10 * torch.rand(STEPS, batch)).cuda().requires_grad_()
    output, _ = layer(draw(STEPS, batch, features), timespans=spans)
    output.sum().backward()
    torch.cuda.synchronize()
    assert output.isfinite().all()


def find_sanitizer() -> str:
    """Return the path of compute-sanitizer."""
    for places in (None, "/usr/local/cuda/bin:/usr/local/cuda/compute-sanitizer:/opt/cuda/bin"):
        if sanitizer := shutil.which("compute-sanitizer", path=places):
            return sanitizer
    raise SystemExit("compute-sanitizer not found: it is part of the CUDA toolkit")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", nargs="*", default=["memcheck", "racecheck", "synccheck"])
    parser.add_argument("--limit", type=int, default=60)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--run", action="store_true", help="Run the kernels, without the sanitizer.")
    options = parser.parse_args()
    if options.run:
        for case in GRIDS:
            run_grid(*case)
        for case in WEIGHTS:
            run_weights(*case)
        for case in DURATIONS:
            run_durations(*case)
        return
    command, rows = [sys.executable, __file__, "--run"], []
    for tool in (None, *options.tools):
        start = time.perf_counter()
        under = [] if tool is None else [find_sanitizer(), "--tool", tool, "--error-exitcode", "9"]
        if tool == "memcheck":  # cuda-python queries functions that the driver does not have
            under += ["--report-api-errors", "no"]
        try:
            process = subprocess.run(
                [*under, *command], capture_output=True, text=True, timeout=options.limit, check=False
            )
            code, lines = process.returncode, [line for line in process.stdout.splitlines() if line.startswith("=====")]
            lines += process.stderr.splitlines()[-5:] if code else []
        except subprocess.TimeoutExpired:
            code, lines = -1, [f"stopped after {options.limit} s"]
        rows.append(
            {"tool": tool, "exit": code, "seconds": time.perf_counter() - start, "lines": lines[:20] + lines[-3:]}
        )
        print(json.dumps(rows[-1]), flush=True)
        if options.out:
            content = record("kernels of large layers, weight gradients and durations under compute-sanitizer", rows)
            options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")
    raise SystemExit(any(row["exit"] for row in rows))


if __name__ == "__main__":
    main()
