"""The recurrence on a CPU, by the C library that is built with the package (`csrc`). The interface is in `contract.py`.

One call runs the whole sequence without the GIL, the input map included. Rows are spread over
`torch.get_num_threads()` threads, and a row's result depends neither on their number nor on the other rows; the
weights' gradients are summed in an order that does not depend on it either. So runs are equal to the bit.

The environment variable CORNN_ISA forces an instruction set for this process: avx512, avx2 or generic.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cornn.engine import gemms
from cornn.engine._buffer_pool import take_buffer
from cornn.engine.backends import compiled
from cornn.engine.contract import (
    BackwardInputs,
    ForwardResult,
    Gradients,
    Needs,
    Operands,
    Problem,
    Request,
    Scales,
    constant_when_traced,
    initial_state,
)
from cornn.engine.updates import Update

__all__ = ["LIBRARY", "Unusable", "backward", "forward", "instruction_set", "load_library", "usable"]

INSTRUCTION_SETS = ("avx512", "avx2", "generic")
"""Most preferred first."""

LARGE_PAGES = 1 << 23
"""Smallest size in bytes of a buffer that is allocated in large pages."""

INTERFACE = 7
LIBRARY = Path(__file__).parents[1] / ("libcornn.dll" if sys.platform == "win32" else "libcornn.so")
NUMBERS = ("groups", "steps", "batch", "hidden", "features", "threads")
POINTERS = (
    *("input", "input_weight", "bias", "trail", "output"),
    *("state", "weight", "parameters", "timespans", "lengths", "order", "last"),
    *("grad_output", "grad_last", "grad_drive", "grad_state", "grad_timespans"),
    *("grad_input", "grad_weight", "grad_input_weight", "grad_bias", "sums", "workspace"),
)


class Call(ctypes.Structure):
    """`Call` of csrc/cornn.h."""

    _fields_ = (*((name, ctypes.c_int64) for name in NUMBERS), *((name, ctypes.c_void_p) for name in POINTERS))


class Kernel(ctypes.Structure):
    """`Kernel` of csrc/cornn.h."""

    _fields_ = (
        ("update", ctypes.c_char_p),
        ("parameters", ctypes.c_int64),
        ("coefficients", ctypes.c_int64),
        ("workspace", ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.POINTER(Call))),
        ("forward", ctypes.CFUNCTYPE(None, ctypes.POINTER(Call))),
        ("backward", ctypes.CFUNCTYPE(None, ctypes.POINTER(Call))),
        ("weight_gradients", ctypes.CFUNCTYPE(None, ctypes.POINTER(Call))),
    )


class Passes(NamedTuple):
    """A `Kernel`, with its functions looked up once."""

    parameters: int
    coefficients: int
    workspace: Callable[[Call], int]
    forward: Callable[[Call], None]
    backward: Callable[[Call], None]
    weight_gradients: Callable[[Call], None]


class Unusable(Exception):
    """The reason why this backend cannot be used."""


@functools.cache
def load_library() -> ctypes.CDLL:
    """Return the C library of the package; raise `Unusable` with the reason if it is missing or does not match."""
    if not LIBRARY.exists():
        raise Unusable(f"{LIBRARY.name} was not built: install gcc or clang, then install cornn again from source")
    try:
        library = ctypes.CDLL(str(LIBRARY))
        interface = library.cornn_interface()
    except (OSError, AttributeError) as error:
        raise Unusable(f"{LIBRARY.name} cannot be loaded: {error}") from error
    if interface != INTERFACE:
        raise Unusable(f"{LIBRARY.name} belongs to another version of cornn: install cornn again")
    library.cornn_kernel.restype = ctypes.POINTER(Kernel)
    library.cornn_threads.restype = ctypes.c_void_p
    team = _team()
    if team is not None:
        library.cornn_use_team(*team)
        # OpenMP's threads do not survive a fork; a child makes its own.
        os.register_at_fork(after_in_child=lambda: library.cornn_use_team(None, None))
    return library


def _team() -> tuple[Callable, Callable] | None:
    """Return the functions with which PyTorch starts and numbers its threads; None if it does not use GNU OpenMP."""
    try:
        runtime = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
        return runtime.GOMP_parallel, runtime.omp_get_thread_num
    except (OSError, AttributeError):
        return None


# Cached: on virtual machines the query of the processor's features is slow.
@functools.cache
def instruction_set() -> str:
    """Return the instruction set in use: that of CORNN_ISA, or the best one of this processor."""
    library, requested = load_library(), os.environ.get("CORNN_ISA")
    if not requested:
        return next(isa for isa in INSTRUCTION_SETS if library.cornn_supports(isa.encode()) == 1)
    if requested not in INSTRUCTION_SETS:
        raise Unusable(f"unknown CORNN_ISA {requested!r}: choose one of {', '.join(INSTRUCTION_SETS)}")
    answer = library.cornn_supports(requested.encode())
    if answer != 1:
        reason = "this processor does not support" if answer == 0 else "the library was built without"
        raise Unusable(f"CORNN_ISA is {requested}, which {reason}")
    return requested


@functools.cache
def _find(dtype: torch.dtype, update: Update) -> Passes:
    if dtype not in (torch.float32, torch.float64):
        raise Unusable(f"{dtype} is not supported: use float32 or float64")
    isa, double = instruction_set(), dtype == torch.float64
    passes = load_library().cornn_kernel(isa.encode(), int(double), update.name.encode())
    if not passes:
        passes = _compile(update, isa, double)
    return Passes(*(getattr(passes.contents, field) for field in Passes._fields))


def _compile(update: Update, isa: str, double: bool) -> Any:
    if update.code is None:
        raise Unusable(f"there is no C kernel for the update {update.name!r}")
    try:
        library = compiled.library(update, isa, double)
    except compiled.CompileError as error:
        raise Unusable(str(error)) from error
    library.cornn_registered.restype = ctypes.POINTER(Kernel)
    library.cornn_registered.argtypes = [ctypes.c_void_p]
    return library.cornn_registered(load_library().cornn_threads())


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cpu":
        return False, f"it needs a CPU, the input is on {problem.device}"
    return _usable_here(problem.dtype, problem.update)


@constant_when_traced
def _usable_here(dtype: torch.dtype, update: Update) -> tuple[bool, str]:
    try:
        _find(dtype, update)
    except Unusable as reason:
        return False, str(reason)
    return True, f"C kernels ({instruction_set()})"


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Return an uninitialised tensor, in large pages if it is large, which saves page faults."""
    fresh = torch.empty(shape, dtype=dtype)
    if fresh.nbytes >= LARGE_PAGES:
        load_library().cornn_large_pages(ctypes.c_void_p(fresh.data_ptr()), ctypes.c_int64(fresh.nbytes))
    return fresh


