"""What a network does on given inputs: states, exact Jacobians, their products, exponents, gradients by lag.

Time runs first: an input is (time, batch, features), states are (time + 1, batch, hidden) with the start at 0, and
slopes, the derivatives of the activation at each step, are (time, batch, hidden).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.functional import ACTIVATIONS
from cornn.theory.energy import energy
from cornn.theory.network import SLOPES, Network

__all__ = [
    "Trajectory",
    "finite_prefix",
    "gradient_by_lag",
    "gradient_decay",
    "jacobian",
    "loss_gradient",
    "lyapunov_exponents",
    "product_norms",
    "separation",
    "simulate",
    "singular_values",
]


@dataclass(frozen=True)
class Trajectory:
    """The states of a network on an input, and the slopes of the activation; index 0 of y and z is the start."""

    input: Tensor  # (time, batch, features)
    y: Tensor  # (time + 1, batch, hidden)
    z: Tensor  # (time + 1, batch, hidden)
    slopes: Tensor  # (time, batch, hidden)

    def __len__(self) -> int:
        return len(self.slopes)


@torch.no_grad()
def simulate(network: Network, input: Tensor, state: tuple[Tensor, Tensor] | None = None) -> Trajectory:
    """The states that an input (time, batch, features) leads through, from zero or from `state`."""
    if input.dim() != 3 or input.shape[2] != network.V.shape[1]:
        raise ValueError(f"input must be (time, batch, {network.V.shape[1]}), got {tuple(input.shape)}")
    input = input.detach().to("cpu", torch.float64)
    drive = input @ network.V.T + network.b
    rest = torch.zeros_like(drive[0])
    y, z = (part.detach().to("cpu", torch.float64) for part in state or (rest, rest))
    coupling = torch.cat((network.W, network.W_z), 1).T.contiguous()
    activation = ACTIVATIONS[network.activation]
    ys, zs, arguments = [y], [z], []
    for now in drive.unbind(0):
        argument = torch.addmm(now, torch.cat((y, z), 1), coupling)
        z = network.kept * z + network.push * (activation(argument) - network.gamma * y)
        y = y + network.dt * z
        ys.append(y)
        zs.append(z)
        arguments.append(argument)
    return Trajectory(input, torch.stack(ys), torch.stack(zs), SLOPES[network.activation](torch.stack(arguments)))


def finite_prefix(trajectory: Trajectory, limit: float = 1e100) -> Trajectory:
    """The steps up to the first state beyond `limit`: unstable networks leave the range of floating point. One step is
    kept at least."""
    inside = ((trajectory.y.abs() < limit) & (trajectory.z.abs() < limit)).all(-1).all(-1)
    steps = len(trajectory) if inside.all() else max(1, inside.long().argmin().item() - 1)
    return Trajectory(
        trajectory.input[:steps], trajectory.y[: steps + 1], trajectory.z[: steps + 1], trajectory.slopes[:steps]
    )


def jacobian_blocks(network: Network, slope: Tensor) -> tuple[Tensor, Tensor]:
    """The paper's B and C (eq:grad7), each (..., hidden, hidden): how z_n depends on y_{n-1} and z_{n-1}."""
    push, scaled = network.push, (network.push * slope)[..., None]
    B = scaled * network.W - torch.diag(push * network.gamma)
    return B, scaled * network.W_z + torch.diag(network.kept)


def jacobian(network: Network, slope: Tensor) -> Tensor:
    """The exact Jacobian of a step for the state (y, z): (..., 2 hidden, 2 hidden) from slopes (..., hidden)."""
    B, C = jacobian_blocks(network, slope)
    eye, dt = torch.eye(network.hidden_size, dtype=torch.float64), network.dt[:, None]
    return torch.cat((torch.cat((eye + dt * B, dt * C), -1), torch.cat((B, C), -1)), -2)


def _norm(network: Network, product: Tensor, norm: str) -> Tensor:
    if norm == "max":
        return product.abs().sum(-1).amax(-1)
    if norm == "energy":
        weights = torch.cat((torch.sqrt(network.gamma), torch.ones_like(network.gamma)))
        product = weights[:, None] * product / weights
    elif norm != "euclid":
        raise ValueError(f"unknown norm {norm!r}: choose max, euclid or energy")
    return torch.linalg.matrix_norm(product, 2)


@torch.no_grad()
def product_norms(
    network: Network, trajectory: Trajectory, *, norm: str = "max", every: int = 1
) -> tuple[Tensor, Tensor]:
    """Lags 0, `every`, 2 `every`, ... and the natural logarithms of ||dX_n/dX_k|| at them, (lags, batch); n is the last
    step.

    norm: "max" (the paper's), "euclid", or "energy" (that of sqrt(gamma) y and z). One product a sequence is kept, and
        its size apart from it, so that nothing over- or underflows.
    """
    steps, batch = trajectory.slopes.shape[:2]
    m = network.hidden_size
    product = torch.eye(2 * m, dtype=torch.float64).expand(batch, 2 * m, 2 * m)
    size = torch.zeros(batch, dtype=torch.float64)
    lags, logs = [0], [torch.zeros(batch, dtype=torch.float64)]
    for lag in range(1, steps + 1):
        B, C = jacobian_blocks(network, trajectory.slopes[steps - lag])
        for_y = product[..., :m]
        for_z = for_y * network.dt + product[..., m:]
        product = torch.cat((for_y + for_z @ B, for_z @ C), -1)
        largest = product.abs().amax((-1, -2))
        size = size + torch.log(largest)
        product = product / torch.where(largest > 0, largest, 1.0)[:, None, None]  # a product may come to nothing
        if lag % every == 0:
            lags.append(lag)
            logs.append(size + torch.log(_norm(network, product, norm)))
    return torch.tensor(lags), torch.stack(logs)


