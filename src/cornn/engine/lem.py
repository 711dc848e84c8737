"""LEM on NVIDIA GPUs: one kernel forward and one backward, instead of many per step.

LEM has two products per step, the second of which depends on the first, unlike the engine's recurrences. A block of
threads runs one sequence and holds all four matrices in registers and shared memory, which limits it to 128 neurons.
Second derivatives are computed by the plain equations.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cornn._autocast import no_autocast
from cornn._torch_private import is_eager
from cornn.engine.backends.cuda.launch import Launch, explain_unusable, launch, prepare
from cornn.engine.contract import check_tensor
from cornn.engine.second_order import by_autograd

__all__ = ["SIZES", "Operands", "run", "unusable", "unusable_there"]

SIZES = {32: 32, 64: 64, 128: 80}
"""Padded number of neurons -> number of weights in the registers of a thread, which has 128 registers in total."""
MIN_CAPABILITY = (7, 5)
"""Smallest compute capability."""
GATES = 4
STATIC = 5
"""Largest number of values per neuron in the shared memory of a kernel, in addition to the weights."""


class Operands(NamedTuple):
    """The tensors of LEM. The rows of the first two weights are for d1, d2, z and y; hidden is the size of a state."""

    input: Tensor  # (time, batch, features)
    state: Tensor  # (2, batch, hidden): y and z
    weight_ih: Tensor  # (4 * hidden, features)
    bias: Tensor | None  # (4 * hidden)
    weight_hh: Tensor  # (3 * hidden, hidden), on y
    weight_zy: Tensor  # (hidden, hidden), on z


Steps = Callable[[Operands], tuple[Tensor, Tensor]]
"""(output, last) by the plain equations: y of every step, (time, batch, hidden), and the last state."""


def unusable(operands: Operands) -> str | None:
    """Return why the kernels cannot run this call; None if they can."""
    input, hidden = operands.input, operands.state.shape[-1]
    if not input.is_cuda or torch.version.hip is not None:
        return "its kernel is for NVIDIA GPUs"
    if input.dtype != torch.float32:
        return f"its kernel is for float32, and this is {input.dtype}"
    if hidden > max(SIZES):
        return f"its kernel supports up to {max(SIZES)} neurons, not {hidden}"
    if not is_eager(operands):
        return "its kernel needs eager mode and a tested PyTorch, without function transforms or forward-mode AD"
    return unusable_there(input.device.index, pad_size(hidden))


@functools.cache
def unusable_there(device: int | None, size: int) -> str | None:
    """Return why a device cannot run the kernels of a padded size; None if it can."""
    if reason := explain_unusable(device, MIN_CAPABILITY):
        return reason
    room = torch.cuda.get_device_properties(device).shared_memory_per_block_optin
    needed = shared_bytes(size) + STATIC * size * 4
    if room < needed:
        return f"its kernel needs {needed:,} bytes of shared memory, this device has {room:,}"
    return None


def run(operands: Operands, dt: float, every: bool, steps: Steps) -> tuple[Tensor, Tensor]:
    """Run LEM over a sequence; return y of every step (possibly empty if not `every`) and the last state.

    Args:
        operands: The tensors.
        dt: Longest time step.
        every: Whether to return y of every step.
        steps: The same by the plain equations, for second derivatives.

    Raises:
        ValueError: For wrong shapes, devices and types, with which the kernels would read beyond a tensor's end.
    """
    _check(operands)
    if torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in operands):
        return _Kernels.apply(steps, dt, *operands)  # pyright: ignore[reportReturnType]
    output, _, _, last = forward(operands, _to_tensor(dt, operands.input), every, keep=False)
    return operands.input.new_empty(0) if output is None else output, last


def _check(operands: Operands) -> None:
    input, state, weight_ih, bias, weight_hh, weight_zy = operands
    batch, features, hidden = input.shape[1], input.shape[2], state.shape[-1]
    check_tensor("state", state, (2, batch, hidden), input)
    check_tensor("weight_ih", weight_ih, (GATES * hidden, features), input)
    check_tensor("weight_hh", weight_hh, (3 * hidden, hidden), input)
    check_tensor("weight_zy", weight_zy, (hidden, hidden), input)
    if bias is not None:
        check_tensor("bias", bias, (GATES * hidden,), input)


def _to_tensor(dt: float, like: Tensor) -> Tensor:
    return torch.full((1,), dt, dtype=like.dtype, device=like.device)


class _Kernels(torch.autograd.Function):
    @staticmethod
    def forward(ctx, steps, dt, *tensors):
        operands, ctx.steps, number = Operands(*tensors), steps, _to_tensor(dt, tensors[0])
        output, kept, memory, last = forward(operands, number, every=True, keep=True)
        ctx.save_for_backward(*operands, number, output, kept, memory)
        ctx.set_materialize_grads(False)
        return output, last

    @staticmethod
    def backward(ctx, grad_output, grad_last):
        *tensors, number, output, kept, memory = ctx.saved_tensors
        none = (None, None)  # for steps and dt
        operands, needs, grads = Operands(*tensors), ctx.needs_input_grad[len(none) :], (grad_output, grad_last)
        if grad_output is None and grad_last is None:
            return *none, *(None for _ in operands)
        if torch.is_grad_enabled() or not is_eager(grads):
            return *none, *by_autograd(lambda *operands: ctx.steps(Operands(*operands)), operands, grads, needs)
        with no_autocast(output.device.type):
            grad_drive, grad_state = backward(operands, grads, number, output, kept, memory)
            return *none, *_spread(operands, grad_drive, grad_state, output, memory, needs)


def forward(
    operands: Operands, dt: Tensor, every: bool, keep: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor]:
    """Return output, kept, memory and last of lem_forward.cu; None for those that are not requested."""
    state, weight_hh, weight_zy = (x.contiguous() for x in (operands.state, operands.weight_hh, operands.weight_zy))
    drive = nn.functional.linear(operands.input, operands.weight_ih, operands.bias).contiguous()
    steps, batch, hidden = *drive.shape[:2], state.shape[-1]
    output = drive.new_empty(steps, batch, hidden) if every or keep else None
    memory = drive.new_empty(steps, batch, hidden) if keep else None
    kept = drive if keep else None  # a thread overwrites a value after reading it
    last = torch.empty_like(state)
    if batch:
        tensors = drive, state, weight_hh, weight_zy, dt, output, kept, memory, last
        launch(_prepare("lem_forward", drive.device.index, batch, hidden), [*tensors, steps, batch, hidden])
    return output, kept, memory, last


def backward(
    operands: Operands,
    grads: tuple[Tensor | None, Tensor | None],
    dt: Tensor,
    output: Tensor,
    kept: Tensor,
    memory: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return the gradients of the drive and of the initial state; `grads` are those of output and last state."""
    steps, batch, hidden = output.shape
    grad_drive, state = torch.empty_like(kept), operands.state.contiguous()
    grad_state = torch.empty_like(state)
    if batch:
        tensors = (*(None if grad is None else grad.contiguous() for grad in grads), state)
        tensors += (operands.weight_hh.contiguous(), operands.weight_zy.contiguous(), dt, output, kept, memory)
        whole = [*tensors, grad_drive, grad_state, steps, batch, hidden]
        launch(_prepare("lem_backward", kept.device.index, batch, hidden), whole)
    return grad_drive, grad_state


