"""The one recurrence, run fast. `run` is the door: weights are arguments, everything is time-major.

Backends share one contract (`problem.py`); `choose` picks one and can say why, and never swaps one that was asked for
by name.
"""

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from cornn.engine.operator import BACKENDS, recurrence, reference, wants_gradient
from cornn.engine.problem import Problem
from cornn.engine.updates import UPDATES

__all__ = ["BACKENDS", "UPDATES", "Problem", "choose", "no_autocast", "run"]


def choose(problem: Problem, backend: str = "auto") -> tuple[str, str]:
    """(name, reason) of the backend that will serve. One that is asked for by name and cannot serve raises."""
    if backend == "reference":
        return backend, "asked for: the plain equations, differentiated by autograd"
    if backend == "auto":
        answers = ((name, *module.usable(problem)) for name, module in BACKENDS.items())
        return next((name, reason) for name, usable, reason in answers if usable)
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}: choose one of auto, reference, {', '.join(BACKENDS)}")
    usable, reason = BACKENDS[backend].usable(problem)
    if not usable:
        raise RuntimeError(f"backend {backend!r} cannot serve here: {reason}")
    return backend, reason


def run(
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    *,
    update: str,
    timespans: Tensor | None = None,
    lengths: Tensor | None = None,
    every: bool = True,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Run a recurrence over a sequence: (output, last).

    input: (time, batch, features); with `input_weight` None it is the drive itself, (time, batch, hidden).
    state: (states, batch, hidden), the state before the first step. For coRNN y, then z.
    input_weight, bias: V (hidden, features) and b (hidden), either may be None.
    weight: R (hidden, states * hidden). For coRNN W and W_z side by side.
    parameters: (parameters, hidden). For coRNN dt, gamma, epsilon.
    timespans: (time, batch), factors on dt. lengths: (batch), the number of steps of each sequence.
    every: whether the output of every step is wanted; without it `output` may come back empty.

    output is (time, batch, hidden), last is (states, batch, hidden), the state after each sequence's last step.
    """
    arguments = (input, state, input_weight, bias, weight, parameters, timespans, lengths)
    grouped = weight.dim() == 3
    problem = Problem(
        update=update,
        device=input.device,
        dtype=input.dtype,
        groups=weight.shape[0] if grouped else 1,
        steps=input.shape[0],
        batch=input.shape[-2],
        hidden=weight.shape[-2],
        timespans=timespans is not None,
    )
    name, _ = choose(problem, backend)
    if _transformed(arguments):
        if backend not in ("auto", "reference"):
            raise RuntimeError(
                f"backend {backend!r} has no forward-mode derivatives and no torch.func.grad: use auto, or reference"
            )
        name = "reference"
    # The recurrence runs in the type of its weights: rounding in bfloat16 a thousand times over is not what autocast
    # is for.
    with no_autocast(input.device.type):
        if name == "reference":
            return reference(*arguments, update)
        output, last, _ = recurrence(*arguments, update, name, every, wants_gradient(arguments))
    return output, last


def no_autocast(device: str) -> contextlib.AbstractContextManager:
    """Inside it, operations run in the types of their arguments."""
    available = torch.amp.is_autocast_available(device)
    return torch.autocast(device, enabled=False) if available else contextlib.nullcontext()


def _transformed(arguments: Sequence[Tensor | None]) -> bool:
    """Whether torch.func.grad or forward mode is at work, which PyTorch does not take to a custom operator."""
    if torch.compiler.is_compiling():
        return False
    kinds = (torch._C._functorch.TransformType.Grad, torch._C._functorch.TransformType.Jvp)
    if any(level.key() in kinds for level in torch._C._functorch.get_interpreter_stack() or ()):
        return True
    if forward_ad._current_level < 0:
        return False
    return any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in arguments)
