"""How it is measured: medians over turns, after warm-up; on a GPU by device events.

Contenders take turns, so that whatever else the machine does hits all alike. A turn is a tenth of a second or so of one
contender's passes, and the first of them are not counted: they find the caches full of what the contender before
needed, which a short pass feels and a long one does not. Who trains has one layer run over and over; that is what is
measured. It holds for all contenders alike: whoever takes longer than that for one pass has one that is not counted,
too.

A pass is the forward pass alone, without recording for gradients; or forward and backward, from a gradient for the
output of every step to the gradients of all weights.
"""

import ctypes
import statistics
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from cornn._machine import machine
from cornn._random import generator
from cornn._source import source
from cornn._tf32 import no_tf32
from cornn.engine._buffer_pool import release
from cornn.lab.bench.cases import Case, contenders
from cornn.layers import CoRNN

__all__ = [
    "Figure",
    "Pass",
    "captures",
    "compare",
    "passes",
    "peak_memory",
    "record",
    "replayed",
    "row",
    "seconds",
    "turns",
]

WARM_UP = {"cpu": 1, "cuda": 3}
SETTLING_SECONDS = 0.05
"""Of a turn, before passes count; one does not in any case."""
TURN_SECONDS = 0.1
"""Of a turn, while passes count; one does in any case."""

Pass = Callable[[], object]


@dataclass(frozen=True)
class Figure:
    """What one contender took. None: not measured here."""

    contender: str
    seconds: float
    """Forward and backward."""
    forward_seconds: float
    memory: int | None
    """Bytes at the peak of forward and backward, beyond weights, input and the output's gradient."""
    repeats: int
    """Passes forward and backward that counted."""


def passes(layer: nn.Module, case: Case, device: str) -> tuple[Pass, Pass]:
    """The forward pass, and forward and backward."""
    random = generator(0, "bench")
    input = torch.randn(case.steps, case.batch, case.inputs, generator=random).to(device)
    gradient = torch.randn(case.steps, case.batch, case.hidden, generator=random).to(device)
    weights = [weight for weight in layer.parameters() if weight.requires_grad]

    def forward() -> Tensor:
        with torch.no_grad():
            return layer(input)[0]

    def both() -> tuple[Tensor, ...]:
        return torch.autograd.grad(layer(input)[0], weights, gradient)

    return forward, both


def seconds(call: Pass, device: str) -> float:
    """Of one call."""
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


def replayed(call: Pass) -> Pass:
    """The same as a CUDA graph: what the device needs, without the time the host takes to ask for it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP["cuda"]):
            call()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kept = call()

    def replay(kept=(kept, call)) -> None:  # the graph reads what the call reads, and does not keep it alive
        graph.replay()

    return replay


def captures(layer: nn.Module) -> bool:
    """Whether a contender's passes fit a CUDA graph; the others launch a kernel for every step, or are graphs."""
    return isinstance(layer, nn.RNNBase) or (isinstance(layer, CoRNN) and layer.backend == "cuda")


def _resident(field: str) -> int:
    """Return the memory of this process in bytes, from /proc/self/status: VmRSS now, VmHWM at the peak."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field + ":"))


def peak_memory(call: Pass, device: str) -> int | None:
    """Bytes in use at the peak of a call, beyond those before it. On a CPU only Linux can say."""
    if device == "cuda":
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        call()
        torch.cuda.synchronize()
        return torch.cuda.max_memory_allocated() - before
    try:
        # What was freed and not given back would not be seen when it is used again.
        release()
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
    """Seconds of every call that counts, of each, in so many turns after a warm-up, of this share of their length."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(WARM_UP[device]):
        for name, call in calls.items():
            say(f"{name}, warm-up")
            call()
    for turn in range(repeats):
        for name, call in calls.items():
            say(f"{name}, turn {turn + 1}")
            _for_a_while(call, device, share * SETTLING_SECONDS)
            times[name] += _for_a_while(call, device, share * TURN_SECONDS)
    return times


def _for_a_while(call: Pass, device: str, enough: float) -> list[float]:
    """Seconds of each of as many calls as make up so many seconds, one at least."""
    taken, together = [], 0.0
    while not taken or together < enough:
        taken.append(seconds(call, device))
        together += taken[-1]
    return taken


def compare(
    case: Case, device: str, repeats: int, say: Callable[[str], None] = lambda text: None
) -> tuple[list[Figure], dict[str, str]]:
    """A figure for each contender, the fastest first; and name -> why it is left out."""
    layers, left_out = contenders(case, device)
    both, forward, memory = {}, {}, {}
    with no_tf32():
        for name, layer in layers.items():
            say(f"{name}, memory")
            forward[name], both[name] = passes(layer, case, device)
            both[name]()
            memory[name] = peak_memory(both[name], device)
        if device == "cuda":
            for name in [name for name, layer in layers.items() if captures(layer)]:
                graph = f"{name} (replayed)"
                say(f"{graph}, captured")
                try:
                    forward[graph], both[graph] = replayed(forward[name]), replayed(both[name])
                    memory[graph] = None
                except RuntimeError as error:
                    left_out[graph] = f"cannot be captured: {error}"
                    forward.pop(graph, None)
        forward_times = turns(forward, device, repeats, lambda text: say(f"forward: {text}"))
        times = turns(both, device, repeats, lambda text: say(f"forward and backward: {text}"))
    figures = [
        Figure(
            name, statistics.median(times[name]), statistics.median(forward_times[name]), memory[name], len(times[name])
        )
        for name in both
    ]
    return sorted(figures, key=lambda figure: figure.seconds), left_out


def record(kind: str, rows: list[dict]) -> dict:
    """What goes into results/."""
    processor = None
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf8").splitlines()
        processor = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)
    return {"measured": kind, "machine": machine() | {"processor": processor}, **source(), "rows": rows}


def row(name: str, case: Case, threads: int, figure: Figure) -> dict:
    """One row of a record."""
    sizes = {key: value for key, value in asdict(case).items() if key != "devices"}
    return {"case": name, **sizes, "threads": threads, **asdict(figure)}
