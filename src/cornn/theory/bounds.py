"""Proven bounds, their conditions, and their comparison with a measured trajectory.

The proofs are in docs/theory.md. A measurement that violates a bound points to an error in this package.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from cornn.functional import ACTIVATIONS
from cornn.theory import claims
from cornn.theory import energy as energies
from cornn.theory._network import Network
from cornn.theory.gradients import energy_growth, loss_gradient_bounds, step_norm
from cornn.theory.hypotheses import largest_r
from cornn.theory.measure import Trajectory, jacobian_norms, loss_gradient, product_norms_of, simulate
from cornn.theory.small_gain import log_growth_bound

__all__ = ["BOUNDS", "Bound", "Case", "Comparison", "compare", "compare_all"]

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


@dataclass(frozen=True, eq=False)
class Case:
    """A network with a trajectory of it, and what several bounds need, computed when it is first used.

    Attributes:
        network: The network.
        trajectory: A trajectory of this network.
        watch: Function that is called with the completed share of the work that takes longest.
    """

    network: Network
    trajectory: Trajectory
    watch: Callable[[float], None] | None = None

    @cached_property
    def products(self) -> tuple[Tensor, dict[str, Tensor]]:
        """About twenty lags above 0, and norm -> the logarithms of the norms of the Jacobian products there."""
        every = max(1, len(self.trajectory) // 20)
        norms = ("max", "euclid", *(["energy"] if (self.network.gamma > 0).all() else []))
        lags, logs = product_norms_of(self.network, self.trajectory, norms=norms, every=every, watch=self.watch)
        return lags[1:].double(), {norm: values[1:] for norm, values in logs.items()}

    @cached_property
    def log_growth(self) -> Tensor:
        """`small_gain.log_growth_bound` for the steps of the trajectory."""
        return log_growth_bound(self.network, len(self.trajectory))


@dataclass(frozen=True)
class Bound:
    """A proven bound.

    Attributes:
        label: The paper's label, or "ours".
        statement: What is bounded, and by what.
        condition: The condition, in words.
        applies: Returns whether a network meets the condition.
        compare: Compares the bound with a case. Call `bounds.compare` instead, which checks the condition first.
        zero_start: Whether the bound only covers states that start at zero.
    """

    label: str
    statement: str
    condition: str
    applies: Callable[[Network], bool]
    compare: Callable[[Case], Comparison]
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


def _after_start(case: Case) -> Tensor:
    return energies.energy(case.network, case.trajectory.y, case.trajectory.z)[1:]


def _energy(case: Case) -> Comparison:
    network, trajectory = case.network, case.trajectory
    bound = energies.energy_bound(network, len(trajectory))[1:, None]
    return _nearest(_after_start(case), bound)


def _paper_energy(case: Case) -> Comparison:
    network, trajectory = case.network, case.trajectory
    bound = claims.energy_bound(network, len(trajectory))[1:, None]
    return _nearest(_after_start(case).sum(-1), bound)


def _state(case: Case) -> Comparison:
    network, trajectory = case.network, case.trajectory
    y, z = energies.state_bound(network, len(trajectory))
    bound = torch.stack((y, z))[:, 1:, None]
    return _nearest(torch.stack((trajectory.y, trajectory.z))[:, 1:].abs(), bound)


def _separation(case: Case) -> Comparison:
    network, trajectory = case.network, case.trajectory
    # The second input is the first one reversed in time, which also works for a batch of one.
    other = simulate(network, trajectory.input.flip(0))
    apart = energies.energy(network, trajectory.y - other.y, trajectory.z - other.z)[1:]
    return _nearest(apart, energies.separation_bound(network, len(trajectory))[1:, None])


def _step(case: Case) -> Comparison:
    norms = jacobian_norms(case.network, case.trajectory.slopes)
    return _nearest(norms, torch.tensor(step_norm(case.network), dtype=torch.float64))


def _strict_product(case: Case) -> Comparison:
    lags, logs = case.products
    r = min(largest_r(case.network), 1.0)
    return _longest_lag(logs["max"], (lags * math.log1p(3 * case.network.dt[0].item() ** r))[:, None])


def _energy_product(case: Case) -> Comparison:
    lags, logs = case.products
    return _longest_lag(logs["energy"], (lags * math.log1p(energy_growth(case.network)))[:, None])


def _gain_product(case: Case) -> Comparison:
    lags, logs = case.products
    return _longest_lag(logs["euclid"], case.log_growth[lags.long()][:, None])


def _loss(case: Case) -> Comparison:
    gradients = loss_gradient(case.network, case.trajectory)
    largest = case.trajectory.input.abs().max().item()
    bounds = loss_gradient_bounds(case.network, len(case.trajectory), largest_input=largest, log_growth=case.log_growth)
    measured = torch.stack([value.abs().max() for value in gradients.values()])
    return _nearest(measured, torch.tensor([bounds[name] for name in gradients], dtype=torch.float64))


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
    return _compare(bound, Case(network, trajectory))


def compare_all(
    network: Network, trajectory: Trajectory, watch: Callable[[float], None] | None = None
) -> tuple[tuple[Bound, Comparison | None], ...]:
    """Compare all of `BOUNDS` with a trajectory. It takes less time than `compare` for each of them.

    Args:
        network: The network.
        trajectory: A trajectory of this network, from `measure.simulate`.
        watch: Function that is called with the completed share of the work that takes longest.

    Returns:
        Every bound with its comparison, or None, as from `compare`.
    """
    case = Case(network, trajectory, watch)
    return tuple((bound, _compare(bound, case)) for bound in BOUNDS)


def _compare(bound: Bound, case: Case) -> Comparison | None:
    start = case.trajectory.y[0].any() or case.trajectory.z[0].any()
    if not bound.applies(case.network) or (bound.zero_start and bool(start)):
        return None
    return bound.compare(case)
