"""The reference equations: one step and a whole sequence of coRNN (the paper's eq. 3).

These functions are plain PyTorch and differentiable any number of times. Every backend must agree with them.

    z_n = z_{n-1} + dt * (sigma(W y_{n-1} + W_z z_{n-1} + V u_n + b) - gamma * y_{n-1} - epsilon * z_nbar)
    y_n = y_{n-1} + dt * z_n

with nbar = n - 1 (explicit damping) or nbar = n (implicit damping). `drive` stands for V u_n + b. Solved for z_n, both
are linear in four `coefficients`:

    z = keep * z + push * sigma(...) - pull * y
    y = y + dt * z
"""

from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from cornn._activations import ACTIVATIONS, Activation, duffing
from cornn._arguments import check_known

__all__ = [
    "ACTIVATIONS",
    "DAMPINGS",
    "Activation",
    "Coefficients",
    "Spectrum",
    "Transition",
    "advance",
    "coefficients",
    "compose",
    "decay",
    "duffing",
    "spectrum",
    "step",
    "step_by",
    "transition",
    "unroll",
    "unroll_by",
]

Constant = float | Tensor
"""dt, gamma or epsilon: one number for all neurons, or a tensor that broadcasts against (batch, hidden)."""

Vectors = Float[Tensor, "*batch hidden"]
Weights = Float[Tensor, "*group hidden hidden"]
Sequence = Float[Tensor, "time *batch hidden"]

DAMPINGS = ("explicit", "implicit")


class Coefficients(NamedTuple):
    """The coefficients of one step, `z = keep * z + push * sigma - pull * y` and then `y = y + dt * z`.

    Numbers, tensors or arrays, as `coefficients` was given.

    Attributes:
        keep: Share of z that a step keeps: `1 - dt * epsilon`, or with implicit damping `1 / (1 + dt * epsilon)`.
        push: Factor of the activation: dt, times `keep` with implicit damping.
        pull: Factor of y: `gamma * push`.
        dt: The time step, multiplied by the step's timespan.
    """

    keep: Any
    push: Any
    pull: Any
    dt: Any


def coefficients(dt: Any, gamma: Any, epsilon: Any, span: Any = None, damping: str = "explicit") -> Coefficients:
    """Return the coefficients of one step.

    Args:
        dt: Time step: a number, a tensor or an array; the arguments broadcast.
        gamma: Stiffness, like dt.
        epsilon: Damping, like dt.
        span: Factor on dt; 1 if None.
        damping: "explicit" or "implicit".

    Returns:
        `keep`, `push`, `pull` and `dt`, of the type of the arguments.

    Examples:
        >>> coefficients(0.5, 1.0, 1.0)
        Coefficients(keep=0.5, push=0.5, pull=0.5, dt=0.5)
    """
    h = dt if span is None else dt * span
    if damping == "explicit":
        return Coefficients(1 - h * epsilon, h, h * gamma, h)
    check_known("damping", damping, DAMPINGS)
    keep = 1 / (1 + h * epsilon)
    return Coefficients(keep, h * keep, h * gamma * keep, h)


def advance(
    force: Any, y: Any, z: Any, dt: Any, gamma: Any, epsilon: Any, *, damping: str = "explicit"
) -> tuple[Any, Any]:
    """Advance the oscillators by one step under a given force; return the next `(y, z)`.

    Args:
        force: The activation's value, shape `(*batch, hidden)`: a tensor or an array.
        y: Positions, shape `(*batch, hidden)`.
        z: Velocities, shape `(*batch, hidden)`.
        dt: Time step; broadcasts against y.
        gamma: Stiffness, like dt.
        epsilon: Damping, like dt.
        damping: "explicit" or "implicit".
    """
    change = force - gamma * y
    if damping == "explicit":
        z = z + dt * (change - epsilon * z)
    else:
        check_known("damping", damping, DAMPINGS)
        z = (z + dt * change) / (1 + dt * epsilon)
    return y + dt * z, z


def step(
    drive: Vectors,
    y: Vectors,
    z: Vectors,
    W: Weights,
    W_z: Weights,
    dt: Constant,
    gamma: Constant,
    epsilon: Constant,
    *,
    damping: str = "explicit",
    activation: str = "tanh",
) -> tuple[Vectors, Vectors]:
    """Compute one step of the recurrence; return the next `(y, z)`.

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
    """
    force = _compute_force(drive, y, z, W, W_z, activation)
    return advance(force, y, z, dt, gamma, epsilon, damping=damping)


def _compute_force(drive: Tensor, y: Tensor, z: Tensor, W: Tensor, W_z: Tensor, activation: str) -> Tensor:
    check_known("activation", activation, ACTIVATIONS)
    return ACTIVATIONS[activation].value(drive + y @ W.mT + z @ W_z.mT)


