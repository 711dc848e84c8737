"""The hypotheses of the paper's claims, evaluated for a network and a number of steps."""

from dataclasses import dataclass

from cornn.theory._network import Network
from cornn.theory.energy import paper_step_limit
from cornn.theory.hypotheses import left_sides, row_sums

__all__ = ["Condition", "damped_weights", "enough_damping", "r_half", "r_one", "setting", "step_limit", "unit_time"]


@dataclass(frozen=True)
class Condition:
    """A hypothesis evaluated for a network.

    Attributes:
        name: The hypothesis, in words.
        value: Its left side.
        limit: Its right side.
        numeric: Whether `value` and `limit` are worth printing; otherwise only whether the hypothesis holds.
    """

    name: str
    value: float
    limit: float
    numeric: bool = True

    @property
    def holds(self) -> bool:
        """Whether `value` is at most `limit`."""
        return self.value <= self.limit


def setting(network: Network, steps: int) -> Condition:
    name = "setting of the main text (gamma = epsilon = 1, implicit damping, tanh)"
    return Condition(name, float(not network.paper_case), 0.0, numeric=False)


def unit_time(network: Network, steps: int) -> Condition:
    return Condition("steps dt <= 1", steps * network.dt.max().item(), 1.0)


def step_limit(network: Network, steps: int) -> Condition:
    name = "dt <= (2 epsilon - 1) / (gamma + epsilon^2), eq:ndt"
    if network.damping == "implicit":
        name = "dt <= (2 epsilon - 1) / gamma, eq:dt"
    limit = paper_step_limit(network)
    worst = (network.dt - limit).argmax()
    return Condition(name, network.dt[worst].item(), limit[worst].item())


def enough_damping(network: Network, steps: int) -> Condition:
    return Condition("1/2 <= epsilon", 0.5, network.epsilon.min().item())


def _weights(network: Network, r: float, limit: str) -> Condition:
    """Compare the row of W and W_z that exceeds dt**r the most, or comes closest to it."""
    rows, limits = left_sides(network), network.dt**r
    worst = (rows / limits).argmax()
    name = f"eta <= {limit}, " + ("eq:assm" if network.damping == "implicit" else "eq:nassm with C = 1")
    return Condition(name, rows[worst].item(), limits[worst].item())


def r_half(network: Network, steps: int) -> Condition:
    return _weights(network, 0.5, "dt^(1/2)")


def r_one(network: Network, steps: int) -> Condition:
    return _weights(network, 1.0, "dt")


def damped_weights(network: Network, steps: int) -> Condition:
    rows = row_sums(network.W) + row_sums(network.W_z)
    worst = (rows - network.epsilon).argmax()
    return Condition("||W|| + ||W_z|| <= epsilon", rows[worst].item(), network.epsilon[worst].item())
