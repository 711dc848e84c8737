"""The one recurrence, run fast. `run` is the door: weights are arguments, everything is time-major.

Backends share one contract (`problem.py`); `choose` picks one and can say why, and never swaps one that was asked for
by name.
"""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad

from cornn.engine.contract import PRECISIONS, Given, Problem
from cornn.engine.op import BACKENDS, by_autograd, no_autocast, plain, recur, reference
from cornn.engine.updates import UPDATES

__all__ = [
    "BACKENDS",
    "PRECISIONS",
    "UPDATES",
    "Problem",
    "by_autograd",
    "check_backend",
    "check_precision",
    "choose",
    "no_autocast",
    "plain",
    "run",
]

LARGE_BATCH = 512
"""From here on autocast to bfloat16 means the products of the recurrence too: below, tensor cores would idle."""


def check_backend(backend: str) -> None:
    """Raises unless there is a backend of this name."""
    if backend not in BACKENDS and backend not in ("auto", "reference"):
        raise ValueError(f"unknown backend {backend!r}: choose one of auto, reference, {', '.join(BACKENDS)}")


def check_precision(precision: str) -> None:
    """Raises unless there is a precision of this name."""
    if precision not in PRECISIONS:
        raise ValueError(f"unknown precision {precision!r}: choose one of {', '.join(PRECISIONS)}")


def choose(problem: Problem, backend: str = "auto") -> tuple[str, str]:
    """(name, reason) of the backend that will serve. One that is asked for by name and cannot serve raises.

    So does a precision other than "exact" where the backend cuda, which alone has others, cannot serve.
    """
    check_backend(backend)
    check_precision(problem.precision)
    if problem.precision != "exact":
        usable, reason = BACKENDS["cuda"].usable(problem)
        if backend not in ("auto", "cuda"):
            usable, reason = False, f"{backend!r} was asked for, which computes in the type of its input only"
        if not usable:
            raise RuntimeError(f"precision={problem.precision!r} needs the cuda backend: {reason}")
        return "cuda", reason
    if backend == "reference":
        return backend, "asked for: the plain equations, differentiated by autograd"
    if backend == "auto":
        answers = ((name, *module.usable(problem)) for name, module in BACKENDS.items())
        return next((name, reason) for name, usable, reason in answers if usable)
    usable, reason = BACKENDS[backend].usable(problem)
    if not usable:
        raise RuntimeError(f"backend {backend!r} cannot serve here: {reason}")
    return backend, reason


# What is installed and what the machine has does not change while a program runs.
_choose_once = functools.lru_cache(maxsize=4096)(choose)


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
    exact_spans: bool = False,
    every: bool = True,
    backend: str = "auto",
    precision: str = "exact",
) -> tuple[Tensor, Tensor]:
    """Run a recurrence over a sequence: (output, last).

    input: (time, batch, features); with `input_weight` None it is the drive itself, (time, batch, hidden).
    state: (states, batch, hidden), the state before the first step. For coRNN y, then z.
    input_weight, bias: V (hidden, features) and b (hidden), either may be None.
    weight: R (hidden, states * hidden). For coRNN W and W_z side by side.
    parameters: (parameters, hidden). For coRNN dt, gamma, epsilon.
    update: one of `UPDATES`. Those with several drives have more rows of input_weight and bias, and perhaps of R.
    timespans: (time, batch), factors on dt; only coRNN has a time step.
    lengths: (batch), the number of steps of each sequence.
    exact_spans: whether timespans are numbers of steps (`functional.transition`) instead of factors on dt. Only the
        reference computes them.
    every: whether the output of every step is wanted; without it `output` may come back empty.
    precision: "exact", or "tf32" or "bf16" for large batches: the products of the steps then run on tensor cores, and
        weights and states are rounded as they enter them. Sums, states and gradients stay float32. It needs the
        backend cuda; above 128 neurons there is no such kernel, and float32 is used throughout. Under autocast to
        bfloat16 on a GPU a batch of 512 or more has "bf16" where this says "exact".

    output is (time, batch, hidden), last is (states, batch, hidden), the state after each sequence's last step.
    """
    if timespans is not None and not UPDATES[update].timed:
        raise ValueError(f"timespans multiply a time step, and the update {update} has none: leave them out")
    if timespans is not None and exact_spans:
        if backend not in ("auto", "reference") or precision != "exact":
            raise RuntimeError(
                "timespans of a layer with default constants are computed by the plain equations only: use "
                'backend="auto" and precision="exact", or give dt, gamma and epsilon'
            )
        given = Given(input, state, input_weight, bias, weight, parameters, timespans, lengths)
        with no_autocast(input.device.type):
            return reference(given, update, exact_spans=True)
    given = Given(input, state, input_weight, bias, weight, parameters, timespans, lengths)
    shape, rows = input.shape, weight.shape
    problem = Problem(
        update,
        input.device,
        input.dtype,
        rows[0] if len(rows) == 3 else 1,
        shape[0],
        shape[-2],
        state.shape[-1],
        timespans is not None,
        precision,
    )
    direct = plain(given)
    name, _ = (_choose_once if direct else choose)(problem, backend)
    if not direct and _transformed(given):
        if precision != "exact":
            raise RuntimeError(
                f"precision={precision!r} has no forward-mode derivatives and no torch.func.grad: use 'exact'"
            )
        if backend not in ("auto", "reference"):
            raise RuntimeError(
                f"backend {backend!r} has no forward-mode derivatives and no torch.func.grad: use auto, or reference"
            )
        name = "reference"
    if name == "cuda" and precision == "exact" and problem.batch >= LARGE_BATCH and _autocast_to_bfloat16():
        precision = "bf16"
    if precision != "exact":
        name = f"{name}/{precision}"
    # Otherwise the recurrence runs in the type of its weights: rounding in bfloat16 a thousand times over is not what
    # autocast is for, and even then the state is not rounded, only what enters a product.
    with no_autocast(problem.device.type):
        if name == "reference":
            return reference(given, update)
        return recur(given, update, name, every, direct)


def _autocast_to_bfloat16() -> bool:
    return torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16


def _transformed(given: Sequence[Tensor | None]) -> bool:
    """Whether torch.func.grad or forward mode is at work, which PyTorch does not take to a custom operator."""
    if torch.compiler.is_compiling():
        return False
    kinds = (TransformType.Grad, TransformType.Jvp)
    if any(level.key() in kinds for level in get_interpreter_stack() or ()):
        return True
    if forward_ad._current_level < 0:
        return False
    return any(x is not None and forward_ad.unpack_dual(x).tangent is not None for x in given)
