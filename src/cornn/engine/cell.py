"""One step of coRNN for a few sequences of a few neurons on a CPU, by one call of the C library.

In a loop over a small cell, PyTorch's operations would take longer than the arithmetic. `functional.step` computes
larger cells, other activations, timespans, trained constants, and derivatives of gradients.
"""

import ctypes
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cornn import functional
from cornn._torch_private import find_apply, is_eager
from cornn.engine.backends import c
from cornn.engine.contract import wants_gradient
from cornn.engine.second_order import by_autograd

__all__ = ["CellWeights", "step"]

MOST_PRODUCTS = 1 << 15
"""Multiply-adds of a step above which PyTorch's products are faster."""

NUMBERS = ("batch", "hidden", "features", "implicit", "dt_each", "gamma_each", "epsilon_each")
POINTERS = (
    *("input", "y", "z", "V", "b", "R", "scale_V", "scale_b", "scale_R", "dt", "gamma", "epsilon"),
    *("next_y", "next_z", "force", "grad_next_y", "grad_next_z"),
    *("grad_input", "grad_y", "grad_z", "grad_V", "grad_b", "grad_R", "delta"),
)


class Cell(ctypes.Structure):
    """`Cell` of csrc/cell.c."""

    _fields_ = (*((name, ctypes.c_int64) for name in NUMBERS), *((name, ctypes.c_void_p) for name in POINTERS))


class CellWeights(NamedTuple):
    """The tensors of a cell: V, b and R, their scales or None, and the constants, shape `()` or `(hidden)`."""

    V: Tensor
    b: Tensor | None
    R: Tensor
    scale_V: Tensor | None
    scale_b: Tensor | None
    scale_R: Tensor | None
    dt: Tensor
    gamma: Tensor
    epsilon: Tensor


@functools.cache
def _passes(dtype: torch.dtype) -> tuple[Callable[[Any], None], Callable[[Any], None]] | None:
    """Return the functions of the C library; None if it cannot be used."""
    names = {torch.float32: "float", torch.float64: "double"}
    try:
        library = c.load_library()
    except c.Unusable:
        return None
    if dtype not in names:
        return None
    passes = tuple(getattr(library, f"cornn_cell_{word}_{names[dtype]}") for word in ("forward", "backward"))
    for function in passes:
        function.argtypes, function.restype = (ctypes.POINTER(Cell),), None
    return passes  # pyright: ignore[reportReturnType]


