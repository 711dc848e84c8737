"""LEM's steps on NVIDIA GPUs: one kernel for each pass, in place of some forty for every step.

LEM takes two products a step, the second of what the first one made, which the engine's recurrences do not have. A
block of threads has one sequence and keeps all four matrices, in registers and shared memory: 128 neurons are as many
as fit.
"""

import functools

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cornn.engine import nvrtc
from cornn.engine.launch import Launch, launch, prepare
from cornn.engine.operator import plain

__all__ = ["SIZES", "run", "unusable"]

SIZES = {32: 32, 64: 64, 128: 80}
"""Neurons, padded -> weights of a thread that are in registers, of which it may have 128 for everything."""
GATES = 4


def unusable(input: Tensor, state: Tensor, weights: tuple[Tensor, ...]) -> str | None:
    """Why the kernels cannot serve tensors like these, or None if they can."""
    if not input.is_cuda or torch.version.hip is not None:
        return "its kernel is for NVIDIA GPUs"
    if input.dtype != torch.float32:
        return f"its kernel is for float32, and this is {input.dtype}"
    if state.shape[-1] > max(SIZES):
        return f"its kernel has room for {max(SIZES)} neurons"
    if not plain((input, state, *weights)):
        return "its kernel is not for compilers and function transforms"
    return nvrtc.missing()


def run(
    drive: Tensor, state: Tensor, weight: Tensor, weight_zy: Tensor, dt: float, every: bool
) -> tuple[Tensor, Tensor]:
    """The y of every step (empty, perhaps, if not `every`), and the last state.

    drive: (time, batch, 4 * hidden), for d1, d2, z and y. state: (2, batch, hidden), y and z.
    weight: (3 * hidden, hidden), on y. weight_zy: (hidden, hidden), on z.
    """
    drive, state, weight, weight_zy = tensors = tuple(x.contiguous() for x in (drive, state, weight, weight_zy))
    if torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors):
        return _Steps.apply(*tensors, dt)  # pyright: ignore[reportReturnType]
    output, _, _, last = forward(drive, state, weight, weight_zy, _number(dt, drive), every, keep=False)
    return drive.new_empty(0) if output is None else output, last


def _number(dt: float, like: Tensor) -> Tensor:
    return torch.full((1,), dt, dtype=like.dtype, device=like.device)


class _Steps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, drive, state, weight, weight_zy, dt):
        number = _number(dt, drive)
        output, kept, memory, last = forward(drive, state, weight, weight_zy, number, every=True, keep=True)
        ctx.save_for_backward(state, weight, weight_zy, number, output, kept, memory)
        ctx.set_materialize_grads(False)
        return output, last

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output, grad_last):
        state, weight, weight_zy, number, output, kept, memory = ctx.saved_tensors
        of_output, of_last = (None if grad is None else grad.contiguous() for grad in (grad_output, grad_last))
        grad_drive, grad_state = backward(of_output, of_last, state, weight, weight_zy, number, output, kept, memory)
        return grad_drive, grad_state, *of_weights(grad_drive, state, output, memory), None


def forward(
    drive: Tensor, state: Tensor, weight: Tensor, weight_zy: Tensor, dt: Tensor, every: bool, keep: bool
) -> tuple[Tensor | None, Tensor | None, Tensor | None, Tensor]:
    """(output, kept, memory, last) as lem_forward.cu has them; None for what is not asked for."""
    steps, batch, hidden = *drive.shape[:2], state.shape[-1]
    output = drive.new_empty(steps, batch, hidden) if every or keep else None
    kept, memory = (torch.empty_like(drive), drive.new_empty(steps, batch, hidden)) if keep else (None, None)
    last = torch.empty_like(state)
    tensors = drive, state, weight, weight_zy, dt, output, kept, memory, last
    launch(_prepared("lem_forward", drive.device.index, batch, hidden), [*tensors, steps, batch, hidden])
    return output, kept, memory, last


def backward(
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    state: Tensor,
    weight: Tensor,
    weight_zy: Tensor,
    dt: Tensor,
    output: Tensor,
    kept: Tensor,
    memory: Tensor,
) -> tuple[Tensor, Tensor]:
    """The gradients of the drive and of the first state."""
    grad_drive, grad_state = torch.empty_like(kept), torch.empty_like(state)
    steps, batch, hidden = output.shape
    tensors = grad_output, grad_last, state, weight, weight_zy, dt, output, kept, memory, grad_drive, grad_state
    launch(_prepared("lem_backward", kept.device.index, batch, hidden), [*tensors, steps, batch, hidden])
    return grad_drive, grad_state


def of_weights(grad_drive: Tensor, state: Tensor, output: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
    """The gradients of both weights: sums over all steps of products of a step's gradient with what it was given."""
    hidden = state.shape[-1]
    for_y, for_z = grad_drive.split((3 * hidden, hidden), -1)
    given = torch.cat((state[:1], output[:-1]))  # y before each step
    return for_y.flatten(0, 1).mT @ given.flatten(0, 1), for_z.flatten(0, 1).mT @ memory.flatten(0, 1)


def padded(hidden: int) -> int:
    return next(size for size in SIZES if hidden <= size)


def macros(size: int) -> dict[str, object]:
    return {"SIZE": size, "HELD": SIZES[size]}


def shared_bytes(size: int) -> int:
    """Of the weights that are not in registers."""
    return GATES * size * (size - SIZES[size]) * 4


@functools.cache
def _prepared(name: str, device: int, batch: int, hidden: int) -> Launch:
    size = padded(hidden)
    return prepare(f"{name}.cu", name, macros(size), device, batch, GATES * size, shared_bytes(size))