def _contiguous(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if tensor is None or (tensor.dtype is dtype and tensor.is_contiguous()):
        return tensor
    return _empty(tensor.shape, dtype).copy_(tensor)


def _address(tensor: Tensor | None) -> int | None:
    return None if tensor is None else tensor.data_ptr()


def _call(
    passes: Passes,
    operands: Operands,
    output: Tensor | None = None,
    trail: Tensor | None = None,
    last: Tensor | None = None,
    backward_tensors: tuple[Tensor | None, ...] = (None,) * 10,
) -> tuple[Call, Any]:
    """Return a call with its sizes, tensors and workspace, and the objects that must live as long as the call.

    Args:
        passes: The functions that will be called.
        operands: The tensors, with a state.
        output: Output of every step.
        trail: What the backward pass needs.
        last: The last state.
        backward_tensors: The tensors from `grad_output` to `sums`, for the backward pass.
    """
    shape, rows, dtype = operands.input.shape, operands.weight.shape, operands.input.dtype
    lengths = order = None
    if operands.lengths is not None:
        lengths = operands.lengths.to("cpu", torch.int64).contiguous()
        order = lengths.argsort(dim=-1, descending=True, stable=True)
    read = [_contiguous(x, dtype) for x in operands[:-1]]
    input, state, input_weight, bias, weight, parameters, timespans = map(_address, read)
    groups = rows[0] if len(rows) == 3 else 1
    assert operands.state is not None
    call = Call(
        *(groups, shape[0], shape[-2], operands.state.shape[-1], shape[-1], torch.get_num_threads()),
        *(input, input_weight, bias, _address(trail), _address(output)),
        *(state, weight, parameters, timespans, _address(lengths), _address(order), _address(last)),
        *map(_address, backward_tensors),
    )
    workspace = torch.empty(passes.workspace(call), dtype=torch.uint8)
    call.workspace = workspace.data_ptr()
    return call, (read, lengths, order, workspace)


def _needs_drives(update: Update, operands: Operands) -> bool:
    """Return whether the drive is computed before the kernels run, as for updates whose drives share a product."""
    return update.products < update.drives and (operands.input_weight is not None or operands.bias is not None)


def forward(operands: Operands, request: Request, scales: Scales | None = None) -> ForwardResult:
    update, every, keep, _ = request
    operands = gemms.apply_scales(operands, scales)
    dtype, shape = operands.input.dtype, operands.input.shape[:-1]
    state = initial_state(update, operands)
    hidden = state.shape[-1]
    operands = operands._replace(state=state)
    if _needs_drives(update, operands):
        drives = _empty((*shape, update.drives * hidden), dtype)
        gemms.drive_(operands, drives)
        operands = operands._replace(input=drives, input_weight=None, bias=None)
    output = _empty((*shape, hidden) if keep or every else (0,), dtype)
    trail = take_buffer((update.trail, *shape, update.drives * hidden), dtype) if keep else None
    last = torch.empty(state.shape, dtype=dtype)
    passes = _find(dtype, update)
    call, alive = _call(passes, operands, output if keep or every else None, trail, last)
    passes.forward(call)
    del alive
    return ForwardResult(output, last, trail)


def backward(
    operands: Operands, backward_inputs: BackwardInputs, request: Request, needs: Needs, scales: Scales | None = None
) -> Gradients:
    update, dtype = request.update, operands.input.dtype
    operands = gemms.apply_scales(operands, scales)
    if _needs_drives(update, operands):
        # Only the shape of the drives is needed.
        driven = operands._replace(input=backward_inputs.trail[-1], input_weight=None, bias=None)
        of_drives = needs._replace(input=True, input_weight=False, bias=False)
        grads_of_drives = backward(driven, backward_inputs, request, of_drives)
        assert grads_of_drives.input is not None
        steps = gemms.StepGradients(
            grads_of_drives.input, grads_of_drives.state, grads_of_drives.parameters, grads_of_drives.timespans
        )
        rest = gemms.gradients(operands, backward_inputs, steps, needs._replace(weight=False))
        return gemms.scale_(rest._replace(weight=grads_of_drives.weight), scales)
    passes, state = _find(dtype, update), initial_state(update, operands)
    operands = operands._replace(state=state)

    def fresh(like: Tensor | None, needed: bool) -> Tensor | None:
        return _empty(like.shape, dtype) if needed and like is not None else None

    handed_out = needs.input and operands.input_weight is None
    grad_output, grad_last, output, trail = (_contiguous(x, dtype) for x in backward_inputs)
    assert trail is not None
    grad_drive = (_empty if handed_out else take_buffer)(trail.shape[1:], dtype)
    grad_state = torch.empty(state.shape, dtype=dtype)
    grad_timespans = fresh(operands.timespans, needs.timespans)
    grad_input = fresh(operands.input, needs.input and not handed_out)
    grad_weight = fresh(operands.weight, needs.weight)
    grad_input_weight = fresh(operands.input_weight, needs.input_weight)
    grad_bias = fresh(operands.bias, needs.bias)
    sums = None
    if needs.parameters or needs.timespans:
        sums = torch.zeros(max(passes.coefficients, passes.parameters), *state.shape[1:], dtype=dtype)
    results = grad_drive, grad_state, grad_timespans, grad_input, grad_weight, grad_input_weight, grad_bias, sums
    call, alive = _call(passes, operands, output, trail, None, (grad_output, grad_last, *results))
    passes.backward(call)
    passes.weight_gradients(call)
    del alive
    gradients = Gradients(
        grad_drive if handed_out else grad_input,
        grad_state if needs.state else None,
        grad_input_weight,
        grad_bias,
        grad_weight,
        sums[: passes.parameters].sum(-2) if sums is not None and needs.parameters else None,
        grad_timespans,
    )
    return gemms.scale_(gradients, scales)