class Transition(NamedTuple):
    """Coefficients of y_n = yy y + yz z + yf f and z_n = zy y + zz z + zf f; they broadcast against (batch, hidden)."""

    yy: Tensor
    yz: Tensor
    yf: Tensor
    zy: Tensor
    zz: Tensor
    zf: Tensor


class Spectrum(NamedTuple):
    """The powers of one step x -> M x + B f, for x = (y, z): M^s = (1 - a) I + b N, with a and b of `decay`.

    One value per neuron. With complex eigenvalues exp(log_slow +- i pi turn), N = (M - Re) / Im; with real ones N
    projects on the faster one's eigenvector.

    Attributes:
        rings: 1 for complex eigenvalues, 0 for real ones.
        log_slow: Logarithm of the modulus, or of the size of the slower eigenvalue.
        log_fast: Logarithm of the size of the faster eigenvalue.
        turn: Angle of the eigenvalue over pi; for real ones 0, or 1 if the slower one is negative.
        fast_turn: 1 if the faster eigenvalue is negative, otherwise 0.
        yy: N, row of y, column of y; likewise `yz`, `zy` and `zz`.
        compliance: y for a constant force of 1: 1 / gamma.
    """

    rings: Tensor
    log_slow: Tensor
    log_fast: Tensor
    turn: Tensor
    fast_turn: Tensor
    yy: Tensor
    yz: Tensor
    zy: Tensor
    zz: Tensor
    compliance: Tensor


ROUNDING = 5e-7
"""Size below which `keep`, the product of the eigenvalues, is 0: four roundings of constants in float32."""
SMALLEST_EIGENVALUE = 1e-300
"""Size below which an eigenvalue is not distinguished from 0, so that its logarithm is finite."""


def spectrum(dt: Tensor, gamma: Tensor, epsilon: Tensor, *, damping: str = "explicit") -> Spectrum:
    """Decompose one step of uncoupled neurons, in float64; each entry has the shape of the constants.

    Args:
        dt: Time step, shape `()` or `(hidden)`.
        gamma: Stiffness, like dt; above 0.
        epsilon: Damping, like dt.
        damping: "explicit" or "implicit".
    """
    dt, gamma, epsilon = torch.broadcast_tensors(dt.double(), gamma.double(), epsilon.double())
    keep, _, pull, _ = coefficients(dt, gamma, epsilon, damping=damping)
    # An eigenvalue of 1e-8 instead of 0 would matter for spans below 1, and its gradient is noise; that of keep stays.
    keep = torch.where(keep.abs() < ROUNDING, keep - keep.detach(), keep)
    half = (1 + keep - dt * pull) / 2
    square = half**2 - keep
    rings = square < 0
    # Two equal eigenvalues are moved apart by 2e-6: the power of a matrix with one eigenvector has no such formula.
    root = square.abs().clamp(min=1e-12).sqrt()
    slow, fast = torch.where(rings, 1.0, half + root), torch.where(rings, 1.0, half - root)
    modulus = torch.where(rings, keep, 1.0).sqrt()
    log_slow = torch.where(rings, modulus.log(), slow.abs().clamp(min=SMALLEST_EIGENVALUE).log())
    turn = torch.where(rings, torch.atan2(root, half) / torch.pi, (slow < 0).double())
    # N = (M - shift) / width
    shift, width = torch.where(rings, half, half + root), torch.where(rings, root, -2 * root)
    return Spectrum(
        rings.double(),
        log_slow,
        fast.abs().clamp(min=SMALLEST_EIGENVALUE).log(),
        turn,
        (fast < 0).double(),
        (1 - dt * pull - shift) / width,
        dt * keep / width,
        -pull / width,
        (keep - shift) / width,
        1 / gamma,
    )


def decay(of: Spectrum, span: Tensor) -> tuple[Tensor, Tensor]:
    """Return a and b of a power, M^s = (1 - a) I + b N, without cancellation near s = 0 and for neurons that forget.

    Args:
        of: The spectrum; broadcasts against `span`.
        span: Number of steps s, not negative, shape `(*batch, 1)`.

    Returns:
        a and b, each of shape `(*batch, hidden)`.
    """
    loss, left = -torch.expm1(span * of.log_slow), torch.exp(span * of.log_slow)
    angle = torch.pi * span * of.turn
    versine = 2 * torch.sin(angle / 2) ** 2
    a = loss + left * versine
    # Nearly equal eigenvalues: the difference of their powers without cancellation.
    gap = span * (of.log_slow - of.log_fast)
    near = (gap < 1) & (of.turn == of.fast_turn)
    rest = torch.exp(span * of.log_fast)
    difference = torch.where(
        near,
        -rest * torch.expm1(torch.where(near, gap, 0.0)) * (1 - versine),
        rest * torch.cos(torch.pi * span * of.fast_turn) - left * (1 - versine),
    )
    return a, torch.where(of.rings > 0, left * torch.sin(angle), difference)


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
    parts = compose(spectrum(dt, gamma, epsilon, damping=damping), span.double())
    return Transition(*(part.to(span.dtype) for part in parts))


