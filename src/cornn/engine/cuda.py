"""The recurrence on NVIDIA GPUs: one kernel forward and one backward, in exact fp32.

Up to 128 neurons a block holds the weights in its registers for the whole sequence, above that a cluster of blocks
does. The kernels say how; here they are chosen, compiled and launched. The contract is in `problem.py`.

The same input gives the same result to the bit, on the same kind of device and with the same versions: nothing is
summed in an order that may change.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cornn.engine import nvrtc
from cornn.engine.problem import Gradients, Problem
from cornn.engine.updates import UPDATES, Oscillator

__all__ = ["backward", "forward", "usable"]

LARGEST = 512
BLOCK_SIZES = (32, 64, 96, 128)
CLUSTERS = {192: (4, 4), 256: (4, 4), 384: (16, 8), 512: (16, 8)}
"""Padded size -> (blocks in a cluster, sequences that a cluster serves)."""

# A step of a block costs about `latency + rows * issue` cycles, and `resident` blocks share a multiprocessor: estimates
# that decide how many sequences a block serves when there are more of them than multiprocessors.
_COSTS = {32: (150, 45, 6), 64: (180, 90, 3), 96: (100, 230, 1), 128: (100, 300, 1)}


# Sequences that a block may serve; the gradients of the parameters leave no registers for four.
ROWS = (1, 2, 4)
ROWS_WITH_PARAMETERS = (1, 2)


class Plan(NamedTuple):
    """How a problem is laid out: neurons after padding, sequences a block or cluster serves, blocks in a cluster."""

    size: int
    rows: int
    cluster: int

    @property
    def kind(self) -> str:
        return "cluster" if self.cluster > 1 else "block"

    @property
    def threads(self) -> int:
        lanes = (
            2
            if self.size <= 32
            else 4
            if self.size <= 64
            else 8
            if self.size <= 128
            else 16
            if self.size <= 256
            else 32
        )
        return self.size // self.cluster // min(4, lanes // 2) * lanes

    @property
    def shared(self) -> int:
        """Bytes of dynamic shared memory: four buffers of all neurons' values, dt, barriers, and inputs to come."""
        return 0 if self.cluster == 1 else 4 * (4 * self.size * self.rows + self.size) + 32 + 80 * self.threads

    def blocks(self, groups: int, batch: int) -> int:
        return groups * -(-batch // self.rows) * self.cluster


def plan(hidden: int, groups: int, batch: int, multiprocessors: int, choices: tuple[int, ...] = ROWS) -> Plan:
    if hidden > BLOCK_SIZES[-1]:
        size = next(size for size in CLUSTERS if hidden <= size)
        cluster, rows = CLUSTERS[size]
        return Plan(size, rows, cluster)
    size = next(size for size in BLOCK_SIZES if hidden <= size)
    latency, issue, most = _COSTS[size]

    def cost(rows: int) -> int:
        blocks = groups * -(-batch // rows)
        resident = max(1, most // 2) if rows > 2 else most
        together = min(resident, -(-blocks // multiprocessors))
        return -(-blocks // (multiprocessors * resident)) * (latency + together * rows * issue)

    return Plan(size, min(choices, key=cost), 1)


def usable(problem: Problem) -> tuple[bool, str]:
    if problem.device.type != "cuda":
        return False, f"it runs on NVIDIA GPUs, the input is on {problem.device.type}"
    if torch.version.hip is not None:
        return False, "it runs on NVIDIA GPUs, this PyTorch is built for AMD's"
    if problem.dtype != torch.float32:
        return False, f"it computes in float32, the input is {str(problem.dtype).removeprefix('torch.')}"
    if not isinstance(UPDATES[problem.update], Oscillator):
        return False, f"it has no kernel for {problem.update}"
    if problem.hidden > LARGEST:
        return False, f"{problem.hidden} neurons do not fit on the chip (at most {LARGEST})"
    return _usable_there(problem.device.index, problem.hidden)


# For torch.compile: an answer about this machine, not something to trace.
@torch.compiler.assume_constant_result
def _usable_there(index: int | None, hidden: int) -> tuple[bool, str]:
    if reason := nvrtc.missing():
        return False, reason
    major, minor = torch.cuda.get_device_capability(index)
    if major < 8:
        return False, f"it needs compute capability 8.0 or newer, this device has {major}.{minor}"
    if hidden > BLOCK_SIZES[-1] and major not in (9, 10):
        return False, f"above {BLOCK_SIZES[-1]} neurons it needs compute capability 9.0 or 10.0, not {major}.{minor}"
    if hidden > BLOCK_SIZES[-1] and not _clusters_fit(torch.cuda.current_device() if index is None else index, hidden):
        return False, f"{hidden} neurons need clusters of blocks that are larger than this device runs"
    return True, "one fused kernel forward and one backward, in exact fp32"


def _clusters_fit(device: int, hidden: int) -> bool:
    """Whether a cluster as large as this can run: beyond 8 blocks that is up to the device."""
    layout = plan(hidden, 1, 1, 1)
    if layout.cluster <= 8:
        return True
    from cuda.core import LaunchConfig, Stream  # pyright: ignore[reportMissingImports]

    with torch.cuda.device(device):
        kernel = _kernel("forward", layout, _update_macros("cornn/explicit/tanh", False), device)
        config = LaunchConfig(grid=1, cluster=layout.cluster, block=layout.threads, shmem_size=layout.shared)
        stream = Stream.from_handle(torch.cuda.current_stream(device).cuda_stream)
        return kernel.occupancy.max_active_clusters(config, stream=stream) > 0


class _Stream:
    def __init__(self, handle: int):
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle


_kernels: dict[tuple, Any] = {}


def _kernel(direction: str, layout: Plan, macros: dict[str, object], device: int) -> Any:
    """The kernel on this device, compiled if this is its first use."""
    key = (direction, layout, tuple(macros.values()), device)
    if key in _kernels:
        return _kernels[key]
    from cuda.bindings import driver  # pyright: ignore[reportMissingImports]
    from cuda.core import ObjectCode  # pyright: ignore[reportMissingImports]

    major, minor = torch.cuda.get_device_capability(device)
    code = nvrtc.compiled(f"{layout.kind}_{direction}.cu", _macros(layout, macros), f"sm_{major}{minor}")
    kernel = ObjectCode.from_cubin(code).get_kernel(direction)
    attribute = driver.CUfunction_attribute
    settings = {attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: layout.shared} if layout.shared else {}
    if layout.cluster > 8:
        settings[attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] = 1
    for setting, value in settings.items():
        (error,) = driver.cuKernelSetAttribute(setting, value, kernel.handle, driver.CUdevice(device))
        if error != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the driver refused {setting.name} = {value} for a kernel of {layout}: {error.name}")
    return _kernels.setdefault(key, kernel)


def _macros(layout: Plan, macros: dict[str, object]) -> dict[str, object]:
    return {"SIZE": layout.size, "ROWS": layout.rows, "CLUSTER": layout.cluster, **macros}


def _update_macros(update: str, timespans: bool) -> dict[str, object]:
    rule = UPDATES[update]
    return {
        "UPDATE": type(rule).__name__,
        "IMPLICIT": int(rule.damping == "implicit"),
        "ACTIVATION": rule.activation.upper(),
        "SPANS": int(timespans),
    }


def _launch(direction: str, macros: dict[str, object], like: Tensor, arguments: list[Tensor | int | None]) -> None:
    """Run a kernel on the current stream of the device of `like`, which is (time, [group,] batch, hidden)."""
    from cuda.core import LaunchConfig, launch  # pyright: ignore[reportMissingImports]

    steps, batch, hidden = like.shape[0], like.shape[-2], like.shape[-1]
    groups = like.shape[1] if like.dim() == 4 else 1
    device = like.device.index
    choices = ROWS_WITH_PARAMETERS if macros.get("FOR_PARAMETERS") else ROWS
    layout = plan(hidden, groups, batch, torch.cuda.get_device_properties(device).multi_processor_count, choices)
    blocks = layout.blocks(groups, batch)
    if blocks == 0 or hidden == 0:
        return
    with torch.cuda.device(device):
        kernel = _kernel(direction, layout, macros, device)
        config = LaunchConfig(grid=blocks, block=layout.threads, shmem_size=layout.shared)
        stream = _Stream(torch.cuda.current_stream(device).cuda_stream)
        values = [x.data_ptr() if isinstance(x, Tensor) else int(x or 0) for x in arguments]
        launch(stream, config, kernel, *values, steps, groups, batch, hidden)


def _given(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _there(lengths: Tensor | None, device: torch.device) -> Tensor | None:
    return None if lengths is None else lengths.to(device, torch.int64).contiguous()


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
    if not trail.is_contiguous():
        raise ValueError("the trail has to be contiguous: what is kept is written into it")
    output = torch.empty_like(drive) if keep or every else drive.new_empty(0)
    last = torch.empty_like(state, memory_format=torch.contiguous_format)
    arguments = [
        drive,
        trail[0] if keep else None,
        output if keep or every else None,
        last,
        *(_given(x) for x in (state, weight, parameters, timespans)),
        _there(lengths, drive.device),
        keep,
    ]
    _launch("forward", _update_macros(update, timespans is not None), drive, arguments)
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
    trail, output = trail.contiguous(), output.contiguous()
    need = need_parameters or need_timespans
    grad_drive = torch.empty_like(output)
    grad_state = torch.empty_like(state, memory_format=torch.contiguous_format)
    # For each neuron of each sequence, summed below in a fixed order.
    terms = state.new_empty(len(parameters), *state.shape[1:]) if need else None
    for_spans = torch.empty_like(output) if need_timespans else None
    arguments = [
        _given(grad_output),
        _given(grad_last),
        trail[1],
        trail[0],
        output,
        *(_given(x) for x in (state, weight, parameters, timespans)),
        _there(lengths, output.device),
        grad_drive,
        grad_state,
        terms,
        for_spans,
    ]
    _launch(
        "backward", {**_update_macros(update, timespans is not None), "FOR_PARAMETERS": int(need)}, output, arguments
    )
    return Gradients(
        drive=grad_drive,
        state=grad_state,
        parameters=terms.sum(-2) if need_parameters and terms is not None else None,
        timespans=for_spans.sum(-1) if for_spans is not None else None,
    )