@torch.no_grad()
def singular_values(network: Network, trajectory: Trajectory, lag: int) -> Tensor:
    """Of dX_n/dX_{n - lag}, n the last step: (batch, 2 hidden), largest first."""
    steps, batch, m = trajectory.slopes.shape
    if not 0 <= lag <= steps:
        raise ValueError(f"lag must be 0 to {steps}, the steps of the trajectory, got {lag}")
    product = torch.eye(2 * m, dtype=torch.float64).expand(batch, 2 * m, 2 * m)
    for slope in trajectory.slopes[steps - lag :]:
        product = jacobian(network, slope) @ product
    return torch.linalg.svdvals(product)


@torch.no_grad()
def lyapunov_exponents(network: Network, trajectory: Trajectory, count: int = 1, *, skip: int = 0) -> Tensor:
    """The `count` largest finite-time Lyapunov exponents, a step: (batch, count), natural logarithms, by QR.

    skip: steps at the beginning that turn the tangent vectors but are not counted.
    """
    steps, batch, m = trajectory.slopes.shape
    if not (1 <= count <= 2 * m and 0 <= skip < steps):
        raise ValueError(f"count must be 1 to {2 * m} and skip below the {steps} steps, got {count} and {skip}")
    # Tangent vectors that no symmetry of the network singles out.
    random = torch.Generator().manual_seed(0)
    start = torch.randn(batch, 2 * m, count, generator=random, dtype=torch.float64)
    vectors, _ = torch.linalg.qr(start)
    total = torch.zeros(batch, count, dtype=torch.float64)
    dt, push, kept = network.dt[:, None], network.push[:, None], network.kept[:, None]
    for number, slope in enumerate(trajectory.slopes):
        y, z = vectors[:, :m], vectors[:, m:]
        force = slope[..., None] * (network.W @ y + network.W_z @ z) - network.gamma[:, None] * y
        z = kept * z + push * force
        vectors, triangle = torch.linalg.qr(torch.cat((y + dt * z, z), 1))
        if number >= skip:
            total += torch.log(triangle.diagonal(dim1=-2, dim2=-1).abs())
    return total / (steps - skip)


def _backward(network: Network, slope: Tensor, y: Tensor, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """One step back: from the gradient for (y_n, z_n) to those for the activation's argument and (y_{n-1}, z_{n-1})."""
    z = z + network.dt * y
    force = network.push * z
    argument = slope * force
    return argument, y - network.gamma * force + argument @ network.W, network.kept * z + argument @ network.W_z


def _carried_back(network: Network, trajectory: Trajectory, last: Tensor) -> tuple[Tensor, Tensor]:
    """For a gradient `last` for y_n: the natural logarithms of the norms of those for each step's argument and state,
    both (time, batch). The size is kept apart from the gradient, so that nothing over- or underflows."""
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
    """log10 of |dE_n/dX_k| over |dE_n/dX_n|, n the last step, for a loss that depends on every neuron alike.

    Entry k - 1 is step k's; (time, batch).
    """
    _, sizes = _carried_back(network, trajectory, torch.ones_like(trajectory.y[-1]))
    return (sizes - sizes[-1]) / math.log(10)


@torch.no_grad()
def gradient_by_lag(network: Network, trajectory: Trajectory, target: Tensor | float = 0.0) -> dict[str, Tensor]:
    """The sizes of dE_n^(k)/dtheta (eq:grad2), n the last step, for E_n = |y_n - target|**2 / 2.

    Entry k - 1 along the first axis is step k's; (time, batch). "W", "W_z", "V" and "b" hold the Euclidean norm over
    all entries of that weight, "state" that of dE_n/dX_k.
    """
    own, state = (torch.exp(size) for size in _carried_back(network, trajectory, trajectory.y[-1] - target))
    # Step k's part is the product of a column and a row, so that its norm is the product of theirs.
    factors = {"W": trajectory.y[:-1], "W_z": trajectory.z[:-1], "V": trajectory.input}
    return {name: own * torch.linalg.vector_norm(row, dim=-1) for name, row in factors.items()} | {
        "b": own,
        "state": state,
    }


@torch.no_grad()
def loss_gradient(network: Network, trajectory: Trajectory, target: Tensor | float = 0.0) -> dict[str, Tensor]:
    """The gradients for V, W, W_z and b of the paper's loss (eq:lf1), E = sum_n |y_n - target_n|**2 / (2 steps), one a
    sequence: (batch, ...)."""
    steps = len(trajectory)
    misfit = (trajectory.y[1:] - target) / steps
    y = z = torch.zeros_like(trajectory.y[0])
    arguments = []
    for slope, own in zip(trajectory.slopes.flip(0), misfit.flip(0), strict=True):
        argument, y, z = _backward(network, slope, y + own, z)
        arguments.append(argument)
    whole = torch.stack(arguments).flip(0)
    factors = {"W": trajectory.y[:-1], "W_z": trajectory.z[:-1], "V": trajectory.input}
    return {name: torch.einsum("tbi,tbj->bij", whole, row) for name, row in factors.items()} | {"b": whole.sum(0)}


def separation(network: Network, input: Tensor, other: Tensor) -> Tensor:
    """The energy of the difference of the states under two inputs, (time + 1, batch)."""
    one, two = simulate(network, input), simulate(network, other)
    return energy(network, one.y - two.y, one.z - two.z).sum(-1)
