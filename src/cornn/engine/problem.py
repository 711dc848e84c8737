"""What a backend is asked, and what it answers.

A backend is a module with three functions

    usable(problem) -> (bool, reason)
    forward(trail, state, weight, parameters, timespans, lengths, *, update, every, keep) -> (output, last)
    backward(grad_output, grad_last, output, trail, state, weight, parameters, timespans, lengths, *, update,
             need_parameters, need_timespans) -> Gradients

and, where it beats PyTorch's own product, a fourth:

    weight_gradient(drive, output, trail, state, weight, *, update) -> gradient of R, from `Gradients.drive`

Everything is time-major. One model has the shapes below; a group of models, each with its own weights and its own
batch, has one more dimension `group` in front of `batch` (and in front of the weights' and parameters' last ones).

    trail       (blocks, time, batch, hidden)  what the backward pass needs besides the output. On entry of `forward`
                                               its last block holds the drive V u + b, which is overwritten. Without
                                               `keep` it has that block only
    state       (states, batch, hidden)        coRNN: y and z
    weight      (hidden, states * hidden)      R. coRNN: W and W_z side by side
    parameters  (parameters, hidden)           coRNN: dt, gamma, epsilon
    timespans   (time, batch) or None          a factor on dt
    lengths     (batch) integers or None       steps of each sequence; past its end a state stays as it is
    output      (time, batch, hidden)          y of every step; empty if neither `keep` nor `every`
    last        (states, batch, hidden)

The gradients of the input map and of R are products over all steps that the operator makes from `Gradients.drive`.
"""

from typing import NamedTuple

import torch
from torch import Tensor

__all__ = ["Gradients", "Problem", "active"]


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
