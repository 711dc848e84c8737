"""Measure the cost of a layer in a user's own training loop, in each of the ways to run it.

Every contender is an ordinary layer, called as a user calls it: the forward pass alone, without recording for
gradients, or forward and backward from a gradient for the output of every step to the gradients of all weights. A pass
is *launched* by PyTorch, *captured* as a CUDA graph, or *compiled* with `torch.compile(mode="reduce-overhead")`.
Compare contenders within one mode.
"""

import functools
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from cornn import CoRNN
from cornn._tf32 import no_tf32
from cornn.lab.bench.cases import TORCH_LAYERS, Case
from cornn.lab.bench.measure import Pass, capture, passes, turns

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

CONTENDERS: dict[str, Callable[..., nn.Module]] = {
    "CoRNN": CoRNN,
    "CoRNN, given constants": functools.partial(CoRNN, dt=0.05),
    **TORCH_LAYERS,
}

MODES = ("launched", "captured", "compiled")


@dataclass(frozen=True)
class LoopMeasurement:
    """Medians of one contender in one mode."""

    contender: str
    mode: str
    seconds: float
    """Forward and backward."""
    forward_seconds: float
    repeats: int


def _in_mode(mode: str, layer: nn.Module, case: Case, device: str) -> tuple[Pass, Pass]:
    if mode != "compiled":
        forward, both = passes(layer, case, device)
        return (forward, both) if mode == "launched" else (capture(forward), capture(both))
    torch.compiler.reset()
    forward, both = passes(layer, case, device, torch.compile(layer, mode="reduce-overhead", fullgraph=True))
    for _ in range(3):  # compiled, warmed up, recorded
        forward()
        both()
    return forward, both


def measure_loops(
    case: Case,
    modes: Sequence[str] = MODES,
    repeats: int = 5,
    device: str = "cuda",
    say: Callable[[str], None] = lambda text: None,
) -> tuple[list[LoopMeasurement], dict[str, str]]:
    """Measure every contender in every mode, in turns; on a CPU the only mode is "launched".

    Returns:
        The figures, and name -> why a contender was left out of a mode.
    """
    forward: dict[str, Pass] = {}
    both: dict[str, Pass] = {}
    keys: dict[str, tuple[str, str]] = {}
    left_out = {}
    with no_tf32():
        for name, make in CONTENDERS.items():
            layer = make(case.inputs, case.hidden, device=device)
            for mode in modes:
                if mode == "compiled" and not isinstance(layer, CoRNN):
                    continue  # PyTorch does not compile its own recurrent layers: they would be measured as launched
                label = f"{name}, {mode}"
                say(label)
                try:
                    forward[label], both[label] = _in_mode(mode, layer, case, device)
                    keys[label] = name, mode
                except Exception as error:  # any error of a compiler or of cuDNN is a result
                    left_out[label] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        forward_times, times = (turns(calls, device, repeats, say, SHARE) for calls in (forward, both))
    figures = [
        LoopMeasurement(
            *key, statistics.median(times[label]), statistics.median(forward_times[label]), len(times[label])
        )
        for label, key in keys.items()
    ]
    return figures, left_out
