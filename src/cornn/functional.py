"""The equations of coRNN: one step, and the unrolled sequence (the paper's eq. 3).

This is the reference. It is plain, differentiable any number of times, and everything faster must agree with it.

    z_n = z_{n-1} + dt * (sigma(W y_{n-1} + W_z z_{n-1} + V u_n + b) - gamma * y_{n-1} - epsilon * z_nbar)
    y_n = y_{n-1} + dt * z_n

with nbar = n - 1 (explicit damping) or nbar = n (implicit damping). `drive` stands for V u_n + b.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = ["ACTIVATIONS", "DAMPINGS", "duffing", "step", "unroll"]

Constant = float | Tensor
"""dt, gamma or epsilon: one number for all neurons, or a tensor that broadcasts against (batch, hidden)."""

DAMPINGS = ("explicit", "implicit")


def duffing(x: Tensor) -> Tensor:
    """tanh cut off after its first nonlinear term: it makes a Duffing oscillator of each neuron (appendix C)."""
    return x - x**3 / 3


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "identity": lambda x: x,
    "relu": torch.relu,
    "duffing": duffing,
}


def step(
    drive: Float[Tensor, "*batch hidden"],
    y: Float[Tensor, "*batch hidden"],
    z: Float[Tensor, "*batch hidden"],
    W: Float[Tensor, "*group hidden hidden"],
    W_z: Float[Tensor, "*group hidden hidden"],
    dt: Constant,
    gamma: Constant,
    epsilon: Constant,
    *,
    damping: str = "explicit",
    activation: str = "tanh",
) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]]:
    """One step of the recurrence: the next (y, z)."""
    force = ACTIVATIONS[activation](drive + y @ W.mT + z @ W_z.mT) - gamma * y
    if damping == "explicit":
        z = z + dt * (force - epsilon * z)
    elif damping == "implicit":
        z = (z + dt * force) / (1 + dt * epsilon)
    else:
        raise ValueError(f"unknown damping {damping!r}: choose one of {', '.join(DAMPINGS)}")
    y = y + dt * z
    return y, z


def unroll(
    drive: Float[Tensor, "time *batch hidden"],
    y: Float[Tensor, "*batch hidden"],
    z: Float[Tensor, "*batch hidden"],
    W: Float[Tensor, "*group hidden hidden"],
    W_z: Float[Tensor, "*group hidden hidden"],
    dt: Constant,
    gamma: Constant,
    epsilon: Constant,
    *,
    timespans: Float[Tensor, "time *sequences"] | None = None,
    damping: str = "explicit",
    activation: str = "tanh",
) -> tuple[
    Float[Tensor, "time *batch hidden"],
    tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]],
]:
    """The sequence of y, and the last (y, z).

    `timespans` holds one factor on dt for each step, or for each step and sequence: the state after a span is that of
    the step with dt * span, so a span of 0 leaves the state as it is.
    """
    ys = []
    spans = [None] * len(drive) if timespans is None else timespans.unbind(0)
    # unbind, not indexing: the gradient of an indexing loop costs O(time^2).
    for drive_n, span in zip(drive.unbind(0), spans, strict=True):
        dt_n = dt if span is None else dt * span.unsqueeze(-1)
        y, z = step(drive_n, y, z, W, W_z, dt_n, gamma, epsilon, damping=damping, activation=activation)
        ys.append(y)
    return torch.stack(ys), (y, z)
