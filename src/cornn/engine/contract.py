"""The interface of a backend: its arguments and its results.

Everything is time-major. One model has the shapes below; a group of models, each with its own weights and its own
batch, has one more dimension `group` in front of `batch` (and in front of the weights' and parameters' last ones).
`drives` is the hidden size times the update's number of drives, `products` times that of its products: both are the
hidden size itself for all but two updates.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from cornn.engine.updates import Update

__all__ = [
    "PRECISIONS",
    "Backend",
    "BackwardInputs",
    "ForwardResult",
    "Gradients",
    "Needs",
    "Operands",
    "Problem",
    "Request",
    "Scales",
    "active",
    "check",
    "check_scales",
    "check_tensor",
    "constant_when_traced",
    "effective_timespans",
    "initial_state",
    "split_state",
    "wants_gradient",
]

INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)

PRECISIONS = ("exact", "tf32", "bf16")
"""Precisions of the products of the steps; "exact" is the type of the input."""


Answer = TypeVar("Answer")


class Problem(NamedTuple):
    """The properties of a call that decide which backends can run it.

    Attributes:
        update: One of `UPDATES.values()`.
        device: Device of the tensors.
        dtype: Type of the tensors.
        groups: Number of models that run side by side; 1 outside of vmap.
        steps: Length of the sequences.
        batch: Number of sequences per model.
        hidden: Number of neurons.
        timespans: Whether timespans are given.
        precision: One of `PRECISIONS`.
    """

    update: Update
    device: torch.device
    dtype: torch.dtype
    groups: int
    steps: int
    batch: int
    hidden: int
    timespans: bool
    precision: str = "exact"


class Request(NamedTuple):
    """The options of a call of a backend, in addition to the tensors.

    Attributes:
        update: One of `UPDATES.values()`.
        every: Whether the output of every step is requested.
        keep: Whether a backward pass may follow.
        precision: One of `PRECISIONS`.
    """

    update: Update
    every: bool = True
    keep: bool = False
    precision: str = "exact"


class Operands(NamedTuple):
    """The tensors of a recurrence."""

    input: Tensor  # (time, batch, features); without input_weight it is the drive, (time, batch, drives)
    state: Tensor | None  # (states, batch, hidden), before the first step; zeros if None. coRNN: y and z
    input_weight: Tensor | None  # V (drives, features)
    bias: Tensor | None  # b (drives)
    weight: Tensor  # R (products, states * hidden). coRNN: W and W_z side by side
    parameters: Tensor  # (parameters, hidden). coRNN: dt, gamma, epsilon
    timespans: Tensor | None  # (time, batch), a factor on dt
    lengths: Tensor | None  # (batch) integers, steps of each sequence; past its end a state stays as it is


class Scales(NamedTuple):
    """Factors on weights, each of the shape of its weight. Backends compute no gradients of them."""

    input_weight: Tensor
    bias: Tensor
    weight: Tensor


class ForwardResult(NamedTuple):
    """The result of a forward pass."""

    output: Tensor  # (time, batch, hidden), y of every step; empty without `keep` and `every`
    last: Tensor  # (states, batch, hidden), the state after each sequence's last step
    trail: Tensor | None  # (update.trail, time, batch, drives), what else the backward pass needs; None without `keep`


class BackwardInputs(NamedTuple):
    """The inputs of a backward pass: gradients of the results, either of which may be None, and what was kept."""

    grad_output: Tensor | None
    grad_last: Tensor | None
    output: Tensor
    trail: Tensor


class Gradients(NamedTuple):
    """Gradients of all tensors of `Operands` except the lengths; None if not requested."""

    input: Tensor | None
    state: Tensor | None
    input_weight: Tensor | None
    bias: Tensor | None
    weight: Tensor | None
    parameters: Tensor | None
    timespans: Tensor | None


class Needs(NamedTuple):
    """Whether each of `Gradients` is requested."""

    input: bool
    state: bool
    input_weight: bool
    bias: bool
    weight: bool
    parameters: bool
    timespans: bool


class Backend(Protocol):
    """An implementation of the recurrence: a module with these functions.

    `gemms` has the products over all steps for backends that do not compute them.
    """

    def usable(self, problem: Problem) -> tuple[bool, str]:
        """Return whether it can run a problem, and why. The answer may not change while a program runs."""
        ...

    def forward(self, operands: Operands, request: Request, scales: Scales | None = None) -> ForwardResult:
        """Run all steps, with the weights multiplied by their scales."""
        ...

    def backward(
        self,
        operands: Operands,
        backward_inputs: BackwardInputs,
        request: Request,
        needs: Needs,
        scales: Scales | None = None,
    ) -> Gradients:
        """Compute the gradients that are needed, from what `forward` kept.

        With scales, the gradients are those of the weights before they are multiplied by them.
        """
        ...


def active(lengths: Tensor, like: Tensor) -> Tensor:
    """Return 1 for the steps of a sequence and 0 past its end, (time, batch), with device and type of `like`."""
    clock = torch.arange(like.shape[0], device=like.device).reshape(-1, *[1] * lengths.dim())
    return (clock < lengths.to(like.device)).to(like.dtype)


def effective_timespans(operands: Operands) -> Tensor | None:
    """Return the factor on dt of every step and sequence, (time, batch); 0 past the end, which keeps the state."""
    if operands.lengths is None:
        return operands.timespans
    return active(operands.lengths, operands.input) * (1 if operands.timespans is None else operands.timespans)


def initial_state(update: Update, operands: Operands) -> Tensor:
    """Return the initial state; zeros if it is None."""
    if operands.state is not None:
        return operands.state
    batch, hidden = operands.input.shape[1:-1], operands.weight.shape[-2] // update.products
    return operands.input.new_zeros(update.states, *batch, hidden)


def wants_gradient(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether autograd records an operation on these tensors."""
    if torch.is_grad_enabled():
        for x in tensors:  # a loop, since this runs at every call
            if x is not None and x.requires_grad:
                return True
    return False


