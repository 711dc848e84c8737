"""The recurrence on a CPU, by the C library that is built with the package (`csrc`). The interface is in `contract.py`.

One call runs the whole sequence without the GIL, the input map included. Rows are spread over
`torch.get_num_threads()` threads, and a row's result depends neither on their number nor on the rows beside it; the
weights' gradients are summed in an order that does not depend on it either. So runs are equal to the bit.

The environment variable CORNN_ISA forces an instruction set for this process: avx512, avx2 or generic.
"""

import ctypes
import functools
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from cornn.engine import gemms
from cornn.engine._buffer_pool import reusable
from cornn.engine.contract import After, Given, Problem, about_this_machine
from cornn.engine.updates import UPDATES, OneState, Oscillator

__all__ = ["instruction_set", "usable", "whole_backward", "whole_forward"]

INSTRUCTION_SETS = ("avx512", "avx2", "generic")
"""Most preferred first."""

LARGE_PAGES = 1 << 23
"""Bytes from which fresh memory is asked for in large pages: a smaller block lies on few of them, or none."""

INTERFACE = 4
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


class Unusable(Exception):
    """The reason why this backend cannot be used."""


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
        raise Unusable(f"{LIBRARY.name} belongs to another version of cornn: install cornn again")
    library.cornn_kernel.restype = ctypes.POINTER(Kernel)
    team = _team()
    if team is not None:
        library.cornn_use_team(*team)
        # OpenMP's threads do not survive a fork; a child makes its own.
        os.register_at_fork(after_in_child=lambda: library.cornn_use_team(None, None))
    return library


def _team() -> tuple[Callable, Callable] | None:
    """What PyTorch itself starts its threads with, where that is an OpenMP runtime that speaks GNU's dialect, and what
    numbers them."""
    try:
        runtime = ctypes.CDLL(str(Path(torch.__file__).with_name("lib") / "libtorch_cpu.so"))
        return runtime.GOMP_parallel, runtime.omp_get_thread_num
    except (OSError, AttributeError):
        return None


# Cached, since virtual machines take long to say what their processor has.
@functools.cache
def instruction_set() -> str:
    """Return the instruction set in use: that of CORNN_ISA, or the best one of this processor."""
    library, asked = _library(), os.environ.get("CORNN_ISA")
    if not asked:
        return next(isa for isa in INSTRUCTION_SETS if library.cornn_supports(isa.encode()) == 1)
    if asked not in INSTRUCTION_SETS:
        raise Unusable(f"unknown CORNN_ISA {asked!r}: choose one of {', '.join(INSTRUCTION_SETS)}")
    answer = library.cornn_supports(asked.encode())
    if answer != 1:
        reason = "this processor does not support" if answer == 0 else "the library was built without"
        raise Unusable(f"CORNN_ISA is {asked}, which {reason}")
    return asked


@functools.cache
def _find(dtype: torch.dtype, update: str) -> Kernel:
    if dtype not in (torch.float32, torch.float64):
        raise Unusable(f"{dtype} is not supported: use float32 or float64")
    isa = instruction_set().encode()
    found = _library().cornn_kernel(isa, int(dtype == torch.float64), update.encode())
    if not found:
        raise Unusable(f"there is no C kernel for the update {update!r}")
    return found.contents


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cpu":
        return False, f"it needs a CPU, the input is on {problem.device}"
    return _usable_here(problem.dtype, problem.update)


@about_this_machine
def _usable_here(dtype: torch.dtype, update: str) -> tuple[bool, str]:
    try:
        _find(dtype, update)
    except Unusable as reason:
        return False, str(reason)
    return True, f"C kernels ({instruction_set()})"


