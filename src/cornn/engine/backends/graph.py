"""The portable backend on an NVIDIA GPU, captured in CUDA graphs, for problems that the kernels do not support.

A step is a few calls of cuBLAS and pointwise operations, which the device runs without waiting for Python. A graph has
CHUNK steps and its own buffers. A sequence runs through it in chunks; the portable backend runs the remaining steps.
The interface is in `contract.py`.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from cornn.engine import gemms
from cornn.engine.backends import portable
from cornn.engine.contract import (
    BackwardInputs,
    ForwardResult,
    Gradients,
    Needs,
    Operands,
    Problem,
    Request,
    Scales,
    active,
    effective_timespans,
    initial_state,
)
from cornn.engine.gemms import StepGradients
from cornn.engine.updates import Update

__all__ = ["backward", "forward", "usable"]

CHUNK = 32
KEPT = 8  # number of graphs that are kept, one per shape


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cuda" or torch.version.hip is not None:
        return False, f"it needs an NVIDIA GPU, the input is on {problem.device.type}"
    if problem.steps < CHUNK:
        return False, f"a CUDA graph needs at least {CHUNK} steps, the input has {problem.steps}"
    if problem.update.code is None and problem.update.in_place is None:
        return False, f"the update {problem.update.name!r} has no code, and autograd cannot be captured"
    return True, "cuBLAS and pointwise operations, captured in a CUDA graph"


class _Captured:
    """A function of tensors, captured for inputs of given shapes."""

    def __init__(self, function: Callable[..., Any], inputs: dict[str, Tensor]) -> None:
        self.inputs = {name: x.clone() for name, x in inputs.items()}
        stream, other = torch.cuda.current_stream(), torch.cuda.Stream()
        other.wait_stream(stream)
        with torch.cuda.stream(other):
            function(**self.inputs)
        stream.wait_stream(other)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, capture_error_mode="thread_local"):
            self.results = function(**self.inputs)

    def set(self, **inputs: Tensor) -> None:
        for name, value in inputs.items():
            self.inputs[name].copy_(value)

    def __call__(self, **inputs: Tensor) -> Any:
        """Replay the graph and return its results, which the next call overwrites."""
        self.set(**inputs)
        self.graph.replay()
        return self.results


_captured: OrderedDict[tuple, _Captured] = OrderedDict()
_lock = threading.Lock()


def _capture(function: Callable[..., Any], options: tuple, inputs: dict[str, Tensor]) -> _Captured:
    """Return the graph of a function for inputs of these shapes, on this stream and in this thread.

    Neither two streams nor two threads may share its buffers.
    """
    device = inputs["weight"].device
    shapes = tuple((name, x.shape, x.dtype) for name, x in inputs.items())
    stream = torch.cuda.current_stream(device).cuda_stream
    key = function, options, device, stream, threading.get_ident(), shapes
    with _lock:
        if key not in _captured:
            _captured[key] = _Captured(lambda **operands: function(*options, **operands), inputs)
            if len(_captured) > KEPT:
                _captured.popitem(last=False)
        _captured.move_to_end(key)
        return _captured[key]


def _present(**tensors: Tensor | None) -> dict[str, Tensor]:
    return {name: x for name, x in tensors.items() if x is not None}


def _forward(request: Request, *, trail, state, weight, parameters, spans=None):
    operands = Operands(trail[-1], state, None, None, weight, parameters, spans, None)
    return portable.forward_steps(operands, trail, request)


def forward(operands: Operands, request: Request, scales: Scales | None = None) -> ForwardResult:
    operands = gemms.apply_scales(operands, scales)
    steps, options = operands.input.shape[0], (request,)
    if torch.cuda.is_current_stream_capturing() or steps < CHUNK:
        return portable.forward(operands, request)
    update, every, keep, _ = request
    operands = operands._replace(state=initial_state(update, operands))
    trail = gemms.start_trail(operands, request)
    drive = trail[-1]
    assert operands.state is not None
    state, spans = operands.state, effective_timespans(operands)
    output = drive.new_empty((*drive.shape[:-1], state.shape[-1]) if keep or every else 0)
    fixed = {"weight": operands.weight, "parameters": operands.parameters}

    def chunk(start: int) -> dict[str, Tensor]:
        """Return the inputs of the forward pass of the chunk from `start`."""
        part = slice(start, start + CHUNK)
        return _present(trail=trail[:, part], state=state, spans=None if spans is None else spans[part])

    with torch.cuda.device(drive.device):
        run = _capture(_forward, options, {**chunk(0), **fixed})
        run.set(**fixed)
        for start in range(0, steps, CHUNK):
            part = slice(start, start + CHUNK)
            if start + CHUNK <= steps:
                chunk_output, state = run(**chunk(start))
                if keep:
                    trail[:, part].copy_(run.inputs["trail"])
            else:
                # The steps write to the trail in place.
                chunk_output, state = _forward(*options, **chunk(start), **fixed)
            if keep or every:
                output[part].copy_(chunk_output)
        return ForwardResult(output, state.clone(), trail if keep else None)


def _backward(
    update: Update, need_parameters: bool, need_timespans: bool, *,
    output, trail, state, weight, parameters, spans=None, grad_output=None, grad_last=None
) -> StepGradients:  # fmt: skip
    operands = Operands(trail[-1], state, None, None, weight, parameters, spans, None)
    backward_inputs = BackwardInputs(grad_output, grad_last, output, trail)
    return portable.backward_steps(operands, backward_inputs, update, need_parameters, need_timespans)


def backward(
    operands: Operands, backward_inputs: BackwardInputs, request: Request, needs: Needs, scales: Scales | None = None
) -> Gradients:
    operands = gemms.apply_scales(operands, scales)
    steps = _backward_steps(operands, backward_inputs, request.update, needs.parameters, needs.timespans)
    return gemms.gradients(operands, backward_inputs, steps, needs, scales)


def _backward_steps(
    operands: Operands, backward_inputs: BackwardInputs, update: Update, need_parameters: bool, need_timespans: bool
) -> StepGradients:
    grad_output, grad_last, output, trail = backward_inputs
    steps, state, spans = output.shape[0], initial_state(update, operands), effective_timespans(operands)
    options = update, need_parameters, need_timespans
    grad_state = torch.zeros_like(state) if grad_last is None else grad_last
    fixed = {"weight": operands.weight, "parameters": operands.parameters}

    def chunk(start: int) -> dict[str, Tensor]:
        """Return the inputs of the backward pass of the chunk from `start`."""
        part = slice(start, min(start + CHUNK, steps))
        before = state if start == 0 else torch.stack((output[start - 1], *trail[: len(state) - 1, start - 1]))
        return _present(
            grad_output=None if grad_output is None else grad_output[part],
            grad_last=grad_state,
            output=output[part],
            trail=trail[:, part],
            state=before,
            spans=None if spans is None else spans[part],
        )

    with torch.cuda.device(output.device):
        run = None
        if steps >= CHUNK and not torch.cuda.is_current_stream_capturing():
            run = _capture(_backward, options, {**chunk(0), **fixed})
            run.set(**fixed)
        drive = torch.empty_like(trail[-1])
        for_parameters = torch.zeros_like(operands.parameters) if need_parameters else None
        for_spans = output.new_empty(output.shape[:-1]) if need_timespans else None
        for start in reversed(range(0, steps, CHUNK)):
            if run is not None and start + CHUNK <= steps:
                gradients: StepGradients = run(**chunk(start))
            else:
                gradients = _backward(*options, **chunk(start), **fixed)
            part = slice(start, start + CHUNK)
            drive[part].copy_(gradients.drive)
            assert gradients.state is not None
            grad_state = gradients.state
            if for_parameters is not None and gradients.parameters is not None:
                for_parameters += gradients.parameters
            if for_spans is not None and gradients.timespans is not None:
                for_spans[part].copy_(gradients.timespans)
        if for_spans is not None and operands.lengths is not None:
            for_spans *= active(operands.lengths, output)
        return StepGradients(drive=drive, state=grad_state.clone(), parameters=for_parameters, timespans=for_spans)
