"""Load and launch kernels on PyTorch's devices and streams.

cuda-core compiles and loads them. They are launched by the driver's function, with the addresses of PyTorch's tensors:
for short sequences, a launch through cuda-core's objects would take longer than everything else.
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

__all__ = ["Launch", "explain_unusable", "launch", "make_plain", "prepare"]


class Launch(NamedTuple):
    """A kernel with its launch configuration on one device."""

    function: Any
    blocks: int
    threads: int
    shared: int
    device: int
    owner: Any  # object that keeps the function loaded
    cooperative: bool = False  # whether all blocks must run at the same time


def explain_unusable(device: int | None, minimum: tuple[int, int] = (8, 0)) -> str | None:
    """Return why a device cannot run kernels that need a compute capability of `minimum`, or None if it can."""
    if reason := nvrtc.explain_missing():
        return reason
    capability = torch.cuda.get_device_capability(device)
    if capability >= minimum:
        return None
    needed, present = (".".join(map(str, numbers)) for numbers in (minimum, capability))
    return f"it needs compute capability {needed} or newer, this device has {present}"


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
    """Load a kernel, compiling it first if it is not in the cache.

    Args:
        file: A file in the kernels folder.
        name: The name of the kernel in this file.
        macros: Macros of the compilation.
        device: Index of the device.
        blocks: Number of blocks.
        threads: Threads per block.
        shared: Bytes of dynamic shared memory.
        cooperative: Whether all blocks must run at the same time.

    Returns:
        The launch.
    """
    from cuda.bindings import driver  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
    from cuda.core import ObjectCode  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    with torch.cuda.device(device):
        _bind(device)
        major, minor = torch.cuda.get_device_capability(device)
        cubin = nvrtc.compile_kernel(file, macros, f"sm_{major}{minor}")
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


def make_plain(tensor: Tensor | None) -> Tensor | None:
    """Return a tensor in the form that kernels read: contiguous, float32."""
    if tensor is None or (tensor.dtype is torch.float32 and tensor.is_contiguous()):
        return tensor
    return tensor.float().contiguous()


def launch(prepared: Launch, arguments: Sequence[Tensor | int | None]) -> None:
    """Launch a kernel on the current stream of its device. A tensor is passed as its address, None as 0."""
    values = [0 if x is None else x.data_ptr() if isinstance(x, Tensor) else int(x) for x in arguments]
    if torch.cuda.current_device() == prepared.device:
        _launch(prepared, values)
    else:
        with torch.cuda.device(prepared.device):
            _launch(prepared, values)


def _launch(prepared: Launch, values: list[int]) -> None:
    function, blocks, threads, shared, device, _, cooperative = prepared
    _bind(device)
    integers, pointers = _array_types(len(values))
    numbers = integers(*values)
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
def _array_types(count: int) -> tuple[type[ctypes.Array], type[ctypes.Array]]:
    """Return the types of `count` kernel arguments of 8 bytes each, and of their addresses."""
    return ctypes.c_int64 * count, ctypes.c_void_p * count


_threads = threading.local()


def _bind(device: int) -> None:
    """Make the device's context current in this thread: the driver needs it, and PyTorch sets it late."""
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
