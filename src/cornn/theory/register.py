"""The paper's claims, each with a verdict, its conditions as code, and counterexamples.

Labels are those of the paper's source. Proofs are in docs/theory.md; tests compute every counterexample.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cornn.theory import _conditions as hypothesis
from cornn.theory import _growing_gradients as growth
from cornn.theory import counterexamples as against
from cornn.theory._conditions import Condition
from cornn.theory._counterexample import Counterexample
from cornn.theory._network import Network

__all__ = ["REGISTER", "Condition", "Statement", "conditions"]

Verdict = Literal["proven", "no counterexample", "vacuous", "false"]


@dataclass(frozen=True)
class Statement:
    """A claim of the paper with its verdict.

    Attributes:
        label: Label in the paper's source.
        claim: The claim.
        verdict: "proven", "no counterexample", "vacuous" or "false".
        remark: The reason, or a sharper result.
        conditions: Functions from a network and a number of steps to the hypotheses of the claim.
        counterexamples: Functions that compute counterexamples.
    """

    label: str
    claim: str
    verdict: Verdict
    remark: str
    conditions: tuple[Callable[[Network, int], Condition], ...] = ()
    counterexamples: tuple[Callable[[], Counterexample], ...] = ()


REGISTER = (
    Statement(
        "section 2",
        "y'' + gamma y = 0 is a harmonic motion of frequency gamma",
        "false",
        "The angular frequency is sqrt(gamma).",
        counterexamples=(against.frequency_of_oscillator,),
    ),
    Statement(
        "prop:1, eq:enb",
        "|y_n|^2 + |z_n|^2 <= m n dt for gamma = epsilon = 1, implicit damping",
        "proven",
        "It even holds per neuron, beyond t = 1, and for all weights. Only its last inequality, <= m, needs n dt <= 1.",
        (hypothesis.setting, hypothesis.step_limit),
    ),
    Statement(
        "prop:en1, eq:nenb",
        "gamma |y_n|^2 + |z_n|^2 <= m n dt, explicit damping, dt < (2 epsilon - 1) / (gamma + epsilon^2) (eq:ndt)",
        "proven",
        "For a single step eq:ndt is also necessary. With the rate instead of 1, the bound holds up to "
        "dt < 2 epsilon / (gamma + epsilon^2), for any epsilon > 0.",
        (hypothesis.step_limit, hypothesis.enough_damping),
    ),
    Statement(
        "eq:ndt1",
        "eq:nenb for dt <= min(c / epsilon, ((2 - c) epsilon - 1) / gamma), some c > 0",
        "proven",
        "The best c gives eq:ndt.",
        (hypothesis.step_limit,),
    ),
    Statement(
        "eq:dt",
        "eq:nenb with implicit damping for dt < (2 epsilon - 1) / gamma",
        "proven",
        "For a single step this is also necessary.",
        (hypothesis.step_limit,),
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
        "the energy of the difference of the states under two inputs is at most 4 m n dt",
        "proven",
        "It also holds for chaotic networks.",
        (hypothesis.step_limit,),
    ),
    Statement(
        "after prop:2",
        "therefore states separate at most linearly in time, which rules out chaos",
        "false",
        "A bound on the size of the difference does not limit its growth from 1e-6: an attractor can be bounded and "
        "chaotic.",
        counterexamples=(against.separating_inputs, against.positive_exponent),
    ),
    Statement(
        "prop:n1, eq:nbd1",
        "the ODE: |y|^2 <= m t / gamma and |z|^2 <= m t for epsilon >= 1/2",
        "proven",
        "gamma y^2 + z^2 <= t / (2 epsilon) for each neuron and every epsilon > 0 is sharper.",
        (hypothesis.enough_damping,),
    ),
    Statement(
        "prop:n2, eq:nbd2",
        "the ODE: the squared differences of the states under two inputs are at most 4 m t / gamma and 4 m t",
        "proven",
        "The bound 4 t / (2 epsilon) on the energy of the difference, for each neuron, is sharper.",
        (hypothesis.enough_damping,),
    ),
    Statement(
        "after prop:n2",
        "therefore the ODE is not chaotic",
        "false",
        "As after prop:2. The Lyapunov exponent per unit of time does not change as dt falls, so it is the ODE's.",
        counterexamples=(against.positive_exponent,),
    ),
    Statement("eq:ngd1", "the ODE of the gradients", "proven", "It is the derivative of the ODE.", ()),
    Statement(
        "prop:n3_cont, eq:nbd3",
        "the ODE's gradients: |y_theta|^2 + |z_theta|^2 / gamma <= start e^(Ct) + m t^2 / (2 gamma^2)",
        "false",
        "The forcing grows as well. With e^(Ct) on both terms it is proven.",
        (hypothesis.damped_weights, hypothesis.enough_damping),
        (against.ode_gradient_grows,),
    ),
    Statement(
        "eq:assm, fig:weight_assumptions",
        "eq:assm with r = 1/2 holds for all long-memory tasks during training",
        "false",
        "It fails before training for every task of the paper except adding at T = 5000. The formula is for gamma = "
        "epsilon = 1 with implicit damping, which no experiment uses.",
        (hypothesis.r_half,),
        (against.assumption_at_the_start,),
    ),
    Statement(
        "eq:grad2 to eq:grad7",
        "the gradient as a sum over steps, and the Jacobian of one step",
        "proven",
        "They are derivatives; tests compare them with automatic differentiation.",
    ),
    Statement(
        "eq:norm1, eq:norm2",
        "||dX_n/dX_k|| <= (1 + 3 dt^r)^(n - k) under eq:assm",
        "proven",
        "`step_norm` is the smallest bound of this kind and needs no hypothesis.",
        (hypothesis.setting, hypothesis.r_half),
    ),
    Statement(
        "eq:norm2, last part",
        "(1 + 3 dt^r)^(n - k) is about 1 + 3 (n - k) dt^r",
        "false",
        "At r = 1/2 and t = 1, 3 (n - k) dt^r equals 3 / sqrt(dt), which is not small.",
        (hypothesis.setting, hypothesis.r_half),
        (growth.growing_product,),
    ),
    Statement(
        "after eq:norm2",
        "||dX_n/dX_k|| is about 1, independently of k",
        "false",
        "eq:norm2 is an upper bound only, and a weak one at r = 1/2. The norm can be far above 1 and far below it.",
        (hypothesis.setting, hypothesis.r_half),
        (growth.product_far_above_one, growth.product_far_below_one),
    ),
    Statement(
        "eq:norm20",
        "|dE_n^(k)/dtheta| <= (|y_n| + |target_n|) (1 + 3 (n - k) dt^r) delta dt |factor|, maximum norms",
        "false",
        "The approximation of the product fails at r = 1/2. The first factor must be a sum over neurons, not a "
        "maximum: this fails at r = 1 as well.",
        (hypothesis.setting, hypothesis.r_half),
        (growth.growing_lag_gradient, growth.hub_lag_gradient),
    ),
    Statement(
        "eq:norm3",
        "|dE_n^(k)/dW| <= (m sqrt(n k) dt + |target| sqrt(m k dt)) (1 + 3 (n - k) dt^r) delta dt",
        "false",
        "Derived from eq:norm20.",
        (hypothesis.setting, hypothesis.r_half, hypothesis.unit_time),
        (growth.growing_weight_gradient,),
    ),
    Statement(
        "eq:norm30",
        "|dE_n^(k)/dW| <= delta dt (m + sqrt(m) |target|) at lags of a few steps",
        "false",
        "At short lags the product is harmless; what fails is the maximum over neurons in place of the sum, and only "
        "with many neurons.",
        (hypothesis.setting, hypothesis.r_half, hypothesis.unit_time),
        (growth.hub_early_gradient,),
    ),
    Statement(
        "eq:norm4",
        "|dE_n^(k)/dW| <= 3 delta dt^(r + 1/2) (m + sqrt(m) |target|) for k much smaller than n",
        "false",
        "Derived from eq:norm3.",
        (hypothesis.setting, hypothesis.r_half, hypothesis.unit_time),
        (growth.growing_late_gradient,),
    ),
    Statement(
        "eq:norm5",
        "|dE_n^(k)/dtheta| <= 3 delta dt (m + sqrt(m) |target|)",
        "false",
        "Derived from eq:norm20.",
        (hypothesis.setting, hypothesis.r_half, hypothesis.unit_time),
        (growth.growing_step_gradient,),
    ),
    Statement(
        "eq:norm6",
        "|dE_n/dtheta| <= 3 delta t_n (m + sqrt(m) |target|)",
        "false",
        "Derived from eq:norm20.",
        (hypothesis.setting, hypothesis.r_half, hypothesis.unit_time),
        (growth.growing_sum_gradient,),
    ),
    Statement(
        "prop:3, eq:gbd",
        "|dE/dtheta| <= 3/2 (m + Y sqrt(m)) under eq:assm, for t <= 1",
        "false",
        "False at r = 1/2 with one neuron, and at r = 1 with 2,500 neurons and targets above 300. "
        "`loss_gradient_bounds` is a valid bound.",
        (hypothesis.setting, hypothesis.r_half, hypothesis.unit_time),
        (growth.growing_loss_gradient, growth.hub_loss_gradient),
    ),
    Statement(
        "prop:n3, eq:ngbd",
        "|dE/dtheta| <= 3 C (m + Y sqrt(m)) / (2 gamma) under eq:nassm, explicit damping",
        "false",
        "See prop:3.",
        (hypothesis.step_limit, hypothesis.r_half, hypothesis.unit_time),
        (growth.growing_explicit_loss_gradient,),
    ),
    Statement(
        "eq:gd2, eq:gd3",
        "eq:assm holds for L steps of gradient descent",
        "vacuous",
        "L is below one step for every task of the paper. Also, it is derived from prop:3.",
        counterexamples=(against.safe_steps,),
    ),
    Statement(
        "eq:vg2",
        "a formula for dX_n/dX_k, up to O(dt)",
        "false",
        "At a fixed lag in time, the remainder does not vanish with dt.",
        (hypothesis.setting, hypothesis.r_one),
        (against.representation_remainder,),
    ),
    Statement(
        "eq:vg2, short lags",
        "ours: the remainder of eq:vg2 is of order (t_n - t_k)^2",
        "no counterexample",
        "The formula is accurate at lags of a few steps.",
        (hypothesis.setting, hypothesis.r_one),
    ),
    Statement(
        "eq:vg4, eq:vg8",
        "a formula for dE_n^(k)/dW, up to O(dt^3)",
        "false",
        "Derived from eq:vg2. At long lags the remainder is as large as the leading terms.",
        (hypothesis.setting, hypothesis.r_one),
        (against.leading_gradient_remainder,),
    ),
    Statement(
        "eq:vg9, eq:vg10",
        "|W|, |W_z| <= 1 + dt under eq:assm with r = 1, so sech^2(sqrt(k dt) (1 + dt)) <= slope <= 1",
        "proven",
        "For t <= 1, from the energy bound per neuron, without the assumption that y is of order sqrt(t). With u = b = "
        "0, as in prop:4, the slope is 1.",
        (hypothesis.setting, hypothesis.r_one, hypothesis.unit_time),
    ),
    Statement(
        "eq:vg11",
        "delta dt^2 slope y_n y_(k-1) is of order dt^(5/2)",
        "false",
        "y_(k-1) is at most of order (k dt)^2 near the start, not sqrt(k dt); with u = b = 0 it is 0.",
        (hypothesis.setting, hypothesis.r_one, hypothesis.unit_time),
        (against.early_term,),
    ),
    Statement(
        "eq:vg12",
        "C*, the sum of the products of C, is a multiple of the identity, of order n",
        "false",
        "W_z of order 1 acts for a time of order 1, so the off-diagonal entries are of order n as well.",
        (hypothesis.setting, hypothesis.r_one),
        (against.coupled_sum,),
    ),
    Statement(
        "eq:vg110",
        "delta dt^2 slope sum_l C*_(l i) y_n^l y_(k-1) is of order dt^(3/2), also from below",
        "false",
        "Derived from eq:vg12. The terms of the sum can cancel.",
        (hypothesis.setting, hypothesis.r_one),
        (against.cancelling_sum,),
    ),
    Statement(
        "remark after eq:vg110",
        "the energy bound says nothing about single neurons, so equidistribution is a reasonable assumption",
        "false",
        "The bound holds for each neuron (prop:1). There is no lower bound: a neuron without drive stays at 0.",
        counterexamples=(against.unequal_energy,),
    ),
    Statement(
        "prop:4, eq:gulb",
        "with u = b = target = 0, dE_n^(k)/dW is of order dt^(3/2) for every k",
        "vacuous",
        "u = b = 0 and a zero start give y = 0 at all times, which contradicts the assumption that y is of order "
        "sqrt(t). No drive makes y that large near t = 0: |y_n| <= dt^2 n (n + 1) / 2 in the first steps.",
        (hypothesis.setting, hypothesis.r_one, hypothesis.unit_time),
        (against.silent_state,),
    ),
    Statement(
        "section 3, end",
        "the lower bound on gradients is due to the discretisation and has no continuous analogue",
        "false",
        "There is no such bound (prop:4). Each step's part of the gradient tends to dt times that of the ODE, so the "
        "discretisation adds nothing.",
        (hypothesis.setting, hypothesis.r_one),
        (against.gradient_of_ode,),
    ),
    Statement(
        "prop:n4, eq:ngulb",
        "the same for explicit damping and any gamma, epsilon, of order dt^(3/2) / gamma",
        "vacuous",
        "See prop:4.",
        (hypothesis.step_limit, hypothesis.r_one),
        (against.silent_state,),
    ),
    Statement(
        "after prop:n4",
        "therefore gradients cannot vanish",
        "false",
        "They vanish in one of the paper's own tasks, at times beyond t = 1, and `slowest_rate` < 1 proves it from the "
        "weights.",
        counterexamples=(against.vanishing_gradient,),
    ),
)


def conditions(network: Network, steps: int) -> list[Condition]:
    """Evaluate every hypothesis of the paper, once each.

    Args:
        network: The network.
        steps: Number of steps per sequence.

    Returns:
        The hypotheses with their values and limits.
    """
    by_name: dict[str, Condition] = {}
    for statement in REGISTER:
        for condition in statement.conditions:
            evaluated = condition(network, steps)
            by_name.setdefault(evaluated.name, evaluated)
    return list(by_name.values())
