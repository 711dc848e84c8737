"""The recurrence on a CPU, by the C library that is built with the package (`csrc`). The contract is in `problem.py`.

One call runs the whole sequence without the GIL. Rows are spread over `torch.get_num_threads()` threads, and a row's
result depends neither on their number nor on the rows beside it, so runs are equal to the bit.

The environment variable CORNN_ISA forces an instruction set: avx512, avx2 or generic.
"""

import contextlib
import ctypes
import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.engine.problem import Gradients, Problem

__all__ = ["backward", "forward", "instruction_set", "large_pages", "usable", "weight_gradient"]

INSTRUCTION_SETS = ("avx512", "avx2", "generic")
"""The most preferred first."""

INTERFACE = 2
LIBRARY = Path(__file__).with_name("libcornn.dll" if sys.platform == "win32" else "libcornn.so")
LARGE = 1 << 23
"""Bytes from which fresh memory is asked for in large pages."""


NUMBERS = ("groups", "steps", "batch", "hidden", "threads", "keep")
POINTERS = (
    *("trail", "output", "state", "weight", "parameters", "timespans", "lengths", "order", "last"),
    *("grad_output", "grad_last", "grad_drive", "grad_state", "grad_timespans", "grad_weight", "sums", "workspace"),
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
        ("weight_gradient", ctypes.CFUNCTYPE(None, ctypes.POINTER(Call))),
    )


class Unusable(Exception):
    """Says why this backend cannot serve."""


@functools.cache
def _library() -> ctypes.CDLL:
    if not LIBRARY.exists():
        raise Unusable(f"{LIBRARY.name} was not built: install gcc or clang, then install cornn again from source")
    try:
        library = ctypes.CDLL(str(LIBRARY))
        found = library.cornn_interface()
    except (OSError, AttributeError) as error:
        raise Unusable(f"{LIBRARY.name} cannot be loaded: {error}") from error
    if found != INTERFACE:
        raise Unusable(f"{LIBRARY.name} is left over from another version of cornn: install cornn again")
    library.cornn_kernel.restype = ctypes.POINTER(Kernel)
    team = _team()
    if team is not None:
        library.cornn_use_team(team)
        # OpenMP's threads do not survive a fork; a child makes its own.
        os.register_at_fork(after_in_child=lambda: library.cornn_use_team(None))
    return library


def _team() -> Callable | None:
    """What PyTorch itself starts its threads with, where that is an OpenMP runtime that speaks GNU's dialect."""
    try:
        return ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so")).GOMP_parallel
    except (OSError, AttributeError):
        return None


def instruction_set() -> str:
    """The one that will be used: what CORNN_ISA says, else the best that this processor has."""
    return _instruction_set(os.environ.get("CORNN_ISA"))


# Cached, since virtual machines take long to say what their processor has.
@functools.cache
def _instruction_set(asked: str | None) -> str:
    library = _library()
    if not asked:
        return next(isa for isa in INSTRUCTION_SETS if library.cornn_supports(isa.encode()) == 1)
    if asked not in INSTRUCTION_SETS:
        raise Unusable(f"CORNN_ISA is {asked!r}: choose one of {', '.join(INSTRUCTION_SETS)}")
    answer = library.cornn_supports(asked.encode())
    if answer != 1:
        who = "this processor has not" if answer == 0 else "the library was built without"
        raise Unusable(f"CORNN_ISA asks for {asked}, which {who}")
    return asked


@functools.cache
def _find(isa: str, dtype: torch.dtype, update: str) -> Kernel:
    if dtype not in (torch.float32, torch.float64):
        raise Unusable(f"{dtype} is not supported: use float32 or float64")
    found = _library().cornn_kernel(isa.encode(), int(dtype == torch.float64), update.encode())
    if not found:
        raise Unusable(f"update {update!r} is not written in C")
    return found.contents


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cpu":
        return False, f"it is for CPUs, the input is on {problem.device}"
    return _usable_here(problem.dtype, problem.update)


# For torch.compile: an answer about this machine, not something to trace.
@torch.compiler.assume_constant_result
def _usable_here(dtype: torch.dtype, update: str) -> tuple[bool, str]:
    try:
        isa = instruction_set()
        _find(isa, dtype, update)
    except Unusable as reason:
        return False, str(reason)
    return True, f"C kernels ({isa})"


