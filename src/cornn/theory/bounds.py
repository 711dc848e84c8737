"""Proven bounds, their conditions, and their comparison with a measured trajectory.

The proofs are in docs/theory.md. A measurement that violates a bound points to an error in this package.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.functional import ACTIVATIONS
from cornn.theory import claims
from cornn.theory import energy as energies
from cornn.theory._network import Network
from cornn.theory.gradients import energy_growth, loss_gradient_bounds, step_norm
from cornn.theory.hypotheses import largest_r
from cornn.theory.measure import Trajectory, jacobian, loss_gradient, product_norms, simulate
from cornn.theory.small_gain import log_growth_bound

__all__ = ["BOUNDS", "Bound", "Comparison", "compare"]

ROUNDING = 1e-9  # relative: sums of some thousand roundings of 1e-16, with room


@dataclass(frozen=True)
class Comparison:
    """A bound next to the measured value.

    Shown where the two are closest; for products of Jacobians, at the longest lag.

    Attributes:
        bound: Value of the bound.
        measured: Measured value.
        holds: Whether the bound holds everywhere on the trajectory.
        logarithm: Whether both values are base-10 logarithms.
    """

    bound: float
    measured: float
    holds: bool
    logarithm: bool = False


@dataclass(frozen=True)
class Bound:
    """A proven bound.

    Attributes:
        label: The paper's label, or "ours".
        statement: What is bounded, and by what.
        condition: The condition, in words.
        applies: Returns whether a network meets the condition.
        compare: Compares the bound with a trajectory. Call `bounds.compare` instead, which checks the condition first.
        zero_start: Whether the bound only covers states that start at zero.
    """

    label: str
    statement: str
    condition: str
    applies: Callable[[Network], bool]
    compare: Callable[[Network, Trajectory], Comparison]
    zero_start: bool = False


def _nearest(measured: Tensor, bound: Tensor) -> Comparison:
    """Compare where measured / bound is largest. NaN counts as overflow, that is, as infinity."""
    measured = measured.nan_to_num(math.inf, math.inf)
    share = torch.where(bound > 0, measured / bound, torch.where(measured > 0, torch.inf, 0.0)).nan_to_num(1.0)
    place = share.argmax()
    holds = bool((measured <= bound * (1 + ROUNDING)).all())
    return Comparison(bound.broadcast_to(share.shape).flatten()[place].item(), measured.flatten()[place].item(), holds)


def _longest_lag(measured: Tensor, bound: Tensor) -> Comparison:
    """Compare natural logarithms, (lags, batch) and (lags, 1), at every lag, and show the longest."""
    measured, bound = measured.amax(1) / math.log(10), bound.squeeze(1) / math.log(10)
    return Comparison(bound[-1].item(), measured[-1].item(), bool((measured <= bound + ROUNDING).all()), True)


def _after_start(network: Network, trajectory: Trajectory) -> Tensor:
    return energies.energy(network, trajectory.y, trajectory.z)[1:]


def _energy(network: Network, trajectory: Trajectory) -> Comparison:
    bound = energies.energy_bound(network, len(trajectory))[1:, None]
    return _nearest(_after_start(network, trajectory), bound)


def _paper_energy(network: Network, trajectory: Trajectory) -> Comparison:
    bound = claims.energy_bound(network, len(trajectory))[1:, None]
    return _nearest(_after_start(network, trajectory).sum(-1), bound)


def _state(network: Network, trajectory: Trajectory) -> Comparison:
    y, z = energies.state_bound(network, len(trajectory))
    bound = torch.stack((y, z))[:, 1:, None]
    return _nearest(torch.stack((trajectory.y, trajectory.z))[:, 1:].abs(), bound)


def _separation(network: Network, trajectory: Trajectory) -> Comparison:
    # The second input is the first one reversed in time, which also works for a batch of one.
    other = simulate(network, trajectory.input.flip(0))
    apart = energies.energy(network, trajectory.y - other.y, trajectory.z - other.z)[1:]
    return _nearest(apart, energies.separation_bound(network, len(trajectory))[1:, None])


def _step(network: Network, trajectory: Trajectory) -> Comparison:
    norms = torch.stack([jacobian(network, slope).abs().sum(-1).amax(-1) for slope in trajectory.slopes])
    return _nearest(norms, torch.tensor(step_norm(network), dtype=torch.float64))


def _products(network: Network, trajectory: Trajectory, norm: str) -> tuple[Tensor, Tensor]:
    """Return about twenty lags above 0 and the logarithms of the product norms there."""
    lags, logs = product_norms(network, trajectory, norm=norm, every=max(1, len(trajectory) // 20))
    return lags[1:].double(), logs[1:]


def _strict_product(network: Network, trajectory: Trajectory) -> Comparison:
    lags, logs = _products(network, trajectory, "max")
    r = min(largest_r(network), 1.0)
    return _longest_lag(logs, (lags * math.log1p(3 * network.dt[0].item() ** r))[:, None])


def _energy_product(network: Network, trajectory: Trajectory) -> Comparison:
    lags, logs = _products(network, trajectory, "energy")
    return _longest_lag(logs, (lags * math.log1p(energy_growth(network)))[:, None])


def _gain_product(network: Network, trajectory: Trajectory) -> Comparison:
    lags, logs = _products(network, trajectory, "euclid")
    return _longest_lag(logs, log_growth_bound(network, len(trajectory))[lags.long()][:, None])


def _loss(network: Network, trajectory: Trajectory) -> Comparison:
    found = loss_gradient(network, trajectory)
    largest = trajectory.input.abs().max().item()
    bounds = loss_gradient_bounds(network, len(trajectory), largest_input=largest)
    measured = torch.stack([value.abs().max() for value in found.values()])
    return _nearest(measured, torch.tensor([bounds[name] for name in found], dtype=torch.float64))


def _is_bounded(network: Network) -> bool:
    return ACTIVATIONS[network.activation].unit_bounded


def _has_energy_rate(network: Network) -> bool:
    return _is_bounded(network) and bool((network.dt < energies.energy_step_limit(network)).all())


def _within_paper_limit(network: Network) -> bool:
    return _is_bounded(network) and bool((network.dt <= energies.paper_step_limit(network)).all())


def _has_unit_slopes(network: Network) -> bool:
    return ACTIVATIONS[network.activation].unit_slope


BOUNDS = (
    Bound(
        "eq:enb, eq:nenb",
        "energy of all neurons <= m n dt",
        "dt within eq:ndt (explicit damping) or eq:dt (implicit)",
        _within_paper_limit,
        _paper_energy,
        zero_start=True,
    ),
    Bound(
        "ours",
        "energy per neuron <= rate n dt",
        "dt below the energy limit",
        _has_energy_rate,
        _energy,
        zero_start=True,
    ),
    Bound(
        "ours",
        "|y| and |z| per neuron, for any weights and input",
        "|activation| <= 1",
        _is_bounded,
        _state,
        zero_start=True,
    ),
    Bound(
        "prop:2, ours",
        "energy of the difference of two runs <= 4 rate n dt",
        "dt below the energy limit",
        _has_energy_rate,
        _separation,
        zero_start=True,
    ),
    Bound("ours", "norm of the one-step Jacobian", "activation slopes in [0, 1]", _has_unit_slopes, _step),
    Bound(
        "eq:norm2",
        "max norm of Jacobian products <= (1 + 3 dt^r)^lag",
        "the setting of the paper's main text, and eq:assm",
        lambda network: network.paper_case and largest_r(network) >= 0.5,
        _strict_product,
    ),
    Bound(
        "ours",
        "energy norm of Jacobian products",
        "dt below the energy limit, and gamma > 0",
        lambda network: _has_unit_slopes(network) and math.isfinite(energy_growth(network)),
        _energy_product,
    ),
    Bound(
        "ours",
        "Euclidean norm of Jacobian products <= K r^lag",
        "activation slopes in [0, 1]",
        _has_unit_slopes,
        _gain_product,
    ),
    Bound(
        "ours",
        "largest entry of the loss gradient",
        "|activation| <= 1 and slopes in [0, 1]",
        lambda network: _is_bounded(network) and _has_unit_slopes(network),
        _loss,
        zero_start=True,
    ),
)


def compare(bound: Bound, network: Network, trajectory: Trajectory) -> Comparison | None:
    """Compare a bound with a trajectory.

    Args:
        bound: One of `BOUNDS`.
        network: The network.
        trajectory: A trajectory of this network, from `measure.simulate`.

    Returns:
        The comparison, or None if the bound does not apply: its condition is not met, or it requires a zero start and
        the trajectory has another one.

    Examples:
        >>> import torch
        >>> from cornn import theory
        >>> network = theory.network(torch.eye(2), torch.eye(2), dt=0.1, gamma=1.0, epsilon=1.0)
        >>> trajectory = theory.measure.simulate(network, torch.rand(50, 4, 2))
        >>> theory.bounds.compare(theory.bounds.BOUNDS[1], network, trajectory).holds
        True
    """
    if not bound.applies(network) or (bound.zero_start and bool(trajectory.y[0].any() or trajectory.z[0].any())):
        return None
    return bound.compare(network, trajectory)