def _call(
    weights: CellWeights, damping: str, input: Tensor, y: Tensor | None, z: Tensor | None, *others: Tensor | None
) -> Cell:
    """Return a call for these tensors, which must outlive it; `others` are those from `next_y` on."""
    hidden, features = weights.V.shape
    _, _, _, _, _, _, dt, gamma, epsilon = weights
    return Cell(
        *(input.numel() // features, hidden, features, damping == "implicit", dt.dim(), gamma.dim(), epsilon.dim()),
        *[None if x is None else x.data_ptr() for x in (input, y, z, *weights, *others)],
    )


class _Step(torch.autograd.Function):
    @staticmethod
    def forward(ctx, weights: CellWeights, damping: str, input, y, z, V, b, R):
        next_y = input.new_empty((*input.shape[:-1], len(V)))
        next_z, force = torch.empty_like(next_y), torch.empty_like(next_y)  # takes less time than `new_empty`
        forward, _ = _passes(V.dtype)  # pyright: ignore[reportGeneralTypeIssues]
        forward(_call(weights, damping, input, y, z, next_y, next_z, force))
        ctx.damping = damping
        ctx.save_for_backward(input, y, z, *weights, force)
        ctx.set_materialize_grads(False)
        return next_y, next_z

    @staticmethod
    def backward(ctx, grad_y, grad_z):
        input, y, z, *tensors, force = ctx.saved_tensors
        weights, none = CellWeights(*tensors), (None, None)  # for the weights together, and the damping
        inputs, needs = (input, y, z, *weights[:3]), ctx.needs_input_grad[len(none) :]
        if grad_y is None and grad_z is None:
            return *none, *(None for _ in needs)
        if torch.is_grad_enabled() or not is_eager((grad_y, grad_z)):
            equations = functools.partial(_equations, weights, ctx.damping)
            return *none, *by_autograd(equations, inputs, (grad_y, grad_z), needs)
        grads = (None if grad is None else grad.contiguous() for grad in (grad_y, grad_z))
        grads_of_weights = [
            torch.empty_like(x) if need and x is not None else None for x, need in zip(inputs, needs, strict=True)
        ]
        _, backward = _passes(input.dtype)  # pyright: ignore[reportGeneralTypeIssues]
        others = None, None, force, *grads, *grads_of_weights, torch.empty_like(force)
        backward(_call(weights, ctx.damping, input, y, z, *others))
        return *none, *grads_of_weights


def _equations(weights: CellWeights, damping: str, input, y, z, V, b, R) -> tuple[Tensor, Tensor]:
    """Compute the step by the reference."""
    _, _, _, scale_V, scale_b, scale_R, dt, gamma, epsilon = weights
    if scale_V is not None:
        V, b, R = V * scale_V, None if b is None else b * scale_b, R * scale_R
    drive = torch.nn.functional.linear(input, V, b)
    zeros = torch.zeros_like(drive)
    W, W_z = R.split(len(R), 1)
    y, z = zeros if y is None else y, zeros if z is None else z
    return functional.step(drive, y, z, W, W_z, dt, gamma, epsilon, damping=damping)


_apply = find_apply(_Step)


def _has_sizes(weights: CellWeights) -> bool:
    """Return whether the weights have the sizes of a cell; with others the library would read beyond their end."""
    V, b, R, scale_V, scale_b, scale_R, dt, gamma, epsilon = weights
    hidden, features = V.shape
    # Numbers of elements, since a shape takes several times as long, in each step of a loop.
    return (
        R.shape == (hidden, 2 * hidden)
        and (b is None or b.numel() == hidden)
        and (scale_V is None or scale_V.numel() == hidden * features)
        and (scale_b is None or scale_b.numel() == hidden)
        and (scale_R is None or scale_R.numel() == 2 * hidden * hidden)
        and (dt.numel() == hidden or not dt.dim())
        and (gamma.numel() == hidden or not gamma.dim())
        and (epsilon.numel() == hidden or not epsilon.dim())
    )


def step(
    weights: CellWeights, damping: str, input: Tensor, y: Tensor | None, z: Tensor | None
) -> tuple[Tensor, Tensor] | None:
    """Compute the next y and z; return None if `functional.step` should compute them.

    Args:
        weights: The tensors of the cell.
        damping: "explicit" or "implicit".
        input: Shape `(batch, features)` or `(features)`.
        y: Shape `(batch, hidden)` or `(hidden)`; zeros if None.
        z: Like y.
    """
    V = weights.V
    hidden, features = V.shape
    dtype, tensors = V.dtype, (input, y, z, *weights)
    products = input.numel() * hidden * (2 * hidden + features)
    # First whether the tensors are plain: a compiler cannot trace how the library is loaded.
    if not V.is_cpu or products > MOST_PRODUCTS * features or not is_eager(tensors) or not _has_sizes(weights):
        return None
    passes = _passes(dtype)
    if passes is None:
        return None
    for x in tensors:
        if x is not None and not (x.dtype is dtype and x.is_cpu and x.is_contiguous()):
            return None
    if wants_gradient(tensors):
        if wants_gradient(weights[3:]):
            return None  # `_Step` has no gradients of scales and constants
        return _apply(weights, damping, input, y, z, *weights[:3])
    next_y = input.new_empty((*input.shape[:-1], hidden))
    next_z = torch.empty_like(next_y)
    passes[0](_call(weights, damping, input, y, z, next_y, next_z))
    return next_y, next_z