def check(update: Update, operands: Operands) -> None:
    """Raise an error for wrong shapes, devices and types, with which kernels would read beyond a tensor's end."""
    input, state, input_weight, bias, weight, parameters, timespans, lengths = operands
    shape, group, hidden = input.shape, weight.shape[:-2], weight.shape[-2] // update.products
    batch, features, drives = shape[1:-1], shape[-1], update.drives * hidden
    if len(shape) != len(group) + 3:
        layout = "(time, group, batch, features)" if group else "(time, batch, features)"
        remedy = "add dimensions with unsqueeze" if len(shape) < len(group) + 3 else "join dimensions with flatten"
        raise ValueError(
            f"input has shape {tuple(shape)}, expected {layout} for a weight of shape {tuple(weight.shape)}: {remedy}"
        )
    if not features or not hidden:  # empty arrays have no address, and kernels would take them for absent ones
        raise ValueError(f"input has {features} features for {hidden} neurons: pass at least one of each")
    if input_weight is None and features != drives:
        raise ValueError(f"the drive has {features} values per step, expected one for each of {drives} neurons")
    check_tensor("weight", weight, (*group, update.products * hidden, update.states * hidden), input)
    check_tensor("parameters", parameters, (len(update.parameters), *group, hidden), input)
    if state is not None:
        check_tensor("state", state, (update.states, *batch, hidden), input)
    if input_weight is not None:
        check_tensor("input_weight", input_weight, (*group, drives, features), input)
    if bias is not None:
        check_tensor("bias", bias, (*group, drives), input)
    if timespans is not None:
        check_tensor("timespans", timespans, (shape[0], *batch), input)
    if lengths is not None:
        check_tensor("lengths", lengths, tuple(batch), lengths)
        if lengths.dtype not in INTEGERS:
            raise ValueError(f"lengths are {lengths.dtype}, expected integers: convert them with .long()")


def check_scales(operands: Operands, scales: Scales) -> None:
    """Raise ValueError unless each scale has shape, device and type of its weight: kernels multiply while they read."""
    input, _, input_weight, bias, weight, *_ = operands
    device, dtype = input.device, input.dtype
    for tensor, scale in ((input_weight, scales[0]), (bias, scales[1]), (weight, scales[2])):
        if tensor is not None and (scale.shape != tensor.shape or scale.dtype is not dtype or scale.device != device):
            _reject_scale(operands, scales)


def _reject_scale(operands: Operands, scales: Scales) -> None:
    for name, weight, scale in zip(Scales._fields, operands[2:5], scales, strict=True):
        if weight is None:
            continue
        if scale.shape != weight.shape:
            raise ValueError(
                f"the scale of {name} has shape {tuple(scale.shape)}, expected {tuple(weight.shape)}: use expand_as"
            )
        check_tensor(f"the scale of {name}", scale, tuple(weight.shape), operands.input)


def check_tensor(name: str, tensor: Tensor, shape: tuple[int, ...], input: Tensor) -> None:
    """Raise ValueError if a tensor does not have this shape, or not the device and the type of the input."""
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")
    if tensor.device != input.device:
        raise ValueError(f"{name} is on {tensor.device}, the input on {input.device}: move one with .to(...)")
    if tensor.dtype is not input.dtype:
        raise ValueError(f"{name} is {tensor.dtype}, the input {input.dtype}: convert one with .to(...)")


def split_state(state: Tensor) -> tuple[Tensor, ...]:
    """Return the parts of a state (states, batch, hidden): each (1, batch, hidden), and not a view."""
    return tuple(part.clone() for part in state.split(1))


def constant_when_traced(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """For torch.compile: an answer about this machine is a constant, not something to trace.

    As `torch.compiler.assume_constant_result`, which would load all of the compiler, and that takes a second.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function
