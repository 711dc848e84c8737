"""The register: the paper's statements, each with its conditions as code and what became of it when it was tried.

Labels are those of paper.tex. Proofs and remarks are in docs/theory.md; every counterexample is computed in a test.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cornn.theory import counterexamples as against
from cornn.theory.counterexamples import Counterexample
from cornn.theory.energy import paper_step_limit
from cornn.theory.hypotheses import left_sides, row_sums
from cornn.theory.network import Network

__all__ = ["REGISTER", "Condition", "Statement", "conditions"]

Verdict = Literal["proven", "holds where tried", "vacuous", "false"]


@dataclass(frozen=True)
class Condition:
    """A hypothesis and how a network meets it: it holds if value is not above limit."""

    name: str
    value: float
    limit: float
    numeric: bool = True

    @property
    def holds(self) -> bool:
        return self.value <= self.limit


def _setting(network: Network, steps: int) -> Condition:
    name = "the main text's case: gamma = epsilon = 1, implicit damping, tanh"
    return Condition(name, float(not network.paper_case), 0.0, numeric=False)


def _unit_time(network: Network, steps: int) -> Condition:
    return Condition("steps dt <= 1", steps * network.dt.max().item(), 1.0)


def _step_limit(network: Network, steps: int) -> Condition:
    name = "dt <= (2 epsilon - 1) / (gamma + epsilon^2), eq:ndt"
    if network.damping == "implicit":
        name = "dt <= (2 epsilon - 1) / gamma, eq:dt"
    limit = paper_step_limit(network)
    worst = (network.dt - limit).argmax()
    return Condition(name, network.dt[worst].item(), limit[worst].item())


def _enough_damping(network: Network, steps: int) -> Condition:
    return Condition("1/2 <= epsilon", 0.5, network.epsilon.min().item())


def _weights(network: Network, r: float, limit: str) -> Condition:
    """The row of W and W_z that misses dt**r by most, or comes nearest to it."""
    rows, limits = left_sides(network), network.dt**r
    worst = (rows / limits).argmax()
    name = f"eta <= {limit}, " + ("eq:assm" if network.damping == "implicit" else "eq:nassm with C = 1")
    return Condition(name, rows[worst].item(), limits[worst].item())


def _half(network: Network, steps: int) -> Condition:
    return _weights(network, 0.5, "dt^(1/2)")


def _whole(network: Network, steps: int) -> Condition:
    return _weights(network, 1.0, "dt")


def _damped_weights(network: Network, steps: int) -> Condition:
    rows = row_sums(network.W) + row_sums(network.W_z)
    worst = (rows - network.epsilon).argmax()
    return Condition("||W|| + ||W_z|| <= epsilon", rows[worst].item(), network.epsilon[worst].item())


@dataclass(frozen=True)
class Statement:
    """One statement of the paper, what became of it, and its conditions and counterexamples as code."""

    label: str
    claim: str
    verdict: Verdict
    remark: str
    conditions: tuple[Callable[[Network, int], Condition], ...] = ()
    counterexamples: tuple[Callable[[], Counterexample], ...] = ()


REGISTER = (
    Statement(
        "prop:1, eq:enb",
        "|y_n|^2 + |z_n|^2 <= m n dt for gamma = epsilon = 1, implicit damping",
        "proven",
        "And neuron by neuron, beyond t = 1, for all weights. Only its last part, <= m, needs n dt <= 1.",
        (_setting, _step_limit),
    ),
    Statement(
        "prop:en1, eq:nenb",
        "gamma |y_n|^2 + |z_n|^2 <= m n dt, explicit damping, dt < (2 epsilon - 1) / (gamma + epsilon^2) (eq:ndt)",
        "proven",
        "For one step eq:ndt is necessary too. With the rate in place of 1 it holds up to "
        "dt < 2 epsilon / (gamma + epsilon^2), and any epsilon.",
        (_step_limit, _enough_damping),
    ),
    Statement(
        "eq:ndt1",
        "eq:nenb for dt <= min(c / epsilon, ((2 - c) epsilon - 1) / gamma), some c > 0",
        "proven",
        "The best c gives eq:ndt.",
        (_step_limit,),
    ),
    Statement(
        "eq:dt",
        "eq:nenb with implicit damping for dt < (2 epsilon - 1) / gamma",
        "proven",
        "For one step it is necessary too.",
        (_step_limit,),
    ),
    Statement(
        "after eq:dt",
        "in practice explicit damping is stable in the same range of dt as implicit",
        "false",
        "The exact limits are (sqrt(epsilon^2 + 4 gamma) -+ epsilon) / gamma, minus for explicit damping.",
        counterexamples=(against.same_range,),
    ),
    Statement(
        "prop:2, eq:enb1",
        "the states under two inputs differ by 4 m n dt at the most, as an energy",
        "proven",
        "It holds for chaotic networks as well.",
        (_step_limit,),
    ),
    Statement(
        "after prop:2",
        "so states separate linearly in time at the most, and chaos is ruled out",
        "false",
        "A bound on the size of the difference says nothing of its growth from 1e-9: the attractor is bounded, and "
        "chaotic.",
        counterexamples=(against.separating_inputs, against.positive_exponent),
    ),
    Statement(
        "prop:n1, eq:nbd1",
        "the ODE: |y|^2 <= m t / gamma and |z|^2 <= m t for epsilon >= 1/2",
        "proven",
        "gamma y^2 + z^2 <= t / (2 epsilon) for each neuron and every epsilon > 0 is sharper.",
        (_enough_damping,),
    ),
    Statement(
        "prop:n2, eq:nbd2",
        "the ODE: the states under two inputs differ by 4 m t / gamma and 4 m t at the most, squared",
        "proven",
        "Again 4 t / (2 epsilon) for each neuron, as an energy, is sharper.",
        (_enough_damping,),
    ),
    Statement(
        "after prop:n2",
        "so the ODE is not chaotic",
        "false",
        "As after prop:2. The exponent per unit of time stays as dt falls, so that it is the ODE's.",
        counterexamples=(against.positive_exponent,),
    ),
    Statement("eq:ngd1", "the ODE that gradients obey", "proven", "It is the derivative of the ODE.", ()),
    Statement(
        "prop:n3_cont, eq:nbd3",
        "the ODE's gradients: |y_theta|^2 + |z_theta|^2 / gamma <= start e^(Ct) + m t^2 / (2 gamma^2)",
        "false",
        "The forcing grows too. With e^(Ct) on both terms it is proven.",
        (_damped_weights, _enough_damping),
        (against.ode_gradient_grows,),
    ),
    Statement(
        "eq:assm, fig:weight_assumptions",
        "eq:assm with r = 1/2 holds for all long-memory tasks during training",
        "false",
        "It fails before training for every task of the paper but adding at T = 5000. Its formula is that of gamma = "
        "epsilon = 1 with implicit damping, which no experiment used.",
        (_half,),
        (against.assumption_at_the_start,),
    ),
    Statement(
        "eq:norm1, eq:norm2",
        "||dX_n/dX_k|| <= (1 + 3 dt^r)^(n - k) under eq:assm",
        "proven",
        "`step_norm` is the least bound of this kind, without a hypothesis.",
        (_setting, _half),
    ),
    Statement(
        "eq:norm2, last part",
        "(1 + 3 dt^r)^(n - k) is about 1 + 3 (n - k) dt^r",
        "false",
        "At r = 1/2 the exponent 3 (n - k) dt^r is not small: it is 3 / sqrt(dt) at t = 1.",
        (_setting, _half),
        (against.growing_product,),
    ),
    Statement(
        "eq:norm20",
        "|dE_n^(k)/dtheta| <= (|y_n| + |target_n|) (1 + 3 (n - k) dt^r) delta dt |factor|, maximum norms",
        "false",
        "The product's approximation fails at r = 1/2. The first factor has to be a sum over neurons and not a "
        "maximum, which fails at r = 1 as well.",
        (_setting, _half),
        (against.growing_lag_gradient, against.hub_lag_gradient),
    ),
    Statement(
        "eq:norm5",
        "|dE_n^(k)/dtheta| <= 3 delta dt (m + sqrt(m) |target|)",
        "false",
        "It rests on eq:norm20.",
        (_setting, _half, _unit_time),
        (against.growing_step_gradient,),
    ),
    Statement(
        "eq:norm6",
        "|dE_n/dtheta| <= 3 delta t_n (m + sqrt(m) |target|)",
        "false",
        "It rests on eq:norm20.",
        (_setting, _half, _unit_time),
        (against.growing_sum_gradient,),
    ),
    Statement(
        "prop:3, eq:gbd",
        "|dE/dtheta| <= 3/2 (m + Y sqrt(m)) under eq:assm, for t <= 1",
        "false",
        "False at r = 1/2 with one neuron, at r = 1 with 2,500. `loss_gradient_bounds` stands.",
        (_setting, _half, _unit_time),
        (against.growing_loss_gradient, against.hub_loss_gradient),
    ),
    Statement(
        "prop:n3, eq:ngbd",
        "|dE/dtheta| <= 3 C (m + Y sqrt(m)) / (2 gamma) under eq:nassm, explicit damping",
        "false",
        "As prop:3.",
        (_step_limit, _half, _unit_time),
        (against.growing_explicit_loss_gradient,),
    ),
    Statement(
        "eq:gd3",
        "eq:assm holds for L steps of gradient descent",
        "vacuous",
        "L is below one step at the values of every task of the paper, and it rests on prop:3.",
        counterexamples=(against.safe_steps,),
    ),
    Statement(
        "eq:vg2",
        "a formula for dX_n/dX_k, up to O(dt)",
        "false",
        "What is left out does not fall with dt when the lag is a given time.",
        (_setting, _whole),
        (against.representation_remainder,),
    ),
    Statement(
        "eq:vg2, short lags",
        "ours: what eq:vg2 leaves out is of order (t_n - t_k)^2",
        "holds where tried",
        "So the formula serves at lags of few steps.",
        (_setting, _whole),
    ),
    Statement(
        "eq:vg4, eq:vg8",
        "a formula for dE_n^(k)/dW, up to O(dt^3)",
        "false",
        "It rests on eq:vg2; what is left out is of the size of the rest at long lags.",
        (_setting, _whole),
        (against.leading_gradient_remainder,),
    ),
    Statement(
        "prop:4, eq:gulb",
        "with u = b = target = 0, dE_n^(k)/dW is of order dt^(3/2), whatever k",
        "vacuous",
        "u = b = 0 and a zero start give y = 0 for ever, against the assumption that y is of order sqrt(t). No drive "
        "gives that near t = 0 either: |y_n| <= dt^2 n (n + 1) / 2 in the first steps.",
        (_setting, _whole, _unit_time),
        (against.silent_state,),
    ),
    Statement(
        "prop:n4, eq:ngulb",
        "the same for explicit damping and any gamma, epsilon, of order dt^(3/2) / gamma",
        "vacuous",
        "As prop:4.",
        (_step_limit, _whole),
        (against.silent_state,),
    ),
    Statement(
        "after prop:n4",
        "so vanishing gradients are ruled out",
        "false",
        "They vanish in one of the paper's own tasks, and `slowest_rate` below 1 proves it from the weights.",
        counterexamples=(against.vanishing_gradient,),
    ),
)


def conditions(network: Network, steps: int) -> list[Condition]:
    """Every hypothesis of the register once, as this network meets it over so many steps."""
    found: dict[str, Condition] = {}
    for statement in REGISTER:
        for condition in statement.conditions:
            made = condition(network, steps)
            found.setdefault(made.name, made)
    return list(found.values())
