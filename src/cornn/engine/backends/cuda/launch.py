"""Kernels on PyTorch's devices, streams and threads.

cuda-core compiles and loads them. They are launched through the driver's own function, with addresses that PyTorch
gives: for short sequences a launch by cuda-core's objects would take longer than all else.
"""

import ctypes
import functools
import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cornn._torch_private import current_raw_stream
from cornn.engine.backends.cuda import nvrtc

__all__ = ["Launch", "launch", "plain", "prepare", "unable"]


class Launch(NamedTuple):
    """A kernel that is ready to run: on one device, with one number of blocks."""

    function: Any
    blocks: int
    threads: int
    shared: int
    device: int
    alive: Any  # what the function belongs to
    cooperative: bool = False  # whether all blocks must run at the same time


def unable(device: int | None, least: tuple[int, int] = (8, 0)) -> str | None:
    """Why no kernel that needs this compute capability can be compiled for this device, or None if they can."""
    if reason := nvrtc.missing():
        return reason
    found = torch.cuda.get_device_capability(device)
    if found >= least:
        return None
    return f"it needs compute capability {least[0]}.{least[1]} or newer, this device has {found[0]}.{found[1]}"


def prepare(
    file: str,
    name: str,
    macros: Mapping[str, object],
    device: int,
    blocks: int,
    threads: int,
    shared: int = 0,
    cooperative: bool = False,
) -> Launch:
    """The kernel `name` of a file of the kernels folder, compiled if this is its first use anywhere.

    shared: bytes of dynamic shared memory. cooperative: whether all blocks must run at the same time.
    """
    from cuda.bindings import driver  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
    from cuda.core import ObjectCode  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    with torch.cuda.device(device):
        _bind(device)
        major, minor = torch.cuda.get_device_capability(device)
        cubin = nvrtc.compiled(file, macros, f"sm_{major}{minor}")
        try:
            kernel = ObjectCode.from_cubin(cubin).get_kernel(name)
        except Exception as error:  # the classes of cuda-core's errors are private
            raise RuntimeError(
                f"the driver could not load {file} for sm_{major}{minor} ({nvrtc.first_line(error)}): update the "
                'NVIDIA driver, or set backend="portable"'
            ) from error
        if shared:
            setting = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            (error,) = driver.cuKernelSetAttribute(setting, shared, kernel.handle, driver.CUdevice(device))
            if error != driver.CUresult.CUDA_SUCCESS:
                raise RuntimeError(f"the driver refused {shared} bytes of shared memory for {file}: {error.name}")
    return Launch(driver.CUfunction(int(kernel.handle)), blocks, threads, shared, device, kernel, cooperative)


def plain(tensor: Tensor | None) -> Tensor | None:
    """The tensor as kernels read it: contiguous, in float32."""
    if tensor is None or (tensor.dtype is torch.float32 and tensor.is_contiguous()):
        return tensor
    return tensor.float().contiguous()


def launch(what: Launch, arguments: Sequence[Tensor | int | None]) -> None:
    """Run it on the current stream of its device. A tensor is handed over as its address, None as 0."""
    values = [_value(x) for x in arguments]
    if torch.cuda.current_device() == what.device:
        _launch(what, values)
    else:
        with torch.cuda.device(what.device):
            _launch(what, values)


def _value(argument: Tensor | int | None) -> int:
    if argument is None:
        return 0
    return argument.data_ptr() if isinstance(argument, Tensor) else int(argument)


def _launch(what: Launch, values: list[int]) -> None:
    function, blocks, threads, shared, device, _, cooperative = what
    _bind(device)
    stored, pointers = _arrays(len(values))
    numbers = stored(*values)
    first = ctypes.addressof(numbers)
    addresses = pointers(*range(first, first + 8 * len(values), 8))
    place = ctypes.addressof(addresses)
    size = blocks, 1, 1, threads, 1, 1, shared, current_raw_stream(device)
    if cooperative:
        (error,) = _driver().cuLaunchCooperativeKernel(function, *size, place)
    else:
        (error,) = _driver().cuLaunchKernel(function, *size, place, 0)
    if error:
        raise RuntimeError(f"the driver refused to launch a kernel: {error.name}")


@functools.cache
def _driver() -> Any:
    from cuda.bindings import driver  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    return driver


@functools.cache
def _arrays(count: int) -> tuple[type[ctypes.Array], type[ctypes.Array]]:
    """Types of `count` arguments of a kernel, all of 8 bytes, and of their addresses."""
    return ctypes.c_int64 * count, ctypes.c_void_p * count


_threads = threading.local()


def _bind(device: int) -> None:
    """Give this thread the device's context, which the driver wants and PyTorch makes current only when it needs it."""
    bound = _threads.__dict__.setdefault("bound", set())
    if device in bound:
        return
    driver = _driver()
    error, context = driver.cuDevicePrimaryCtxRetain(driver.CUdevice(device))
    if error == driver.CUresult.CUDA_SUCCESS:
        (error,) = driver.cuCtxSetCurrent(context)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"could not get a CUDA context on device {device}: {error.name}")
    bound.add(device)