def compose(of: Spectrum, span: Tensor) -> Transition:
    """Compute the coefficients of `transition` from a spectrum, in the type of its arguments.

    Args:
        of: The spectrum; broadcasts against `span`.
        span: Number of steps, not negative, shape `(*batch, 1)`.
    """
    a, b = decay(of, span)
    loss = a - b * of.yy
    return Transition(
        1 - loss, b * of.yz, loss * of.compliance, b * of.zy, 1 - a + b * of.zz, -b * of.zy * of.compliance
    )


def step_by(
    by: Transition, drive: Vectors, y: Vectors, z: Vectors, W: Weights, W_z: Weights, *, activation: str = "tanh"
) -> tuple[Vectors, Vectors]:
    """Compute one step with the coefficients of `transition`; return the next `(y, z)`.

    Args:
        by: The coefficients; they broadcast against `(*batch, hidden)`.
        drive: V u + b of this step, shape `(*batch, hidden)`.
        y: Positions, shape `(*batch, hidden)`.
        z: Velocities, shape `(*batch, hidden)`.
        W: Weights of y, as in `step`.
        W_z: Weights of z, as in `step`.
        activation: One of `ACTIVATIONS`.
    """
    force = _compute_force(drive, y, z, W, W_z, activation)
    return by.yy * y + by.yz * z + by.yf * force, by.zy * y + by.zz * z + by.zf * force


def unroll(
    drive: Sequence,
    y: Vectors,
    z: Vectors,
    W: Weights,
    W_z: Weights,
    dt: Constant,
    gamma: Constant,
    epsilon: Constant,
    *,
    timespans: Float[Tensor, "time *sequences"] | None = None,
    damping: str = "explicit",
    activation: str = "tanh",
) -> tuple[Sequence, tuple[Vectors, Vectors]]:
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
            A factor of 0 leaves the state unchanged. For durations, see `transition` and `unroll_by`.
        damping: "explicit" or "implicit".
        activation: One of `ACTIVATIONS`.

    Returns:
        y after every step, shape `(time, *batch, hidden)`, and the last `(y, z)`.

    Examples:
        >>> W, W_z = 0.1 * torch.randn(2, 16, 16)
        >>> y, z = torch.zeros(2, 8, 16)
        >>> ys, (y, z) = unroll(torch.randn(100, 8, 16), y, z, W, W_z, dt=0.05, gamma=0.5, epsilon=4.0)
    """
    if not len(drive):
        raise ValueError("drive has no steps: pass at least one")
    if timespans is not None and len(timespans) != len(drive):
        raise ValueError(f"timespans has {len(timespans)} steps, drive has {len(drive)}: pass one factor per step")
    ys = []
    # unbind, not indexing: the gradient of an indexing loop costs O(time^2).
    steps = [dt] * len(drive) if timespans is None else [dt * span.unsqueeze(-1) for span in timespans.unbind(0)]
    for drive_n, dt_n in zip(drive.unbind(0), steps, strict=True):
        y, z = step(drive_n, y, z, W, W_z, dt_n, gamma, epsilon, damping=damping, activation=activation)
        ys.append(y)
    return torch.stack(ys), (y, z)


def unroll_by(
    over: Transition, drive: Sequence, y: Vectors, z: Vectors, W: Weights, W_z: Weights, *, activation: str = "tanh"
) -> tuple[Sequence, tuple[Vectors, Vectors]]:
    """Run the recurrence over a sequence with the coefficients of `transition`.

    Args:
        over: The coefficients of every step; their first dimension is time.
        drive: V u + b of every step, shape `(time, *batch, hidden)`.
        y: Initial positions, shape `(*batch, hidden)`.
        z: Initial velocities, shape `(*batch, hidden)`.
        W: Weights of y, as in `step`.
        W_z: Weights of z, as in `step`.
        activation: One of `ACTIVATIONS`.

    Returns:
        y after every step, shape `(time, *batch, hidden)`, and the last `(y, z)`.

    Examples:
        >>> spans = 3 * torch.rand(100, 8, 1)  # (time, batch, 1)
        >>> over = transition(torch.tensor(0.05), torch.tensor(0.5), torch.full((16,), 4.0), spans)
        >>> W, W_z = 0.1 * torch.randn(2, 16, 16)
        >>> y, z = torch.zeros(2, 8, 16)
        >>> ys, (y, z) = unroll_by(over, torch.randn(100, 8, 16), y, z, W, W_z)
    """
    ys = []
    for drive_n, *by in zip(drive.unbind(0), *(part.unbind(0) for part in over), strict=True):
        y, z = step_by(Transition(*by), drive_n, y, z, W, W_z, activation=activation)
        ys.append(y)
    return torch.stack(ys), (y, z)
