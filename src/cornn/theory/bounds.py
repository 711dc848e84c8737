"""The bounds that stand, each with the condition that it needs and what it is to be held against.

A bound that a measurement breaks is an error in this package: docs/theory.md has the proofs.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.theory import claims
from cornn.theory import energy as energies
from cornn.theory.gradients import energy_growth, loss_gradient_bounds, step_norm
from cornn.theory.hypotheses import largest_r
from cornn.theory.measure import Trajectory, jacobian, loss_gradient, product_norms, simulate
from cornn.theory.network import Network
from cornn.theory.small_gain import log_growth_bound

__all__ = ["BOUNDS", "Bound", "Held", "hold"]

ROUNDING = 1e-9  # relative: sums of some thousand roundings of 1e-16, with room


@dataclass(frozen=True)
class Held:
    """A bound and what was measured, where the two are nearest; of products, as logarithms to base 10, at the longest
    lag."""

    bound: float
    measured: float
    holds: bool
    logarithm: bool = False


@dataclass(frozen=True)
class Bound:
    """A bound that stands: what it says, what it needs, and how it is held against a measurement."""

    label: str  # the paper's where it is the paper's, else "ours"
    says: str
    needs: str
    met: Callable[[Network], bool]
    held: Callable[[Network, Trajectory], Held]
    from_rest: bool = False  # whether it is about states that start at zero


def _nearest(measured: Tensor, bound: Tensor) -> Held:
    """Where measured / bound is largest. What is no number left the range of numbers on its way."""
    measured = measured.nan_to_num(math.inf, math.inf)
    share = torch.where(bound > 0, measured / bound, torch.where(measured > 0, torch.inf, 0.0)).nan_to_num(1.0)
    place = share.argmax()
    holds = bool((measured <= bound * (1 + ROUNDING)).all())
    return Held(bound.broadcast_to(share.shape).flatten()[place].item(), measured.flatten()[place].item(), holds)


def _longest_lag(measured: Tensor, bound: Tensor) -> Held:
    """For natural logarithms by lag, (lags, batch) and (lags, 1): held at every lag, shown at the longest."""
    measured, bound = measured.amax(1) / math.log(10), bound.squeeze(1) / math.log(10)
    return Held(bound[-1].item(), measured[-1].item(), bool((measured <= bound + ROUNDING).all()), True)


def _after_start(network: Network, trajectory: Trajectory) -> Tensor:
    return energies.energy(network, trajectory.y, trajectory.z)[1:]


def _energy(network: Network, trajectory: Trajectory) -> Held:
    bound = energies.energy_bound(network, len(trajectory))[1:, None]
    return _nearest(_after_start(network, trajectory), bound)


def _paper_energy(network: Network, trajectory: Trajectory) -> Held:
    bound = claims.energy_bound(network, len(trajectory))[1:, None]
    return _nearest(_after_start(network, trajectory).sum(-1), bound)


def _reach(network: Network, trajectory: Trajectory) -> Held:
    y, z = energies.reach(network, len(trajectory))
    bound = torch.stack((y, z))[:, 1:, None]
    return _nearest(torch.stack((trajectory.y, trajectory.z))[:, 1:].abs(), bound)


def _separation(network: Network, trajectory: Trajectory) -> Held:
    # The other input: the same one, turned round in time, so that a batch of one has a partner too.
    other = simulate(network, trajectory.input.flip(0))
    apart = energies.energy(network, trajectory.y - other.y, trajectory.z - other.z)[1:]
    return _nearest(apart, energies.separation_bound(network, len(trajectory))[1:, None])


def _step(network: Network, trajectory: Trajectory) -> Held:
    norms = torch.stack([jacobian(network, slope).abs().sum(-1).amax(-1) for slope in trajectory.slopes])
    return _nearest(norms, torch.tensor(step_norm(network), dtype=torch.float64))


def _products(network: Network, trajectory: Trajectory, norm: str) -> tuple[Tensor, Tensor]:
    """Some twenty lags and the logarithms of the product's norms at them, lag 0 left out."""
    lags, logs = product_norms(network, trajectory, norm=norm, every=max(1, len(trajectory) // 20))
    return lags[1:].double(), logs[1:]


def _strict_product(network: Network, trajectory: Trajectory) -> Held:
    lags, logs = _products(network, trajectory, "max")
    r = min(largest_r(network), 1.0)
    return _longest_lag(logs, (lags * math.log1p(3 * network.dt[0].item() ** r))[:, None])


def _energy_product(network: Network, trajectory: Trajectory) -> Held:
    lags, logs = _products(network, trajectory, "energy")
    return _longest_lag(logs, (lags * math.log1p(energy_growth(network)))[:, None])


def _gain_product(network: Network, trajectory: Trajectory) -> Held:
    lags, logs = _products(network, trajectory, "euclid")
    return _longest_lag(logs, log_growth_bound(network, len(trajectory))[lags.long()][:, None])


def _loss(network: Network, trajectory: Trajectory) -> Held:
    found = loss_gradient(network, trajectory)
    largest = trajectory.input.abs().max().item()
    bounds = loss_gradient_bounds(network, len(trajectory), largest_input=largest)
    measured = torch.stack([value.abs().max() for value in found.values()])
    return _nearest(measured, torch.tensor([bounds[name] for name in found], dtype=torch.float64))


def _bounded(network: Network) -> bool:
    return network.activation == "tanh"


def _rate_exists(network: Network) -> bool:
    return _bounded(network) and bool((network.dt < energies.energy_step_limit(network)).all())


def _paper_limit(network: Network) -> bool:
    return _bounded(network) and bool((network.dt <= energies.paper_step_limit(network)).all())


def _steep_at_most_one(network: Network) -> bool:
    return network.activation != "duffing"


BOUNDS = (
    Bound(
        "eq:enb, eq:nenb",
        "energy of all neurons: m n dt",
        "dt within eq:ndt (explicit) or eq:dt (implicit)",
        _paper_limit,
        _paper_energy,
        from_rest=True,
    ),
    Bound("ours", "energy of a neuron: rate n dt", "dt within the energy limit", _rate_exists, _energy, from_rest=True),
    Bound("ours", "what a neuron's y and z can reach", "tanh", _bounded, _reach, from_rest=True),
    Bound(
        "prop:2, ours",
        "energy of a difference: 4 rate n dt",
        "dt within the energy limit",
        _rate_exists,
        _separation,
        from_rest=True,
    ),
    Bound("ours", "norm of a step Jacobian", "slopes from 0 to 1", _steep_at_most_one, _step),
    Bound(
        "eq:norm2",
        "norm of products: (1 + 3 dt^r)^lag",
        "the main text's case, and eq:assm",
        lambda network: network.paper_case and largest_r(network) >= 0.5,
        _strict_product,
    ),
    Bound(
        "ours",
        "energy norm of products",
        "dt within the energy limit, gamma above 0",
        lambda network: _steep_at_most_one(network) and math.isfinite(energy_growth(network)),
        _energy_product,
    ),
    Bound("ours", "Euclidean norm of products: K r^lag", "slopes from 0 to 1", _steep_at_most_one, _gain_product),
    Bound("ours", "largest entry of the loss's gradient", "tanh", _bounded, _loss, from_rest=True),
)


def hold(bound: Bound, network: Network, trajectory: Trajectory) -> Held | None:
    """The bound against the trajectory, or None where its condition is not met, or where it is about a zero start and
    the trajectory has another."""
    if not bound.met(network) or (bound.from_rest and bool(trajectory.y[0].any() or trajectory.z[0].any())):
        return None
    return bound.held(network, trajectory)
