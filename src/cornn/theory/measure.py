"""Measure a network on given inputs: states, exact Jacobians and their products, Lyapunov exponents, gradients by lag.

Time is the first axis: inputs are (time, batch, features), states are (time + 1, batch, hidden) with the initial state
at index 0, and slopes, the derivatives of the activation at each step, are (time, batch, hidden).
"""

import math
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from cornn.theory._network import Network
from cornn.theory._simulate import Trajectory, finite_prefix, simulate
from cornn.theory._threads import spectral_norm, threads_for
from cornn.theory.energy import energy
from cornn.theory.hypotheses import row_sums

__all__ = [
    "Trajectory",
    "finite_prefix",
    "gradient_by_lag",
    "gradient_decay",
    "jacobian",
    "jacobian_blocks",
    "jacobian_norms",
    "loss_gradient",
    "lyapunov_exponents",
    "product_norms",
    "product_norms_of",
    "separation",
    "simulate",
    "singular_values",
]

NORMS = ("max", "euclid", "energy")
SMALLEST_SCALE, LARGEST_SCALE = 1e-50, 1e50
"""A product of Jacobians is scaled again beyond these: its next factors neither overflow nor underflow."""


def jacobian_blocks(network: Network, slope: Tensor) -> tuple[Tensor, Tensor]:
    """Return the paper's B and C (eq:grad7): the derivatives of z_n with respect to y_{n-1} and z_{n-1}.

    Args:
        network: The network.
        slope: Slopes of the activation, (..., hidden).

    Returns:
        B and C, each (..., hidden, hidden).
    """
    push, scaled = network.push, (network.push * slope)[..., None]
    B = scaled * network.W - torch.diag(push * network.gamma)
    return B, scaled * network.W_z + torch.diag(network.keep)


def jacobian(network: Network, slope: Tensor) -> Tensor:
    """Return the exact Jacobian of one step with respect to the state (y, z).

    Args:
        network: The network.
        slope: Slopes of the activation, (..., hidden).

    Returns:
        The Jacobian, (..., 2 hidden, 2 hidden).
    """
    B, C = jacobian_blocks(network, slope)
    eye, dt = torch.eye(network.hidden_size, dtype=torch.float64), network.dt[:, None]
    return torch.cat((torch.cat((eye + dt * B, dt * C), -1), torch.cat((B, C), -1)), -2)


def jacobian_norms(network: Network, slope: Tensor) -> Tensor:
    """Return the max norm, the largest absolute row sum, of `jacobian(network, slope)` without building the matrix.

    Args:
        network: The network.
        slope: Slopes of the activation, (..., hidden).

    Returns:
        The norms, (...).
    """
    dt, push, W, W_z = network.dt, network.push, network.W.diagonal(), network.W_z.diagonal()
    apart, apart_z = (row_sums(weight - torch.diag(weight.diagonal())) for weight in (network.W, network.W_z))
    scaled = push * slope
    on_y, on_z = scaled * W - push * network.gamma, scaled * W_z + network.keep
    rows_B, rows_C = scaled.abs() * apart + on_y.abs(), scaled.abs() * apart_z + on_z.abs()
    rows_y = dt * scaled.abs() * apart + (1 + dt * on_y).abs() + dt * rows_C
    return torch.maximum(rows_y, rows_B + rows_C).amax(-1)


def _norm(network: Network, product: Tensor, norm: str) -> Tensor:
    if norm == "max":
        return product.abs().sum(-1).amax(-1)
    if norm == "energy":
        weights = torch.cat((torch.sqrt(network.gamma), torch.ones_like(network.gamma)))
        product = weights[:, None] * product / weights
    return spectral_norm(product)