def _spread(
    operands: Operands, grad_drive: Tensor, grad_state: Tensor, output: Tensor, memory: Tensor, needs
) -> list[Tensor | None]:
    """Return the requested gradients of `operands`. Those of weights are products over all steps and sequences."""
    hidden = operands.state.shape[-1]
    rows = grad_drive.flatten(0, 1)
    of_y, of_z = rows.split((3 * hidden, hidden), 1)

    def before() -> Tensor:
        """Return y before each step."""
        return torch.cat((operands.state[:1], output))[:-1].flatten(0, 1)

    makers = (
        lambda: grad_drive @ operands.weight_ih,
        lambda: grad_state,
        lambda: rows.mT @ operands.input.flatten(0, 1),
        lambda: rows.sum(0),
        lambda: of_y.mT @ before(),
        lambda: of_z.mT @ memory.flatten(0, 1),
    )
    return [make() if need else None for make, need in zip(makers, needs, strict=True)]


def pad_size(hidden: int) -> int:
    return next(size for size in SIZES if hidden <= size)


def macros(size: int) -> dict[str, object]:
    return {"SIZE": size, "HELD": SIZES[size]}


def shared_bytes(size: int) -> int:
    """Return the bytes of shared memory for the weights that are not in registers."""
    return GATES * size * (size - SIZES[size]) * 4


@functools.cache
def _prepare(name: str, device: int, batch: int, hidden: int) -> Launch:
    size = pad_size(hidden)
    return prepare(f"{name}.cu", name, macros(size), device, batch, GATES * size, shared_bytes(size))