def large_pages(fresh: Tensor) -> Tensor:
    """The tensor, its memory in large pages if it is large, new and on a CPU, which saves page faults. Only speed
    depends on it."""
    size = fresh.numel() * fresh.element_size()
    if size >= LARGE and fresh.device.type == "cpu" and fresh.is_contiguous():
        with contextlib.suppress(Unusable):
            _library().cornn_large_pages(ctypes.c_void_p(fresh.data_ptr()), ctypes.c_int64(size))
    return fresh


class _Prepared(NamedTuple):
    kernel: Kernel
    call: Call
    tensors: list[Tensor]  # what the call points to must outlive it


def _prepare(like: Tensor, weight: Tensor, update: str, keep: bool, **tensors: Tensor | None) -> _Prepared:
    """A call with its sizes, and pointers to its tensors; `like` is of shape (time, batch, hidden)."""
    kernel = _find(instruction_set(), like.dtype, update)
    groups = weight.shape[0] if weight.dim() == 3 else 1
    steps, batch, hidden = like.shape[0], like.shape[-2], like.shape[-1]
    call = Call(groups, steps, batch, hidden, torch.get_num_threads(), keep)
    lengths = tensors.pop("lengths")
    tensors["weight"] = weight
    kept = []
    for name, tensor in tensors.items():
        if tensor is not None:
            kept.append(tensor.to(like.dtype).contiguous())
            setattr(call, name, kept[-1].data_ptr())
    if lengths is not None:
        lengths = lengths.to("cpu", torch.int64).contiguous()
        order = lengths.argsort(dim=-1, descending=True, stable=True)
        call.lengths, call.order = lengths.data_ptr(), order.data_ptr()
        kept += (lengths, order)
    workspace = torch.empty(kernel.workspace(call), dtype=torch.uint8)
    call.workspace = workspace.data_ptr()
    return _Prepared(kernel, call, [*kept, workspace])


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
    given = trail.contiguous()
    if keep:
        large_pages(given[:-1])
    output = large_pages(torch.empty_like(given[-1])) if keep or every else drive.new_empty(0)
    last = torch.empty_like(state, memory_format=torch.contiguous_format)
    kernel, call, _tensors = _prepare(
        drive, weight, update, keep, state=state, parameters=parameters, timespans=timespans, lengths=lengths
    )
    call.trail, call.last = given.data_ptr(), last.data_ptr()
    call.output = output.data_ptr() if output.numel() else None
    kernel.forward(call)
    if given is not trail:
        trail.copy_(given)
    return output, last


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
    kernel, call, _tensors = _prepare(
        output,
        weight,
        update,
        True,
        grad_output=grad_output,
        grad_last=grad_last,
        output=output,
        trail=trail,
        state=state,
        parameters=parameters,
        timespans=timespans,
        lengths=lengths,
    )
    grad_drive = large_pages(torch.empty_like(output, memory_format=torch.contiguous_format))
    grad_state = torch.empty_like(state, memory_format=torch.contiguous_format)
    call.grad_drive, call.grad_state = grad_drive.data_ptr(), grad_state.data_ptr()
    if need_parameters or need_timespans:
        sums = torch.zeros(kernel.coefficients, *state.shape[1:], dtype=state.dtype)
        call.sums = sums.data_ptr()
    if need_timespans:
        assert timespans is not None
        grad_timespans = torch.empty(timespans.shape, dtype=output.dtype)
        call.grad_timespans = grad_timespans.data_ptr()
    kernel.backward(call)
    return Gradients(
        drive=grad_drive,
        state=grad_state,
        parameters=sums[: kernel.parameters].sum(-2) if need_parameters else None,
        timespans=grad_timespans if need_timespans else None,
    )


def weight_gradient(
    drive: Tensor, output: Tensor, trail: Tensor, state: Tensor, weight: Tensor, *, update: str
) -> Tensor:
    """The gradient of R from `Gradients.drive`, one product over all steps. BLAS is slower at matrices this tall."""
    kernel, call, _tensors = _prepare(
        output, weight, update, True, grad_drive=drive, output=output, trail=trail, state=state, lengths=None
    )
    gradient = torch.empty_like(weight, memory_format=torch.contiguous_format)
    call.grad_weight = gradient.data_ptr()
    kernel.weight_gradient(call)
    return gradient
