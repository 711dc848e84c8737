"""Compare large layers in exact fp32 on a GPU: products in fp32, and products of pieces on tensor cores.

    python benchmarks/exact_variants.py [--out PATH] [--repeats 10] [--only check|weights|time]

First errors against float64 at odd sizes, then the gradient of R alone, then captured passes of a layer. The products
of the steps and those of the gradient of R are switched separately. A case that fails is reported, and the others run.
"""

import argparse
import json
import multiprocessing
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import torch
from cuda_device import UPDATE, arguments, distance, results
from large_layers import error, measure, seconds

from cornn._tf32 import no_tf32
from cornn.engine import gemms
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.backends.cuda import nvrtc, weights
from cornn.engine.contract import BackwardInputs, Operands
from cornn.engine.updates import UPDATES
from cornn.lab.bench.measure import capture, record

# Steps by pieces, gradient of R by pieces.
VARIANTS = {"fp32": (False, False), "weights": (False, True), "steps": (True, False), "both": (True, True)}
CHECKS = [
    (60, 120, 1024, {}),
    (60, 120, 512, {}),
    (40, 7, 530, {}),
    (30, 70, 700, {"ragged": True, "spans": True}),
    (30, 41, 1024, {"ragged": True, "update": "cornn/implicit/tanh"}),
    (30, 9, 1500, {}),
    (30, 1100, 256, {"ragged": True}),
    (1, 3, 640, {}),
    (60, 70, 128, {}),
]
SIZES = [(784, 120, size) for size in (128, 256, 384, 512, 640, 768, 1024)]
SIZES += [(784, 1024, 128), (784, 1024, 256), (784, 1024, 512), (784, 64, 1536)]


@contextmanager
def variant(name: str) -> Iterator[None]:
    steps, gradient = VARIANTS[name]
    plan, has_pieces = cuda.grid_plan, cuda.has_pieces

    def chosen(*sizes, split: bool, rich: bool):
        return plan(*sizes, split=split and steps, rich=rich)

    cuda.grid_plan = chosen
    cuda.has_pieces = has_pieces if gradient else lambda *_: False
    for function in (cuda._grid, cuda._choose_grid):
        function.cache_clear()
    try:
        yield
    finally:
        cuda.grid_plan, cuda.has_pieces = plan, has_pieces
        for function in (cuda._grid, cuda._choose_grid):
            function.cache_clear()


def kernels() -> list[tuple[str, Mapping[str, object]]]:
    """Return most of the kernels that the cases below need, with their macros."""
    jobs: list[tuple[str, Mapping[str, object]]] = []
    cases = [(batch, hidden, UPDATE, False, False) for _, batch, hidden in SIZES]
    for _, batch, hidden, options in CHECKS:
        cases.append((batch, hidden, options.get("update", UPDATE), "spans" in options, True))
    for batch, hidden, update, spans, for_parameters in cases:
        for name in ("fp32", "both"):
            with variant(name):
                for direction in ("forward", "backward"):
                    macros = {**cuda._update_macros(UPDATES[update], spans)}
                    rich = spans or (for_parameters and direction == "backward")
                    macros |= {"FOR_PARAMETERS": int(for_parameters)} if direction == "backward" else {}
                    grid = cuda._choose_grid(0, 1, batch, hidden, "exact", rich) if hidden > 128 else None
                    layout = grid or cuda.plan(hidden, 1, batch, 132, cuda.ROWS_WITH_PARAMETERS if rich else cuda.ROWS)
                    jobs.append((f"{layout.kind}_{direction}.cu", cuda._macros(layout, macros)))
    return [*{str(job): job for job in jobs}.values(), ("weights_split.cu", weights.PIECES_MACROS)]


def compile_kernels() -> None:
    """Compile all kernels at the same time; one after the other they would take minutes."""
    jobs, (major, minor) = kernels(), torch.cuda.get_device_capability()
    start = time.perf_counter()
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as pool:
        waiting = [pool.submit(nvrtc.compile_kernel, *job, f"sm_{major}{minor}") for job in jobs]
        for job, result in zip(jobs, waiting, strict=True):
            if failure := result.exception():
                print(job, failure, flush=True)
    print(f"compiled {len(jobs)} kernels in {time.perf_counter() - start:.0f} s", flush=True)


