"""The portable path on an NVIDIA GPU, captured in CUDA graphs: for what the kernels do not serve.

A step is then a few calls of cuBLAS and of pointwise operations that the device runs one after the other, without
waiting for Python. A graph holds CHUNK steps over buffers of its own; a sequence goes through it chunk by chunk, and
what is left over goes the portable way. The contract is in `problem.py`.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cornn.engine import portable
from cornn.engine.problem import Gradients, Problem, active, live_spans

__all__ = ["backward", "forward", "usable"]

CHUNK = 32
KEPT = 8  # graphs of different shapes that are remembered


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cuda" or torch.version.hip is not None:
        return False, f"it runs on NVIDIA GPUs, the input is on {problem.device.type}"
    if problem.steps < CHUNK:
        return False, f"{problem.steps} steps are too few to be worth a CUDA graph (at least {CHUNK})"
    return True, "cuBLAS and pointwise operations, captured in a CUDA graph"


class _Captured:
    """A function of tensors whose work was recorded once, for tensors of these shapes."""

    def __init__(self, function: Callable[..., Any], inputs: dict[str, Tensor | None]) -> None:
        self.inputs = {name: None if x is None else x.clone() for name, x in inputs.items()}
        here, aside = torch.cuda.current_stream(), torch.cuda.Stream()
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            function(**self.inputs)
        here.wait_stream(aside)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.results = function(**self.inputs)

    def set(self, **inputs: Tensor | None) -> None:
        for name, value in inputs.items():
            if value is not None:
                self.inputs[name].copy_(value)  # pyright: ignore[reportOptionalMemberAccess]

    def __call__(self, **inputs: Tensor | None) -> Any:
        """The results, which the next call overwrites."""
        self.set(**inputs)
        self.graph.replay()
        return self.results


_captured: OrderedDict[tuple, _Captured] = OrderedDict()
_lock = threading.Lock()


def _capture(function: Callable[..., Any], options: tuple, inputs: dict[str, Tensor | None]) -> _Captured:
    """The graph of a function for inputs like these, on this stream: two streams must not share its buffers."""
    like = inputs["weight"]
    assert like is not None
    shapes = tuple(None if x is None else (x.shape, x.dtype) for x in inputs.values())
    key = function, options, like.device, torch.cuda.current_stream(like.device).cuda_stream, shapes
    with _lock:
        if key not in _captured:
            _captured[key] = _Captured(lambda **given: function(*options, **given), inputs)
            if len(_captured) > KEPT:
                _captured.popitem(last=False)
        _captured.move_to_end(key)
        return _captured[key]


def _forward(update: str, every: bool, keep: bool, *, trail, state, weight, parameters, spans):
    return portable.forward(trail, state, weight, parameters, spans, None, update=update, every=every, keep=keep)


def forward(
    trail: Tensor,
    state: Tensor,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    *,
    update: str,
    every: bool,
    keep: bool,
) -> tuple[Tensor, Tensor]:
    drive = trail[-1]
    steps = drive.shape[0]
    spans = live_spans(timespans, lengths, drive)
    options = update, every, keep
    if torch.cuda.is_current_stream_capturing() or steps < CHUNK:
        return _forward(*options, trail=trail, state=state, weight=weight, parameters=parameters, spans=spans)
    output = drive.new_empty((*drive.shape[:-1], state.shape[-1]) if keep or every else 0)

    with torch.cuda.device(drive.device):
        first = {"trail": trail[:, :CHUNK], "state": state, "spans": None if spans is None else spans[:CHUNK]}
        run = _capture(_forward, options, {**first, "weight": weight, "parameters": parameters})
        run.set(weight=weight, parameters=parameters)
        for start in range(0, steps, CHUNK):
            part = slice(start, start + CHUNK)
            given = {"trail": trail[:, part], "state": state, "spans": None if spans is None else spans[part]}
            if start + CHUNK <= steps:
                found, state = run(**given)
                if keep:
                    trail[:, part].copy_(run.inputs["trail"])  # pyright: ignore[reportArgumentType]
            else:
                # The product of a part of the trail is written into it.
                found, state = _forward(*options, **given, weight=weight, parameters=parameters)
            if keep or every:
                output[part].copy_(found)
        return output, state.clone()


def _backward(
    update: str, need_parameters: bool, need_timespans: bool, *, grad_output, grad_last, output, trail, state, weight,
    parameters, spans
) -> Gradients:  # fmt: skip
    return portable.backward(
        grad_output,
        grad_last,
        output,
        trail,
        state,
        weight,
        parameters,
        spans,
        None,
        update=update,
        need_parameters=need_parameters,
        need_timespans=need_timespans,
    )


def backward(
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor,
    trail: Tensor,
    state: Tensor,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
    *,
    update: str,
    need_parameters: bool,
    need_timespans: bool,
) -> Gradients:
    steps = output.shape[0]
    spans = live_spans(timespans, lengths, output)
    options = update, need_parameters, need_timespans
    grad_state = torch.zeros_like(state) if grad_last is None else grad_last

    def given(start: int) -> dict[str, Tensor | None]:
        """What the backward pass of the chunk from `start` needs."""
        part = slice(start, min(start + CHUNK, steps))
        before = state if start == 0 else torch.stack((output[start - 1], *trail[: len(state) - 1, start - 1]))
        return {
            "grad_output": None if grad_output is None else grad_output[part],
            "grad_last": grad_state,
            "output": output[part],
            "trail": trail[:, part],
            "state": before,
            "spans": None if spans is None else spans[part],
        }

    with torch.cuda.device(output.device):
        run = None
        if steps >= CHUNK and not torch.cuda.is_current_stream_capturing():
            run = _capture(_backward, options, {**given(0), "weight": weight, "parameters": parameters})
            run.set(weight=weight, parameters=parameters)
        drive = torch.empty_like(trail[-1])
        for_parameters = torch.zeros_like(parameters) if need_parameters else None
        for_spans = output.new_empty(output.shape[:-1]) if need_timespans else None
        for start in reversed(range(0, steps, CHUNK)):
            if run is not None and start + CHUNK <= steps:
                found = run(**given(start))
            else:
                found = _backward(*options, **given(start), weight=weight, parameters=parameters)
            part = slice(start, start + CHUNK)
            drive[part].copy_(found.drive)
            grad_state = found.state
            if for_parameters is not None:
                for_parameters += found.parameters
            if for_spans is not None:
                for_spans[part].copy_(found.timespans)
        if for_spans is not None and lengths is not None:
            for_spans *= active(lengths, output)
        return Gradients(drive=drive, state=grad_state.clone(), parameters=for_parameters, timespans=for_spans)
