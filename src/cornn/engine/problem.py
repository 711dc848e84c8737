"""What a backend is asked, and what it answers.

A backend is a module with three functions

    usable(problem) -> (bool, reason)
    forward(trail, state, weight, parameters, timespans, lengths, *, update, every, keep) -> (output, last)
    backward(grad_output, grad_last, output, trail, state, weight, parameters, timespans, lengths, *, update,
             need_parameters, need_timespans) -> Gradients

and `products.py` makes the input map and the gradients of input and weights around them. A backend whose `forward` can
make the input map as it goes says for which sizes, by one function more; for these it is given no drive, but the map

    makes_drive(update, hidden, features) -> bool
    forward(..., input_map=InputMap(input, input_weight, bias))

A backend that makes all of it itself has in place of `forward` and `backward`

    whole_forward(input, state, input_weight, bias, weight, parameters, timespans, lengths, *, update, every, keep)
        -> (output, last, trail), the trail None without `keep`
    whole_backward(grad_output, grad_last, output, trail, input, state, input_weight, bias, weight, parameters,
                   timespans, lengths, *, update, needs)
        -> gradients for input, state, input_weight, bias, weight, parameters and timespans, or None, as `needs` says

Whether it can serve a problem does not change while a program runs: the answer is asked for once.

Everything is time-major. One model has the shapes below; a group of models, each with its own weights and its own
batch, has one more dimension `group` in front of `batch` (and in front of the weights' and parameters' last ones).

    trail       (blocks, time, batch, drives)  what the backward pass needs besides the output. On entry of `forward`
                                               its last block holds the drive V u + b, which is overwritten; with
                                               an `input_map` it holds nothing yet. Without `keep` there is that
                                               block only, and with an `input_map` no block at all
    state       (states, batch, hidden)        coRNN: y and z
    weight      (products, states * hidden)    R. coRNN: W and W_z side by side
    parameters  (parameters, hidden)           coRNN: dt, gamma, epsilon
    timespans   (time, batch) or None          a factor on dt
    lengths     (batch) integers or None       steps of each sequence; past its end a state stays as it is
    output      (time, batch, hidden)          y of every step; empty if neither `keep` nor `every`
    last        (states, batch, hidden)

    input       (time, batch, features)        with input_weight (drives, features) and bias (drives), either of them
                                               may be None; without input_weight the input is the drive

`drives` is the hidden size times the update's number of drives, `products` times that of its products: both are the
hidden size itself for all but two updates. What is one block of the trail with several drives is so for one state only.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from cornn.engine.updates import OneState, Oscillator

__all__ = ["PRECISIONS", "Gradients", "InputMap", "Problem", "about_this_machine", "active", "check", "live_spans"]

PRECISIONS = ("exact", "tf32", "bf16")
"""In what the products of the steps are made; "exact" is the type of the input."""


Answer = TypeVar("Answer")


class Problem(NamedTuple):
    """What decides whether a backend can serve."""

    update: str
    device: torch.device
    dtype: torch.dtype
    groups: int
    steps: int
    batch: int
    hidden: int
    timespans: bool
    precision: str = "exact"


class InputMap(NamedTuple):
    """A drive that is not made yet: V u + b."""

    input: Tensor
    weight: Tensor
    bias: Tensor | None


class Gradients(NamedTuple):
    """The last two are None unless they were asked for."""

    drive: Tensor
    state: Tensor
    parameters: Tensor | None
    timespans: Tensor | None


def active(lengths: Tensor, like: Tensor) -> Tensor:
    """1 for the steps of a sequence, 0 past its end: (time, batch), on the device and of the type of `like`."""
    clock = torch.arange(like.shape[0], device=like.device).reshape(-1, *[1] * lengths.dim())
    return (clock < lengths.to(like.device)).to(like.dtype)


def live_spans(timespans: Tensor | None, lengths: Tensor | None, like: Tensor) -> Tensor | None:
    """The factor on every step of every sequence, (time, batch): 0 past its end, which leaves a state as it is."""
    if lengths is None:
        return timespans
    return active(lengths, like) * (1 if timespans is None else timespans)


def check(
    rule: Oscillator | OneState,
    input: Tensor,
    state: Tensor,
    input_weight: Tensor | None,
    bias: Tensor | None,
    weight: Tensor,
    parameters: Tensor,
    timespans: Tensor | None,
    lengths: Tensor | None,
) -> None:
    """Raises unless shapes and devices are those above. Kernels get addresses, and would read whatever is there."""
    group, hidden = weight.shape[:-2], weight.shape[-2] // rule.products
    steps, *batch, features = input.shape
    drives = rule.drives * hidden
    if input_weight is None and features != drives:
        raise ValueError(f"the drive has {features} values a step, expected one for each of {drives} neurons")
    for name, tensor, shape in (
        ("state", state, (rule.states, *batch, hidden)),
        ("input_weight", input_weight, (*group, drives, features)),
        ("bias", bias, (*group, drives)),
        ("weight", weight, (*group, rule.products * hidden, rule.states * hidden)),
        ("parameters", parameters, (len(rule.parameters), *group, hidden)),
        ("timespans", timespans, (steps, *batch)),
        ("lengths", lengths, tuple(batch)),
    ):
        if tensor is None:
            continue
        if tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")
        if tensor.device != input.device and name != "lengths":
            raise ValueError(f"{name} is on {tensor.device}, the input on {input.device}: move one with .to(...)")


def about_this_machine(function: Callable[..., Answer]) -> Callable[..., Answer]:
    """For torch.compile: an answer about this machine is a constant, not something to trace.

    As `torch.compiler.assume_constant_result`, which would load all of the compiler, and that takes a second.
    """
    function._dynamo_marked_constant = True  # pyright: ignore[reportFunctionMemberAccess]
    return function
