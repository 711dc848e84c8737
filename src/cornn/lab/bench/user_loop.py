"""Measure the cost of a layer in a user's own training loop, in each of the ways to run it.

Every contender is an ordinary layer, called as a user calls it: the forward pass alone, without recording for
gradients, or forward and backward from a gradient for the output of every step to the gradients of all weights. A pass
is *launched* by PyTorch, *captured* as a CUDA graph, or *compiled* with `torch.compile(mode="reduce-overhead")`.
Compare contenders within one mode.
"""

import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

import torch
from torch import Tensor, nn

from cornn import CoRNN
from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.lab.bench.cases import Case
from cornn.lab.bench.measure import Pass, capture, turns

__all__ = ["COMPILED", "CONTENDERS", "LOOPS", "MODES", "LoopFigure", "follow_loops", "loop_rows"]

LOOPS = {
    "psmnist-128": Case(784, 120, 128),
    "har2-64": Case(128, 64, 64, 9),
    "one-128": Case(784, 1, 128),
    "odd-100": Case(500, 32, 100, 12),
    "cifar-128": Case(1000, 100, 128, 96),
    "psmnist-256": Case(784, 120, 256),
    "psmnist-512": Case(784, 120, 512),
    "psmnist-768": Case(784, 120, 768),
    "psmnist-1024": Case(784, 120, 1024),
}
"""Sizes of the paper's experiments, one sequence alone, a size that the kernels must pad, and large ones."""

COMPILED = ("har2-64", "psmnist-128")
"""Cases that are also compiled, which is slow."""

SHARE = 0.4
"""Length of a turn, relative to the usual one: there are many contenders."""

CONTENDERS: dict[str, Callable[[int, int, str], nn.Module]] = {
    "CoRNN": lambda inputs, hidden, device: CoRNN(inputs, hidden, device=device),
    "CoRNN, given constants": lambda inputs, hidden, device: CoRNN(inputs, hidden, dt=0.05, device=device),
    "nn.LSTM": lambda inputs, hidden, device: nn.LSTM(inputs, hidden, device=device),
    "nn.GRU": lambda inputs, hidden, device: nn.GRU(inputs, hidden, device=device),
    "nn.RNN": lambda inputs, hidden, device: nn.RNN(inputs, hidden, device=device),
}

MODES = ("launched", "captured", "compiled")


@dataclass(frozen=True)
class LoopFigure:
    """Medians of one contender in one mode."""

    contender: str
    mode: str
    seconds: float
    """Forward and backward."""
    forward_seconds: float
    repeats: int


def _passes(layer: nn.Module, call: Callable[..., tuple[Tensor, object]], case: Case, device: str) -> tuple[Pass, Pass]:
    """Return the forward pass, and forward and backward, of a layer that is called through `call`."""
    random = generator(0, "bench")
    input = torch.randn(case.steps, case.batch, case.inputs, generator=random).to(device)
    gradient = torch.randn(case.steps, case.batch, case.hidden, generator=random).to(device)
    weights = list(layer.parameters())

    def forward() -> Tensor:
        with torch.no_grad():
            return call(input)[0]

    def both() -> Sequence[Tensor]:
        return torch.autograd.grad(call(input)[0], weights, gradient)

    return forward, both


def _in_mode(mode: str, layer: nn.Module, case: Case, device: str) -> tuple[Pass, Pass]:
    if mode == "launched":
        return _passes(layer, layer, case, device)
    if mode == "captured":
        forward, both = _passes(layer, layer, case, device)
        return capture(forward), capture(both)
    torch.compiler.reset()
    forward, both = _passes(layer, torch.compile(layer, mode="reduce-overhead", fullgraph=True), case, device)
    for _ in range(3):  # compiled, warmed up, recorded
        forward()
        both()
    return forward, both


def follow_loops(
    case: Case,
    modes: Sequence[str] = MODES,
    repeats: int = 5,
    device: str = "cuda",
    say: Callable[[str], None] = lambda text: None,
) -> tuple[list[LoopFigure], dict[str, str]]:
    """Measure every contender in every mode, in turns.

    Args:
        case: Sizes.
        modes: Some of `MODES`; on a CPU nothing is captured.
        repeats: Number of turns.
        device: "cpu" or "cuda".
        say: Told what is being measured.

    Returns:
        The figures, and name -> why a contender was left out of a mode.
    """
    forward: dict[tuple[str, str], Pass] = {}
    both: dict[tuple[str, str], Pass] = {}
    left_out = {}
    with no_tf32():
        for key, layer in _entries(case, modes, device):
            name, mode = key
            say(f"{name}, {mode}")
            try:
                forward[key], both[key] = _in_mode(mode, layer, case, device)
            except Exception as error:  # any error of a compiler or of cuDNN is a result
                left_out[f"{name}, {mode}"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        labels = {f"{name}, {mode}": (name, mode) for name, mode in both}
        passes = [{label: calls[key] for label, key in labels.items()} for calls in (forward, both)]
        forward_times, both_times = (turns(calls, device, repeats, say, SHARE) for calls in passes)
    figures = [
        LoopFigure(
            *key,
            statistics.median(both_times[label]),
            statistics.median(forward_times[label]),
            len(both_times[label]),
        )
        for label, key in labels.items()
    ]
    return figures, left_out


def _entries(case: Case, modes: Sequence[str], device: str) -> Iterator[tuple[tuple[str, str], nn.Module]]:
    for name, make in CONTENDERS.items():
        layer = make(case.inputs, case.hidden, device)
        for mode in modes:
            # PyTorch does not compile its own recurrent layers: they would be measured as launched.
            if mode != "compiled" or isinstance(layer, CoRNN):
                yield (name, mode), layer


def loop_rows(name: str, case: Case, figures: Sequence[LoopFigure]) -> list[dict]:
    """Return the rows of a record."""
    sizes = {key: value for key, value in asdict(case).items() if key != "devices"}
    return [{"case": name, **sizes, **asdict(figure)} for figure in figures]
