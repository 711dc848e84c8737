"""Measure contenders: medians over rounds after a warm-up; on a GPU by device events.

Contenders take turns, so that other load of the machine affects all of them equally. In each turn a contender runs for
about a tenth of a second. The first passes of a turn are not counted, at least one: they find the caches filled by the
previous contender, while in training one layer runs over and over.

A pass is the forward pass without gradients, or forward and backward, from a gradient of the output of every step to
the gradients of all weights.
"""

import ctypes
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from cornn._machine import machine
from cornn._random import generator
from cornn._source import source
from cornn._tf32 import no_tf32
from cornn.engine import release_buffers
from cornn.lab.bench.cases import Case, contenders
from cornn.layers import CoRNN

WARM_UP = {"cpu": 1, "cuda": 3}
SETTLING_SECONDS = 0.05
"""Seconds at the start of a turn in which passes do not count."""
TURN_SECONDS = 0.1
"""Seconds of a turn in which passes count; at least one does."""

Pass = Callable[[], object]


@dataclass(frozen=True)
class Measurement:
    """The medians of one contender."""

    contender: str
    seconds: float
    """Forward and backward."""
    forward_seconds: float
    memory: int | None
    """Peak bytes of forward and backward, without weights, input and the gradient of the output; None: not measured."""
    repeats: int
    """Number of passes forward and backward that counted."""


def passes(
    layer: nn.Module, case: Case, device: str, call: Callable[..., tuple[Tensor, object]] | None = None
) -> tuple[Pass, Pass]:
    """Return the forward pass, and forward and backward, of a layer that is called directly or through `call`."""
    call = layer if call is None else call
    random = generator(0, "bench")
    input = torch.randn(case.steps, case.batch, case.inputs, generator=random).to(device)
    gradient = torch.randn(case.steps, case.batch, case.hidden, generator=random).to(device)
    weights = [weight for weight in layer.parameters() if weight.requires_grad]

    def forward() -> Tensor:
        with torch.no_grad():
            return call(input)[0]

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(call(input)[0], weights, gradient)

    return forward, both


def seconds(call: Pass, device: str) -> float:
    """Return the seconds of one call."""
    if device == "cuda":
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        call()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def capture(call: Pass) -> Pass:
    """Capture a call as a CUDA graph, whose replay takes the time of the device without that of the host."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP["cuda"]):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = call()

    def replay(output=(output, call)) -> None:  # the graph does not keep the tensors alive that it reads
        graph.replay()

    return replay


def can_capture(layer: nn.Module) -> bool:
    """Return whether to capture a contender; the others launch a kernel per step, or are graphs already."""
    return isinstance(layer, nn.RNNBase) or (isinstance(layer, CoRNN) and layer.backend == "cuda")


def _resident(field: str) -> int:
    """Return the memory of this process in bytes, from /proc/self/status: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def peak_memory(call: Pass, device: str) -> int | None:
    """Return the peak bytes of a call, beyond those before it; None on a CPU without Linux."""
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    try:
        # Memory that was freed but not returned to the system would not count when it is used again.
        release_buffers()
        with suppress(AttributeError):
            ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        before = _resident("VmRSS")
    except (OSError, StopIteration, TypeError):
        return None
    call()
    return max(0, _resident("VmHWM") - before)


def turns(
    calls: dict[str, Pass],
    device: str,
    repeats: int,
    say: Callable[[str], None] = lambda text: None,
    share: float = 1.0,
) -> dict[str, list[float]]:
    """Measure calls in turns after a warm-up; return the seconds of each call that counts. `share`: length of a turn,
    relative to the usual one."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(WARM_UP[device]):
        for name, call in calls.items():
            say(f"{name}, warm-up")
            call()
    for turn in range(repeats):
        for name, call in calls.items():
            say(f"{name}, turn {turn + 1}")
            _repeat(call, device, share * SETTLING_SECONDS)
            times[name] += _repeat(call, device, share * TURN_SECONDS)
    return times


def _repeat(call: Pass, device: str, enough: float) -> list[float]:
    """Repeat a call for `enough` seconds, at least once; return the seconds of each repetition."""
    times, total = [], 0.0
    while not times or total < enough:
        times.append(seconds(call, device))
        total += times[-1]
    return times


def compare(
    case: Case, device: str, repeats: int, say: Callable[[str], None] = lambda text: None
) -> tuple[list[Measurement], dict[str, str]]:
    """Measure all contenders; return their figures, the fastest first, and the reasons of those that are left out."""
    layers, left_out = contenders(case, device)
    both, forward, memory = {}, {}, {}
    with no_tf32():
        for name, layer in layers.items():
            say(f"{name}, memory")
            forward[name], both[name] = passes(layer, case, device)
            both[name]()
            memory[name] = peak_memory(both[name], device)
        if device == "cuda":
            for name in [name for name, layer in layers.items() if can_capture(layer)]:
                graph = f"{name} (replayed)"
                say(f"{graph}, captured")
                try:
                    forward[graph], both[graph] = capture(forward[name]), capture(both[name])
                    memory[graph] = None
                except RuntimeError as error:
                    left_out[graph] = f"cannot be captured: {error}"
                    forward.pop(graph, None)
        forward_times = turns(forward, device, repeats, lambda text: say(f"forward: {text}"))
        times = turns(both, device, repeats, lambda text: say(f"forward and backward: {text}"))
    figures = [
        Measurement(
            name, statistics.median(times[name]), statistics.median(forward_times[name]), memory[name], len(times[name])
        )
        for name in both
    ]
    return sorted(figures, key=lambda figure: figure.seconds), left_out


def record(kind: str, rows: list[dict]) -> dict:
    """Return the record of measurements for results/."""
    processor = None
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
        processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
    return {"measured": kind, "machine": machine() | {"processor": processor}, **source(), "rows": rows}


def row(name: str, case: Case, figure: Any, **origin: int) -> dict:
    """Return one row of a record: the case, where it was measured, and the figures of one contender."""
    sizes = {key: value for key, value in asdict(case).items() if key != "devices"}
    return {"case": name, **sizes, **origin, **asdict(figure)}
