"""Kernels on PyTorch's devices, streams and threads, through cuda-core."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cornn.engine.backends.cuda import nvrtc

__all__ = ["Launch", "launch", "prepare", "unable"]


class Launch(NamedTuple):
    """A kernel that is ready to run: on one device, with one number of blocks."""

    kernel: Any
    config: Any
    device: int


def unable(device: int | None) -> str | None:
    """Why no kernel can be compiled for this device, or None if they can."""
    if reason := nvrtc.missing():
        return reason
    major, minor = torch.cuda.get_device_capability(device)
    return None if major >= 8 else f"it needs compute capability 8.0 or newer, this device has {major}.{minor}"


def prepare(
    file: str, name: str, macros: Mapping[str, object], device: int, blocks: int, threads: int, shared: int = 0
) -> Launch:
    """The kernel `name` of a file of the kernels folder, compiled if this is its first use anywhere.

    shared: bytes of dynamic shared memory.
    """
    from cuda.bindings import driver  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]
    from cuda.core import LaunchConfig, ObjectCode  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    with torch.cuda.device(device):
        _bind(device)
        major, minor = torch.cuda.get_device_capability(device)
        kernel = ObjectCode.from_cubin(nvrtc.compiled(file, macros, f"sm_{major}{minor}")).get_kernel(name)
        if shared:
            setting = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            (error,) = driver.cuKernelSetAttribute(setting, shared, kernel.handle, driver.CUdevice(device))
            if error != driver.CUresult.CUDA_SUCCESS:
                raise RuntimeError(f"the driver refused {shared} bytes of shared memory for {file}: {error.name}")
    return Launch(kernel, LaunchConfig(grid=blocks, block=threads, shmem_size=shared), device)


def launch(what: Launch, arguments: Sequence[Tensor | int | None]) -> None:
    """Run it on the current stream of its device. A tensor is handed over as its address, None as 0."""
    from cuda.core import launch  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    values = [x.data_ptr() if isinstance(x, Tensor) else int(x or 0) for x in arguments]
    with torch.cuda.device(what.device):
        _bind(what.device)
        launch(_stream(what.device), what.config, what.kernel, *values)


_threads = threading.local()
_streams: dict[tuple[int, int], Any] = {}


def _bind(device: int) -> None:
    """Give this thread the device's context, which the driver wants and PyTorch makes current only when it needs it."""
    bound = _threads.__dict__.setdefault("bound", set())
    if device in bound:
        return
    from cuda.bindings import driver  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    error, context = driver.cuDevicePrimaryCtxRetain(driver.CUdevice(device))
    if error == driver.CUresult.CUDA_SUCCESS:
        (error,) = driver.cuCtxSetCurrent(context)
    if error != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"could not get a CUDA context on device {device}: {error.name}")
    bound.add(device)


def _stream(device: int) -> Any:
    """PyTorch's current stream of a device, in cuda-core's words."""
    key = device, torch.cuda.current_stream(device).cuda_stream
    if key not in _streams:
        from cuda.core import Stream  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

        _streams[key] = Stream.from_handle(key[1])
    return _streams[key]