def _products(network: Network, trajectory: Trajectory, every: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Yield every lag = every, 2 every, ... with dX_n/dX_{n - lag} / e**size, (batch, 2 hidden, 2 hidden), and size."""
    steps, batch, m = trajectory.slopes.shape
    for_y, for_z = torch.eye(2 * m, dtype=torch.float64).repeat(batch, 1, 1).tensor_split(2, -1)
    for_y, for_z = for_y.contiguous(), for_z.contiguous()
    size = torch.zeros(batch, dtype=torch.float64)
    stiff, keep, dt = network.push * network.gamma, network.keep, network.dt
    for lag in range(1, steps + 1):
        # for_y + for_z B and for_z C, with the B and C of `jacobian_blocks`. The slopes scale columns of for_z, so that
        # all sequences share the factors W and W_z.
        for_z.addcmul_(for_y, dt)
        argument = for_z * (network.push * trajectory.slopes[steps - lag])[:, None]
        for_y.addcmul_(for_z, stiff, value=-1).add_(argument @ network.W)
        for_z.mul_(keep).add_(argument @ network.W_z)
        recorded = lag % every == 0
        largest = torch.maximum(for_y.abs().amax((-1, -2)), for_z.abs().amax((-1, -2)))
        if recorded or not ((largest > SMALLEST_SCALE) & (largest < LARGEST_SCALE)).all():
            size = size + torch.log(largest)
            scale = torch.where(largest > 0, largest, 1.0)[:, None, None]  # a product may become zero
            for_y /= scale
            for_z /= scale
        if recorded:
            yield lag, torch.cat((for_y, for_z), -1), size


@torch.no_grad()
def product_norms_of(
    network: Network,
    trajectory: Trajectory,
    *,
    norms: Sequence[str] = NORMS,
    every: int = 1,
    watch: Callable[[float], None] | None = None,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Measure several norms of the Jacobian products dX_n/dX_k at once, where n is the last step.

    Args:
        network: The network.
        trajectory: A trajectory of this network.
        norms: The norms, see `product_norms`.
        every: Distance between the lags.
        watch: Function that is called after each lag with the completed share of the work.

    Returns:
        The lags n - k = 0, every, 2 every, ..., (lags), and norm -> the natural logarithms, (lags, batch).
    """
    for norm in norms:
        if norm not in NORMS:
            raise ValueError(f"unknown norm {norm!r}: choose {', '.join(NORMS[:-1])} or {NORMS[-1]}")
    if every < 1:
        raise ValueError(f"every must be at least 1, got {every}")
    steps, batch = trajectory.slopes.shape[:2]
    lags, logs = [0], {norm: [torch.zeros(batch, dtype=torch.float64)] for norm in norms}
    with threads_for(2 * network.hidden_size):
        for lag, product, size in _products(network, trajectory, every):
            lags.append(lag)
            for norm, values in logs.items():
                values.append(size + torch.log(_norm(network, product, norm)))
            if watch is not None:
                watch(lag / steps)
    return torch.tensor(lags), {norm: torch.stack(values) for norm, values in logs.items()}


def product_norms(
    network: Network, trajectory: Trajectory, *, norm: str = "max", every: int = 1
) -> tuple[Tensor, Tensor]:
    """Measure the norms of the Jacobian products dX_n/dX_k, where n is the last step.

    The scale of each product is stored separately, so that nothing overflows or underflows.

    Args:
        network: The network.
        trajectory: A trajectory of this network.
        norm: "max" (the paper's), "euclid", or "energy" (the Euclidean norm of sqrt(gamma) y and z).
        every: Distance between the lags.

    Returns:
        The lags n - k = 0, every, 2 every, ..., (lags), and the natural logarithms of the norms, (lags, batch).
    """
    lags, logs = product_norms_of(network, trajectory, norms=(norm,), every=every)
    return lags, logs[norm]


@torch.no_grad()
def singular_values(network: Network, trajectory: Trajectory, lag: int) -> Tensor:
    """Return the singular values of dX_n/dX_{n - lag}, where n is the last step.

    Args:
        network: The network.
        trajectory: A trajectory of this network.
        lag: Number of steps, at most the length of the trajectory.

    Returns:
        The singular values in descending order, (batch, 2 hidden).
    """
    steps, batch, m = trajectory.slopes.shape
    if not 0 <= lag <= steps:
        raise ValueError(f"lag must be from 0 to {steps}, the length of the trajectory, got {lag}")
    product = torch.eye(2 * m, dtype=torch.float64).expand(batch, 2 * m, 2 * m)
    for slope in trajectory.slopes[steps - lag :]:
        product = jacobian(network, slope) @ product
    return torch.linalg.svdvals(product)


@torch.no_grad()
def lyapunov_exponents(network: Network, trajectory: Trajectory, count: int = 1, *, skip: int = 0) -> Tensor:
    """Estimate the largest finite-time Lyapunov exponents by QR decomposition.

    Args:
        network: The network.
        trajectory: A trajectory of this network.
        count: Number of exponents.
        skip: Number of initial steps that align the tangent vectors and are not counted.

    Returns:
        The exponents per step, in natural logarithms, (batch, count).
    """
    steps, batch, m = trajectory.slopes.shape
    if not (1 <= count <= 2 * m and 0 <= skip < steps):
        raise ValueError(f"count must be from 1 to {2 * m} and skip below {steps} steps, got {count} and {skip}")
    # Random tangent vectors, so that no symmetry of the network favours them.
    random = torch.Generator().manual_seed(0)
    start = torch.randn(batch, 2 * m, count, generator=random, dtype=torch.float64)
    vectors, _ = torch.linalg.qr(start)
    total = torch.zeros(batch, count, dtype=torch.float64)
    dt, push, keep = network.dt[:, None], network.push[:, None], network.keep[:, None]
    for number, slope in enumerate(trajectory.slopes):
        y, z = vectors[:, :m], vectors[:, m:]
        force = slope[..., None] * (network.W @ y + network.W_z @ z) - network.gamma[:, None] * y
        z = keep * z + push * force
        vectors, triangle = torch.linalg.qr(torch.cat((y + dt * z, z), 1))
        if number >= skip:
            total += torch.log(triangle.diagonal(dim1=-2, dim2=-1).abs())
    return total / (steps - skip)


def _backward(network: Network, slope: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients for the activation's argument, y_{n-1} and z_{n-1}, from those for y_n and z_n."""
    z = z + network.dt * y
    force = network.push * z
    argument = slope * force
    return argument, y - network.gamma * force + argument @ network.W, network.keep * z + argument @ network.W_z


def _backward_norms(network: Network, trajectory: Trajectory, last: Tensor) -> tuple[Tensor, Tensor]:
    """Propagate a gradient `last` for y_n back to the first step.

    Returns the natural logarithms of the gradient norms for each step's activation argument and state, both (time,
    batch). The scale is stored separately, so that nothing overflows or underflows.
    """
    y, z, size = last, torch.zeros_like(last), torch.zeros(last.shape[:-1], dtype=last.dtype)
    arguments, states = [], []
    for slope in trajectory.slopes.flip(0):
        norm = torch.sqrt((y**2 + z**2).sum(-1))
        size = size + torch.log(norm)
        y, z = (part / torch.where(norm > 0, norm, 1.0)[..., None] for part in (y, z))
        states.append(size)
        argument, y, z = _backward(network, slope, y, z)
        arguments.append(size + torch.log(torch.linalg.vector_norm(argument, dim=-1)))
    return torch.stack(arguments).flip(0), torch.stack(states).flip(0)


@torch.no_grad()
def gradient_decay(network: Network, trajectory: Trajectory) -> Tensor:
    """Measure how gradients decay or grow with the lag, for a loss that weighs all neurons equally.

    Args:
        network: The network.
        trajectory: A trajectory of this network.

    Returns:
        log10 of |dE_n/dX_k| / |dE_n/dX_n|, where n is the last step; entry k - 1 belongs to step k, (time, batch).
    """
    _, sizes = _backward_norms(network, trajectory, torch.ones_like(trajectory.y[-1]))
    return (sizes - sizes[-1]) / math.log(10)


@torch.no_grad()
def gradient_by_lag(network: Network, trajectory: Trajectory, target: Tensor | float = 0.0) -> dict[str, Tensor]:
    """Measure the contribution of each step to the gradient, dE_n^(k)/dtheta (eq:grad2), where n is the last step.

    Args:
        network: The network.
        trajectory: A trajectory of this network.
        target: Target of the loss E_n = |y_n - target|**2 / 2, a number or (batch, hidden).

    Returns:
        "W", "W_z", "V" and "b" -> the Euclidean norm over all entries of that weight, "state" -> the norm of dE_n/dX_k.
        Each is (time, batch); entry k - 1 belongs to step k.
    """
    argument, state = (torch.exp(size) for size in _backward_norms(network, trajectory, trajectory.y[-1] - target))
    # The contribution of step k is an outer product, so its norm is the product of the two norms.
    factors = {"W": trajectory.y[:-1], "W_z": trajectory.z[:-1], "V": trajectory.input}
    return {name: argument * torch.linalg.vector_norm(row, dim=-1) for name, row in factors.items()} | {
        "b": argument,
        "state": state,
    }


@torch.no_grad()
def loss_gradient(network: Network, trajectory: Trajectory, target: Tensor | float = 0.0) -> dict[str, Tensor]:
    """Return the gradients of the paper's loss (eq:lf1), E = sum_n |y_n - target_n|**2 / (2 steps), per sequence.

    Args:
        network: The network.
        trajectory: A trajectory of this network.
        target: Targets, a number or (time, batch, hidden).

    Returns:
        "V", "W", "W_z" and "b" -> the gradient, (batch, ...).
    """
    steps = len(trajectory)
    misfit = (trajectory.y[1:] - target) / steps
    y = z = torch.zeros_like(trajectory.y[0])
    arguments = []
    for slope, error in zip(trajectory.slopes.flip(0), misfit.flip(0), strict=True):
        argument, y, z = _backward(network, slope, y + error, z)
        arguments.append(argument)
    gradients = torch.stack(arguments).flip(0)
    factors = {"W": trajectory.y[:-1], "W_z": trajectory.z[:-1], "V": trajectory.input}
    weights = {name: torch.einsum("tbi,tbj->bij", gradients, factor) for name, factor in factors.items()}
    return weights | {"b": gradients.sum(0)}


def separation(network: Network, input: Tensor, other: Tensor) -> Tensor:
    """Measure how far two inputs drive the states apart.

    Args:
        network: The network.
        input: Input, (time, batch, features).
        other: Another input of the same shape.

    Returns:
        The energy of the difference of the states, (time + 1, batch).
    """
    first, second = simulate(network, input), simulate(network, other)
    return energy(network, first.y - second.y, first.z - second.z).sum(-1)
