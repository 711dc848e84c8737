"""The reference equations: one step and a whole sequence of coRNN (the paper's eq. 3) and of networks with one state.

These functions are plain PyTorch and differentiable any number of times. Every backend must agree with them.

    z_n = z_{n-1} + dt * (sigma(W y_{n-1} + W_z z_{n-1} + V u_n + b) - gamma * y_{n-1} - epsilon * z_nbar)
    y_n = y_{n-1} + dt * z_n

with nbar = n - 1 (explicit damping) or nbar = n (implicit damping). `drive` stands for V u_n + b.

The paper's rivals have one state h, and a function phi of h and the pre-activations (`POINTWISE`):

    h_n = phi(R h_{n-1} + drive_n, h_{n-1})
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

__all__ = [
    "ACTIVATIONS",
    "DAMPINGS",
    "POINTWISE",
    "Transition",
    "duffing",
    "step",
    "step_by",
    "step_one",
    "transition",
    "unroll",
    "unroll_one",
]

Constant = float | Tensor
"""dt, gamma or epsilon: one number for all neurons, or a tensor that broadcasts against (batch, hidden)."""

DAMPINGS = ("explicit", "implicit")


def duffing(x: Tensor) -> Tensor:
    """Return x - x**3 / 3, the first two terms of tanh: each neuron is then a Duffing oscillator (appendix C)."""
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
    """Compute one step of the recurrence.

    Args:
        drive: V u + b of this step, shape `(*batch, hidden)`.
        y: Positions, shape `(*batch, hidden)`.
        z: Velocities, shape `(*batch, hidden)`.
        W: Weights of y, shape `(hidden, hidden)`; leading dimensions broadcast.
        W_z: Weights of z, shape `(hidden, hidden)`; leading dimensions broadcast.
        dt: Time step: a number, or a tensor that broadcasts against `(*batch, hidden)`.
        gamma: Stiffness, like dt.
        epsilon: Damping, like dt.
        damping: "explicit" or "implicit".
        activation: One of `ACTIVATIONS`.

    Returns:
        The next `(y, z)`.
    """
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
    force = ACTIVATIONS[activation](drive + y @ W.mT + z @ W_z.mT) - gamma * y
    if damping == "explicit":
        z = z + dt * (force - epsilon * z)
    elif damping == "implicit":
        z = (z + dt * force) / (1 + dt * epsilon)
    else:
        raise ValueError(f"unknown damping {damping!r}: choose one of {', '.join(DAMPINGS)}")
    y = y + dt * z
    return y, z


class Transition(NamedTuple):
    """Coefficients of y_n = yy y + yz z + yf f and z_n = zy y + zz z + zf f; they broadcast against (batch, hidden)."""

    yy: Tensor
    yz: Tensor
    yf: Tensor
    zy: Tensor
    zz: Tensor
    zf: Tensor


def transition(dt: Tensor, gamma: Tensor, epsilon: Tensor, span: Tensor, *, damping: str = "explicit") -> Transition:
    """Compute the step over a time of `span` steps, with the force held.

    One step is x -> M x + B f for x = (y, z). Its fixed point is x* = (f / gamma, 0), and a span of s steps gives
    x* + M^s (x - x*). M^s is the real part of the principal power. All powers of one matrix have the same eigenvectors,
    so any sequence of spans is stable if M is: a span of 0 leaves the state unchanged, 1 is `step`, and 2 is two steps
    with the force held.

    Args:
        dt: Time step, shape `()` or `(hidden)`.
        gamma: Stiffness, like dt; above 0.
        epsilon: Damping, like dt.
        span: Number of steps, not negative, shape `(*batch, 1)`.
        damping: "explicit" or "implicit".

    Returns:
        The coefficients, computed in float64 and returned in the type of `span`.
    """
    dtype = span.dtype
    dt, gamma, epsilon, span = dt.double(), gamma.double(), epsilon.double(), span.double()
    keep = 1 - dt * epsilon if damping == "explicit" else 1 / (1 + dt * epsilon)
    pull = dt * gamma if damping == "explicit" else dt * gamma * keep
    half = (1 + keep - dt * pull) / 2
    square = half**2 - keep
    rings = square < 0
    # Two equal eigenvalues are moved apart by 2e-6: the power of a matrix with one eigenvector has no such formula.
    root = square.abs().clamp(min=1e-12).sqrt()
    modulus = torch.where(rings, keep, 1.0).sqrt()
    angle = torch.atan2(root, half)
    grown = modulus**span
    slow, fast = (_power(torch.where(rings, 1.0, half + sign * root), span) for sign in (1, -1))
    # M^s = first M + zeroth, the interpolation of the power at both eigenvalues
    first = torch.where(rings, grown * torch.sin(span * angle), (slow - fast) / 2) / root
    value, at = torch.where(rings, grown * torch.cos(span * angle), slow), torch.where(rings, half, half + root)
    zeroth = value - first * at
    yy, yz = zeroth + first * (1 - dt * pull), first * dt * keep
    zy, zz = -first * pull, zeroth + first * keep
    coefficients = yy, yz, (1 - yy) / gamma, zy, zz, -zy / gamma
    return Transition(*(value.to(dtype) for value in coefficients))


def _power(base: Tensor, exponent: Tensor) -> Tensor:
    """Return the real part of the principal power of a real number; 0 to the power of 0 is 1."""
    size = base.abs() ** exponent
    return torch.where(base < 0, size * torch.cos(torch.pi * exponent), size)


def step_by(
    by: Transition,
    drive: Float[Tensor, "*batch hidden"],
    y: Float[Tensor, "*batch hidden"],
    z: Float[Tensor, "*batch hidden"],
    W: Float[Tensor, "*group hidden hidden"],
    W_z: Float[Tensor, "*group hidden hidden"],
    *,
    activation: str = "tanh",
) -> tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]]:
    """Compute one step with the coefficients of `transition`; the other arguments are those of `step`."""
    force = ACTIVATIONS[activation](drive + y @ W.mT + z @ W_z.mT)
    return by.yy * y + by.yz * z + by.yf * force, by.zy * y + by.zz * z + by.zf * force


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
    exact: bool = False,
    damping: str = "explicit",
    activation: str = "tanh",
) -> tuple[
    Float[Tensor, "time *batch hidden"],
    tuple[Float[Tensor, "*batch hidden"], Float[Tensor, "*batch hidden"]],
]:
    """Run the recurrence over a sequence.

    Args:
        drive: V u + b of every step, shape `(time, *batch, hidden)`.
        y: Initial positions, shape `(*batch, hidden)`.
        z: Initial velocities, shape `(*batch, hidden)`.
        W: Weights of y, as in `step`.
        W_z: Weights of z, as in `step`.
        dt: Time step, as in `step`.
        gamma: Stiffness, as in `step`.
        epsilon: Damping, as in `step`.
        timespans: Factors on dt, one per step, shape `(time)`, or one per step and sequence, shape `(time, *batch)`.
            A factor of 0 leaves the state unchanged.
        exact: Whether timespans are numbers of steps, taken by `transition`, instead of factors on dt.
        damping: "explicit" or "implicit".
        activation: One of `ACTIVATIONS`.

    Returns:
        y after every step, shape `(time, *batch, hidden)`, and the last `(y, z)`.

    Example:
        >>> W, W_z = 0.1 * torch.randn(2, 16, 16)
        >>> y, z = torch.zeros(2, 8, 16)
        >>> ys, (y, z) = unroll(torch.randn(100, 8, 16), y, z, W, W_z, dt=0.05, gamma=0.5, epsilon=4.0)
    """
    ys = []
    constants = torch.as_tensor(dt), torch.as_tensor(gamma), torch.as_tensor(epsilon)
    spans = [None] * len(drive) if timespans is None else timespans.unbind(0)
    # unbind, not indexing: the gradient of an indexing loop costs O(time^2).
    for drive_n, span in zip(drive.unbind(0), spans, strict=True):
        if exact and span is not None:
            by = transition(*constants, span.unsqueeze(-1), damping=damping)
            y, z = step_by(by, drive_n, y, z, W, W_z, activation=activation)
        else:
            dt_n = dt if span is None else dt * span.unsqueeze(-1)
            y, z = step(drive_n, y, z, W, W_z, dt_n, gamma, epsilon, damping=damping, activation=activation)
        ys.append(y)
    return torch.stack(ys), (y, z)


def _leaky(pre: Tensor, h: Tensor, leak: Tensor, gain: Tensor) -> Tensor:
    """A tanh RNN (leak 0, gain 1), FastRNN (both trained), or an antisymmetric RNN (leak 1, gain its step)."""
    return leak * h + gain * torch.tanh(pre)


def _fast_grnn(pre: Tensor, h: Tensor, bias_z: Tensor, bias_h: Tensor, zeta: Tensor, nu: Tensor) -> Tensor:
    z = torch.sigmoid(pre + bias_z)
    return z * h + (zeta * (1 - z) + nu) * torch.tanh(pre + bias_h)


def _gated(pre: Tensor, h: Tensor, epsilon: Tensor) -> Tensor:
    """`pre` contains the gate, then the candidate."""
    gate, candidate = pre.chunk(2, -1)
    return h + epsilon * torch.sigmoid(gate) * torch.tanh(candidate)


def _modrelu(pre: Tensor, h: Tensor, bias: Tensor) -> Tensor:
    return torch.sign(pre) * torch.relu(torch.abs(pre) + bias)


def _lipschitz(pre: Tensor, h: Tensor, epsilon: Tensor) -> Tensor:
    """`pre` contains A h, then W h + E u + b."""
    linear, inner = pre.chunk(2, -1)
    return h + epsilon * (linear + torch.tanh(inner))


POINTWISE: dict[str, Callable[..., Tensor]] = {
    "leaky": _leaky,
    "fastgrnn": _fast_grnn,
    "gated": _gated,
    "modrelu": _modrelu,
    "lipschitz": _lipschitz,
}
"""Name -> function (pre-activations, h, *parameters) -> next h."""


def step_one(
    drive: Float[Tensor, "*batch drives"],
    h: Float[Tensor, "*batch hidden"],
    R: Float[Tensor, "*group products hidden"],
    parameters: Sequence[Tensor],
    *,
    pointwise: str,
) -> Float[Tensor, "*batch hidden"]:
    """Compute one step of a network with one state.

    Args:
        drive: Input part of the pre-activations; a function with several pre-activations per neuron takes them
            concatenated, shape `(*batch, drives)`.
        h: State, shape `(*batch, hidden)`.
        R: Recurrent weights, with one block of rows per pre-activation, or a single block that all of them share.
        parameters: Parameters of `POINTWISE[pointwise]`, each broadcasting against `(*batch, hidden)`.
        pointwise: One of `POINTWISE`.

    Returns:
        The next h, shape `(*batch, hidden)`.
    """
    product = h @ R.mT
    copies = drive.shape[-1] // product.shape[-1]
    return POINTWISE[pointwise](drive + torch.cat((product,) * copies, -1), h, *parameters)


def unroll_one(
    drive: Float[Tensor, "time *batch drives"],
    h: Float[Tensor, "*batch hidden"],
    R: Float[Tensor, "*group products hidden"],
    parameters: Sequence[Tensor],
    *,
    pointwise: str,
    active: Tensor | None = None,
) -> tuple[Float[Tensor, "time *batch hidden"], Float[Tensor, "*batch hidden"]]:
    """Run a network with one state over a sequence.

    Args:
        drive: Input part of the pre-activations of every step, shape `(time, *batch, drives)`.
        h: Initial state, shape `(*batch, hidden)`.
        R: Recurrent weights, as in `step_one`.
        parameters: Parameters, as in `step_one`.
        pointwise: One of `POINTWISE`.
        active: Whether a sequence has not ended yet, booleans of shape `(time, *batch)`; after its end it keeps its h.

    Returns:
        h after every step, shape `(time, *batch, hidden)`, and the last h.
    """
    hs = []
    lives = [None] * len(drive) if active is None else active.unsqueeze(-1).unbind(0)
    for drive_n, lives_n in zip(drive.unbind(0), lives, strict=True):
        after = step_one(drive_n, h, R, parameters, pointwise=pointwise)
        h = after if lives_n is None else torch.where(lives_n, after, h)
        hs.append(h)
    return torch.stack(hs), h