def _empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Fresh memory, in large pages if it is large, which saves page faults. Only speed depends on it."""
    fresh = torch.empty(shape, dtype=dtype)
    if fresh.nbytes >= LARGE_PAGES:
        _library().cornn_large_pages(ctypes.c_void_p(fresh.data_ptr()), ctypes.c_int64(fresh.nbytes))
    return fresh


def _contiguous(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    if tensor.dtype is dtype and tensor.is_contiguous():
        return tensor
    return _empty(tensor.shape, dtype).copy_(tensor)


def _call(kept: list[Tensor], given: Given, **others: Tensor | None) -> Call:
    """A call with its sizes, and pointers to its tensors. What it points to is added to `kept`, to outlive it."""
    shape, rows, dtype = given.input.shape, given.weight.shape, given.input.dtype
    groups = rows[0] if len(rows) == 3 else 1
    call = Call(groups, shape[0], shape[-2], given.state.shape[-1], shape[-1], torch.get_num_threads())
    tensors = given._asdict() | others
    lengths = tensors.pop("lengths")
    for name, tensor in tensors.items():
        if tensor is not None:
            tensor = _contiguous(tensor, dtype)
            kept.append(tensor)
            setattr(call, name, tensor.data_ptr())
    if lengths is not None:
        lengths = lengths.to("cpu", torch.int64).contiguous()
        order = lengths.argsort(dim=-1, descending=True, stable=True)
        kept += (lengths, order)
        call.lengths, call.order = lengths.data_ptr(), order.data_ptr()
    return call


def _with_workspace(call: Call, kernel: Kernel, kept: list[Tensor]) -> Call:
    """For a call that has all its pointers: what it needs in addition depends on them."""
    kept.append(torch.empty(kernel.workspace(call), dtype=torch.uint8))
    call.workspace = kept[-1].data_ptr()
    return call


def _is_given_drives(rule: Oscillator | OneState, given: Given) -> bool:
    """An update whose drives share a product is given its drives, since the kernels' product has no room."""
    return rule.products < rule.drives and (given.input_weight is not None or given.bias is not None)


def _drives(input: Tensor, input_weight: Tensor | None, bias: Tensor | None) -> Tensor:
    """V u + b."""
    if input_weight is None:
        return input if bias is None else input + bias.unsqueeze(-2)
    drive = input @ input_weight.mT
    return drive if bias is None else drive.add_(bias.unsqueeze(-2))


def whole_forward(given: Given, *, update: str, every: bool, keep: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    rule, dtype, kept = UPDATES[update], given.input.dtype, []
    kernel, shape, hidden = _find(dtype, update), given.input.shape[:-1], given.state.shape[-1]
    if _is_given_drives(rule, given):
        drives = _drives(given.input, given.input_weight, given.bias)
        given = given._replace(input=drives, input_weight=None, bias=None)
    output = _empty((*shape, hidden) if keep or every else (0,), dtype)
    trail = reusable((rule.trail, *shape, rule.drives * hidden), dtype) if keep else None
    last = torch.empty(given.state.shape, dtype=dtype)
    call = _call(kept, given, trail=trail, last=last)
    if keep or every:
        call.output = output.data_ptr()
    kernel.forward(_with_workspace(call, kernel, kept))
    return output, last, trail


def whole_backward(given: Given, after: After, *, update: str, needs: Sequence[bool]) -> tuple[Tensor | None, ...]:
    need_input, need_state, need_input_weight, need_bias, need_weight, need_parameters, need_timespans = needs
    rule, dtype, kept = UPDATES[update], given.input.dtype, []
    if _is_given_drives(rule, given):
        # The drives as they were are not needed, only their shape.
        driven = given._replace(input=after.trail[-1], input_weight=None, bias=None)
        asked = (True, need_state, False, False, need_weight, need_parameters, need_timespans)
        drive, *others = whole_backward(driven, after, update=update, needs=asked)
        assert drive is not None
        for_map = gemms.for_input_map(drive, given, need_input_weight, need_bias)
        for_input = None
        if need_input:
            for_input = drive if given.input_weight is None else drive @ given.input_weight
        return for_input, others[0], *for_map, *others[3:]
    kernel = _find(dtype, update)

    def fresh(like: Tensor | None, needed: bool) -> Tensor | None:
        return _empty(like.shape, dtype) if needed and like is not None else None

    handed_out = need_input and given.input_weight is None
    found = {
        "grad_drive": (_empty if handed_out else reusable)(after.trail.shape[1:], dtype),
        "grad_state": torch.empty(given.state.shape, dtype=dtype),
        "grad_input": fresh(given.input, need_input and not handed_out),
        "grad_input_weight": fresh(given.input_weight, need_input_weight),
        "grad_bias": fresh(given.bias, need_bias),
        "grad_weight": fresh(given.weight, need_weight),
        "grad_timespans": fresh(given.timespans, need_timespans),
    }
    sums = None
    if need_parameters or need_timespans:
        sums = torch.zeros(kernel.coefficients, *given.state.shape[1:], dtype=dtype)
    call = _call(kept, given, **after._asdict(), **found, sums=sums)
    _with_workspace(call, kernel, kept)
    kernel.backward(call)
    kernel.weight_gradients(call)
    return (
        found["grad_drive" if handed_out else "grad_input"],
        found["grad_state"] if need_state else None,
        found["grad_input_weight"],
        found["grad_bias"],
        found["grad_weight"],
        sums[: kernel.parameters].sum(-2) if sums is not None and need_parameters else None,
        found["grad_timespans"],
    )
