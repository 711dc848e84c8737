"""The interface of a backend.

A backend is a module with three functions

    usable(problem) -> (bool, reason)
    forward(given, trail, *, update, every, keep) -> (output, last)
    backward(given, after, *, update, need_parameters, need_timespans) -> Gradients

and `gemms.py` computes the input map and the gradients of input and weights around them: the input is then the drive,
which `forward` finds in the last block of the trail and overwrites. A backend whose `forward` can make the drive
as it goes says for which sizes, by one function more; for these it has the input map still, and a trail without values

    makes_drive(update, hidden, features) -> bool

A backend that makes all of it itself has in place of `forward` and `backward`

    whole_forward(given, *, update, every, keep) -> (output, last, trail), the trail None without `keep`
    whole_backward(given, after, *, update, needs) -> gradients for all of `Given` but the lengths, or None, as `needs`
                                                      says of each

Whether it can serve a problem does not change while a program runs: the answer is asked for once.

Everything is time-major. One model has the shapes below; a group of models, each with its own weights and its own
batch, has one more dimension `group` in front of `batch` (and in front of the weights' and parameters' last ones).
`drives` is the hidden size times the update's number of drives, `products` times that of its products: both are the
hidden size itself for all but two updates. What is one block of the trail with several drives is so for one state only.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from cornn.engine.updates import OneState, Oscillator

__all__ = [
    "PRECISIONS",
    "After",
    "Given",
    "Gradients",
    "Problem",
    "about_this_machine",
    "active",
    "check",
    "live_spans",
]

PRECISIONS = ("exact", "tf32", "bf16")
"""Precisions of the products of the steps; "exact" is the type of the input."""


Answer = TypeVar("Answer")


class Problem(NamedTuple):
    """The properties of a call that decide which backends can run it.

    Attributes:
        update: One of `UPDATES`.
        device: Device of the tensors.
        dtype: Type of the tensors.
        groups: Number of models that run side by side; 1 outside of vmap.
        steps: Length of the sequences.
        batch: Number of sequences per model.
        hidden: Number of neurons.
        timespans: Whether timespans are given.
        precision: One of `PRECISIONS`.
    """

    update: str
    device: torch.device
    dtype: torch.dtype
    groups: int
    steps: int
    batch: int
    hidden: int
    timespans: bool
    precision: str = "exact"


class Given(NamedTuple):
    """The tensors of a recurrence."""

    input: Tensor  # (time, batch, features); without input_weight it is the drive, (time, batch, drives)
    state: Tensor  # (states, batch, hidden), before the first step. coRNN: y and z
    input_weight: Tensor | None  # V (drives, features)
    bias: Tensor | None  # b (drives)
    weight: Tensor  # R (products, states * hidden). coRNN: W and W_z side by side
    parameters: Tensor  # (parameters, hidden). coRNN: dt, gamma, epsilon
    timespans: Tensor | None  # (time, batch), a factor on dt
    lengths: Tensor | None  # (batch) integers, steps of each sequence; past its end a state stays as it is


class After(NamedTuple):
    """What there is after a forward pass: gradients of its results, either may be None, and what it left with `keep`.

    The other result is last, (states, batch, hidden): the state after each sequence's last step.
    """

    grad_output: Tensor | None
    grad_last: Tensor | None
    output: Tensor  # (time, batch, hidden), y of every step; empty if neither `keep` nor `every`
    trail: Tensor  # (blocks, time, batch, drives), what else backward needs; without `keep` the drive's block or none


class Gradients(NamedTuple):
    """Each of the shape of what it is the gradient of. The last two are None unless they were asked for."""

    drive: Tensor
    state: Tensor
    parameters: Tensor | None
    timespans: Tensor | None


def active(lengths: Tensor, like: Tensor) -> Tensor:
    """1 for the steps of a sequence, 0 past its end: (time, batch), on the device and of the type of `like`."""
    clock = torch.arange(like.shape[0], device=like.device).reshape(-1, *[1] * lengths.dim())
    return (clock < lengths.to(like.device)).to(like.dtype)


def live_spans(given: Given) -> Tensor | None:
    """The factor on every step of every sequence, (time, batch): 0 past its end, which leaves a state as it is."""
    if given.lengths is None:
        return given.timespans
    return active(given.lengths, given.input) * (1 if given.timespans is None else given.timespans)


def check(rule: Oscillator | OneState, given: Given) -> None:
    """Raise ValueError for wrong shapes and devices. Kernels get addresses only, and would read beyond the end."""
    input, state, input_weight, bias, weight, parameters, timespans, lengths = given
    group, hidden = weight.shape[:-2], weight.shape[-2] // rule.products
    steps, *batch, features = input.shape
    drives = rule.drives * hidden
    if input_weight is None and features != drives:
        raise ValueError(f"the drive has {features} values per step, expected one for each of {drives} neurons")
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