def guarded(row: dict, measure: Callable[[], dict]) -> dict:
    try:
        row |= measure()
        torch.cuda.synchronize()
    except Exception as failure:
        traceback.print_exc()
        row["failed"] = f"{type(failure).__name__}: {failure}"
    print(json.dumps(row), flush=True)
    return row


def check(steps: int, batch: int, hidden: int, options: dict) -> dict:
    """Return relative errors against float64, and whether runs repeat to the bit."""
    update = options.get("update", UPDATE)
    others = {name: value for name, value in options.items() if name != "update"}
    inputs, lengths = arguments(steps, batch, hidden, 3, **others)
    expected = results(inputs, lengths, torch.float64, "portable", update)
    errors = {}
    for name in ("fp32", "both"):
        with variant(name):
            actual, repeated = (results(inputs, lengths, torch.float32, "cuda", update) for _ in range(2))
        errors[name] = {key: distance(actual[key], expected[key]) for key in expected}
        errors[f"{name}_repeats"] = all(torch.equal(actual[key], repeated[key]) for key in actual)
    worst = {name: max(errors[name].values()) for name in ("fp32", "both")}
    return {"worst": worst, "good": worst["both"] <= max(2 * worst["fp32"], 1e-6), **errors}


def gradient_of_weight(steps: int, batch: int, hidden: int, repeats: int) -> dict:
    """Return time and error of the gradient of R, by cuBLAS and by pieces."""
    torch.manual_seed(0)
    drive, output = (torch.randn(steps, batch, hidden, device="cuda") for _ in range(2))
    trail = torch.randn(2, steps, batch, hidden, device="cuda")
    weight = torch.zeros(hidden, 2 * hidden, device="cuda")
    given = Operands(output, None, None, None, weight, weight[:3, :hidden], None, None)
    after = BackwardInputs(None, None, output, trail)
    later = drive[1:].flatten(0, 1).double().mT
    expected = torch.cat([later @ x[:-1].flatten(0, 1).double() for x in (output, trail[0])], 1)
    row = {}
    for name, call in (
        ("cublas", lambda: gemms._for_weight(drive, given, after, False)),
        ("pieces", lambda: weights.gradient_by_pieces(drive, given, after, None)),
    ):
        row[f"{name}_error"] = distance(call(), expected)
        row[f"{name}_ms"] = seconds(capture(call), repeats) * 1e3
    return row


def timed(steps: int, batch: int, hidden: int, repeats: int) -> dict:
    """Return milliseconds of captured passes, forward, and forward and backward, and the error after 60 steps."""
    times = measure(steps, batch, hidden, "exact", repeats)
    return {
        "forward_ms": times["forward_seconds"] * 1e3,
        "ms": times["seconds"] * 1e3,
        "error": error(batch, hidden, "exact"),
        "plan": str(cuda._choose_grid(0, 1, batch, hidden, "exact", False)) if hidden > 128 else "block",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--only", choices=["check", "weights", "time"])
    options = parser.parse_args()
    rows = []

    def keep(row: dict) -> None:
        rows.append(row)
        if options.out:
            content = record("exact fp32 by products in fp32 and by products of pieces", rows)
            options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")

    compile_kernels()
    with no_tf32():
        if options.only in (None, "check"):
            for steps, batch, hidden, others in CHECKS:
                row = {"check": [steps, batch, hidden], **others}
                keep(guarded(row, lambda: check(steps, batch, hidden, others)))  # noqa: B023
        if options.only in (None, "weights"):
            for size in SIZES:
                keep(guarded({"gradient_of_weight": size}, lambda: gradient_of_weight(*size, options.repeats)))  # noqa: B023
        if options.only in (None, "time"):
            for size in SIZES:
                for name in VARIANTS:
                    with variant(name):
                        row = {"size": size, "variant": name}
                        keep(guarded(row, lambda: timed(*size, options.repeats)))  # noqa: B023


if __name__ == "__main__":
    main()
