"""Measure how the cost grows with one size."""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from cornn._tf32 import no_tf32
from cornn.lab.bench.cases import Case, contenders
from cornn.lab.bench.measure import can_capture, capture, passes, peak_memory, seconds

LARGE_PRODUCT = 2048
MAX_MEMORY = 0.4
"""Largest share of the free memory that a contender may use."""
MEMORY_OF_LOOP = 40
"""Number of values that the plain loop keeps per step, sequence and neuron, to estimate memory that is not measured."""


@dataclass(frozen=True)
class Sweep:
    """A case in which one size takes several values."""

    field: str
    label: str
    values: tuple[int, ...]
    case: Case

    def cases(self) -> Iterator[tuple[int, Case]]:
        for value in self.values:
            yield value, replace(self.case, **{self.field: value})


SWEEPS = {
    # One sequence: with a million steps and 64 neurons the fused kernels keep 0.8 GB.
    "length": Sweep("steps", "steps", tuple(10**k for k in range(2, 7)), Case(0, 1, 64)),
    "batch": Sweep("batch", "sequences in a batch", tuple(4**k for k in range(6)), Case(200, 0, 128)),
    "size": Sweep("hidden", "neurons", tuple(2**k for k in range(4, 11)), Case(200, 32, 0)),
}


@dataclass(frozen=True)
class Point:
    """Forward and backward of one contender at one value of a sweep."""

    contender: str
    value: int
    steps: int
    seconds: float
    memory: int | None


def _free_memory(device: str) -> float:
    """Return the free memory in bytes."""
    if device == "cuda":
        return torch.cuda.mem_get_info()[0]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        return 4e9


def _count_multiply_adds(case: Case) -> float:
    """Return the multiply-adds of forward, backward and the gradients of the weights, three products of equal size."""
    return 3.0 * case.steps * case.batch * case.hidden * (2 * case.hidden + case.inputs)


def _measure_multiply_adds(device: str) -> float:
    """Measure the multiply-adds per second of one large product in float32, an upper limit for all contenders."""
    left = torch.randn(LARGE_PRODUCT, LARGE_PRODUCT, device=device)
    torch.mm(left, left)
    return LARGE_PRODUCT**3 / min(seconds(lambda: torch.mm(left, left), device) for _ in range(7))


def measure_sweep(
    sweep: Sweep, device: str, repeats: int, longest: float, say: Callable[[str], None] = lambda text: None
) -> tuple[list[Point], list[Point], dict[str, str]]:
    """Measure every contender as far as memory allows and a pass takes at most `longest` seconds.

    Returns:
        The points, those of the floor, and name -> reason for contenders that failed: cuDNN does not support every
        length.
    """
    points: list[Point] = []
    last: dict[str, tuple[Case, Point]] = {}
    dropped: set[str] = set()
    failed: dict[str, str] = {}
    with no_tf32():
        rate = _measure_multiply_adds(device)
        floor = [
            Point("floor", value, case.steps, _count_multiply_adds(case) / rate, None) for value, case in sweep.cases()
        ]
        for value, case in sweep.cases():
            for name, layer in contenders(case, device)[0].items():
                if name in dropped or (name in last and _exceeds_limits(*last[name], case, device, longest)):
                    dropped.add(name)
                    continue
                say(f"{name}, {value:,} {sweep.label}")
                _, both = passes(layer, case, device)
                try:
                    memory = peak_memory(both, device)
                    both = capture(both) if device == "cuda" and can_capture(layer) else both
                    first = seconds(both, device)
                except RuntimeError as error:
                    dropped.add(name)
                    failed[name] = f"{value:,} {sweep.label}: {str(error).splitlines()[0]}"
                    continue
                turns = 1 if first > 2 else repeats
                times = [first] if turns == 1 else [seconds(both, device) for _ in range(turns)]
                points.append(Point(name, value, case.steps, statistics.median(times), memory))
                last[name] = (case, points[-1])
    return points, floor, failed


def _exceeds_limits(before: Case, point: Point, case: Case, device: str, longest: float) -> bool:
    """Return whether a contender would take too long or too much memory, judging by its previous size."""
    growth = _count_multiply_adds(case) / _count_multiply_adds(before)
    values = case.steps * case.batch * case.hidden
    larger = values / (before.steps * before.batch * before.hidden)
    memory = MEMORY_OF_LOOP * 4.0 * values if point.memory is None else point.memory * larger
    return point.seconds * growth > longest or memory > MAX_MEMORY * _free_memory(device)
