"""Counterexamples to claims of the paper, as small as we could make them. Each call computes one from scratch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn._random import generator
from cornn.theory import claims
from cornn.theory._network import Network, network
from cornn.theory.energy import separation_bound
from cornn.theory.hypotheses import assumption
from cornn.theory.linear import period, stability_limit
from cornn.theory.measure import (
    gradient_by_lag,
    jacobian,
    loss_gradient,
    lyapunov_exponents,
    product_norms,
    separation,
    simulate,
)
from cornn.theory.representation import leading_gradient, leading_remainder

__all__ = ["Counterexample", "chaotic_network"]


@dataclass(frozen=True)
class Counterexample:
    """A claimed value next to the measured one.

    Attributes:
        setting: The network and its input, in words.
        claimed: The claimed bound.
        measured: The measured value.
        reach: How far it goes: which sizes, times and constants it needs.
        is_lower_bound: Whether the claim is a lower bound; otherwise it is an upper bound.
    """

    setting: str
    claimed: float
    measured: float
    reach: str
    is_lower_bound: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether the measured value contradicts the claim."""
        return self.measured < self.claimed if self.is_lower_bound else self.measured > self.claimed


def _make_growing(damping: str, dt: float = 0.01) -> Network:
    """Return one neuron at the limit of eq:assm or eq:nassm (C = 1) with r = 1/2: W, W_z of order 1 / sqrt(dt)."""
    edge = dt**-0.5 * (1 + dt if damping == "implicit" else 1)
    weight = torch.full((1, 1), edge, dtype=torch.float64)
    return network(weight - 1, weight, dt, 1.0, 1.0, damping=damping)


def _zero_input(steps: int, features: int = 1) -> Tensor:
    return torch.zeros(steps, 1, features, dtype=torch.float64)


ONE_NEURON = "one neuron suffices, within t <= 1; for dt up to"
STRONG = "strong coupling, ||W|| = 48, and t far beyond 1, as in all of the paper's experiments"
SETTING = "m = 1, gamma = epsilon = 1, dt = 0.01, 100 steps, u = b = 0, target 1, W and W_z at the edge of"


def growing_product() -> Counterexample:
    """Exceed the approximation in eq:norm2 with one neuron."""
    neuron = _make_growing("implicit")
    log = product_norms(neuron, simulate(neuron, _zero_input(100)))[1][-1, 0].item()
    claimed = claims.approximate_product(0.01, 0.5, 100)
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: dX_100/dX_0", claimed, math.exp(log), f"{ONE_NEURON} 1/8")


def product_far_above_one() -> Counterexample:
    """Exceed 1, which the norm of a product is said to be close to."""
    case = growing_product()
    return Counterexample(case.setting, 1.0, case.measured, "r below 1: at r = 1 and t <= 1 it is below e^3 = 20")


def product_far_below_one() -> Counterexample:
    """Fall below 1, which the norm of a product is said to be close to, with an uncoupled neuron."""
    neuron = network(torch.zeros(1, 1), torch.zeros(1, 1), 0.01, 1.0, 1.0, damping="implicit")
    log = product_norms(neuron, simulate(neuron, _zero_input(2000)), every=2000)[1][-1, 0].item()
    setting = "m = 1, W = W_z = 0, gamma = epsilon = 1, dt = 0.01, 2,000 steps: dX_2000/dX_0"
    reach = "t = 20, as in the paper's experiments (t = 13 to 80); at t <= 1 it is 1 to 1.3"
    return Counterexample(setting, 1.0, math.exp(log), reach, is_lower_bound=True)


def growing_loss_gradient() -> Counterexample:
    """Exceed prop:3 with one neuron."""
    neuron = _make_growing("implicit")
    measured = loss_gradient(neuron, simulate(neuron, _zero_input(100)), 1.0)["b"].abs().item()
    claimed = claims.loss_gradient(1, 1.0)
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: dE/db", claimed, measured, f"{ONE_NEURON} 1/60")


def growing_explicit_loss_gradient() -> Counterexample:
    """Exceed prop:n3 with one neuron."""
    neuron = _make_growing("explicit")
    measured = loss_gradient(neuron, simulate(neuron, _zero_input(100)), 1.0)["b"].abs().item()
    claimed = claims.explicit_loss_gradient(1, 1.0, 1.0, 1.0)
    setting = f"{SETTING} eq:nassm with C = 1, r = 1/2, explicit damping: dE/db"
    return Counterexample(setting, claimed, measured, f"{ONE_NEURON} 1/60")


def growing_lag_gradient() -> Counterexample:
    """Exceed eq:norm20 with one neuron."""
    neuron = _make_growing("implicit")
    measured = gradient_by_lag(neuron, simulate(neuron, _zero_input(100)), 1.0)["b"][0].item()
    claimed = claims.lag_gradient(0.0, 1.0, 1.0, 0.01, 0.5, 99)
    setting = f"{SETTING} eq:assm with r = 1/2: step 1's part of dE_100/db"
    return Counterexample(setting, claimed, measured, f"{ONE_NEURON} 1/30")


def growing_step_gradient() -> Counterexample:
    """Exceed eq:norm5 with one neuron."""
    case = growing_lag_gradient()
    return Counterexample(case.setting, claims.step_gradient(1, 1.0, 0.01), case.measured, f"{ONE_NEURON} 1/20")


def growing_sum_gradient() -> Counterexample:
    """Exceed eq:norm6 with one neuron."""
    neuron = _make_growing("implicit")
    measured = gradient_by_lag(neuron, simulate(neuron, _zero_input(100)), 1.0)["b"].sum().item()
    claimed = claims.sum_gradient(1, 1.0, 0.01, 100)
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: dE_100/db", claimed, measured, f"{ONE_NEURON} 1/40")


def _measure_weight_gradient(setting: str, claimed: float, dt: float, n: int, k: int) -> Counterexample:
    """Measure step k's part of dE_n/dW: a full force until step k, then an input that keeps tanh at 0."""
    neuron, delta = _make_growing("implicit", dt), 1 / (1 + dt)
    W, W_z = neuron.W.item(), neuron.W_z.item()
    y = z = 0.0
    inputs = []
    for step in range(1, n + 1):
        argument = 20.0 if step < k else 0.0
        inputs.append(argument - W * y - W_z * z)
        z = delta * (z + dt * (math.tanh(argument) - y))
        y += dt * z
    trajectory = simulate(neuron, torch.tensor(inputs, dtype=torch.float64)[:, None, None])
    measured = gradient_by_lag(neuron, trajectory, 1.0)["W"][k - 1].item()
    return Counterexample(setting, claimed, measured, "one neuron suffices, within t <= 1; not at dt = 0.01")


WEIGHT = (
    "m = 1, dt = 0.0025, W and W_z at the edge of eq:assm with r = 1/2, a full force until step 40, then tanh kept at "
    "0, target 1: step 40's part of dE_400/dW"
)


def growing_weight_gradient() -> Counterexample:
    """Exceed eq:norm3 with one neuron."""
    claimed = claims.weight_gradient(1, 1.0, 0.0025, 0.5, 400, 40)
    return _measure_weight_gradient(WEIGHT, claimed, 0.0025, 400, 40)


def growing_late_gradient() -> Counterexample:
    """Exceed eq:norm4 with one neuron."""
    return _measure_weight_gradient(WEIGHT, claims.late_gradient(1, 1.0, 0.0025, 0.5), 0.0025, 400, 40)


def hub_early_gradient() -> Counterexample:
    """Exceed eq:norm30 at a lag of ten steps, with one neuron that drives 9,999 others.

    The others behave alike, so two neurons are computed, and the second counts 9,999 times.
    """
    m, dt, n, k, target = 10_000, 0.01, 100, 90, 1000.0
    delta = 1 / (1 + dt)
    W_z = torch.zeros(2, 2, dtype=torch.float64)
    W_z[1, 0] = dt**-0.5 / delta  # at the edge of eq:assm with r = 1/2
    hub = network(torch.zeros(2, 2), W_z, dt, 1.0, 1.0, damping="implicit")
    product = torch.linalg.matrix_power(jacobian(hub, torch.ones(1, 2, dtype=torch.float64))[0], n - k)
    y = z = 0.0
    for _ in range(k - 1):  # the first neuron, under a full force
        z = delta * (z + dt * (1 - y))
        y += dt * z
    moved = (product[1, 0] * dt + product[1, 2]).item() * delta * dt * y  # a follower's y_n, by W_11 at step k
    setting = (
        "m = 10,000, W = 0, W_z couples all neurons to the first at the edge of eq:assm with r = 1/2, dt = 0.01, a "
        "full force on the first until step 90, then tanh kept at 0, target 1,000: step 90's part of dE_100/dW_11"
    )
    reach = "10,000 neurons and targets of 1,000; with one neuron the bound holds"
    return Counterexample(setting, claims.early_gradient(m, target, dt), (m - 1) * target * moved, reach)


def _hub(m: int, dt: float) -> Network:
    """Couple every neuron to the velocity of the first: eq:assm holds with r = 1, and one bias moves all neurons."""
    W_z = torch.zeros(m, m, dtype=torch.float64)
    W_z[:, 0] = 1 + dt
    zeros = torch.zeros(m, 1, dtype=torch.float64)
    return network(torch.zeros(m, m), W_z, dt, 1.0, 1.0, V=zeros, damping="implicit")


def hub_lag_gradient() -> Counterexample:
    """Exceed eq:norm20 at r = 1 with 100 neurons."""
    m, dt = 100, 0.05
    hub = _hub(m, dt)
    measured = gradient_by_lag(hub, simulate(hub, _zero_input(20)), 1.0)["b"][0].item()
    setting = "m = 100, W = 0, W_z = 1 + dt in its first column, dt = 0.05, r = 1: step 1's part of dE_20/db_1"
    claimed = claims.lag_gradient(0.0, 1.0, 1.0, dt, 1.0, 19)
    return Counterexample(setting, claimed, measured, "ten neurons suffice, within t <= 1, at any r")


def hub_loss_gradient() -> Counterexample:
    """Exceed prop:3 at r = 1 with 2,500 neurons."""
    m, dt, target = 2500, 0.05, 1e6
    hub = _hub(m, dt)
    measured = loss_gradient(hub, simulate(hub, _zero_input(20)), target)["b"][0, 0].abs().item()
    setting = "m = 2500, W = 0, W_z = 1 + dt in its first column, dt = 0.05, 20 steps, target 1e6, r = 1: dE/db_1"
    return Counterexample(setting, claims.loss_gradient(m, target), measured, "2,500 neurons and targets above 300")


def chaotic_network(dt: float = 0.1) -> tuple[Network, Tensor]:
    """Return 64 neurons with a random W, and an input that is nonzero for its first 2 units of time."""
    W = torch.randn(64, 64, generator=generator(0, "chaos", "W"), dtype=torch.float64) * 6 / 8
    input = torch.zeros(round(200 / dt), 1, 64, dtype=torch.float64)
    first = 0.5 * torch.randn(64, generator=generator(0, "chaos", "input"), dtype=torch.float64)
    input[: round(2 / dt)] = first
    return network(W, torch.zeros(64, 64), dt, 1.0, 1.0, damping="implicit"), input


def separating_inputs() -> Counterexample:
    """Separate two inputs that differ by 1e-6 at one step, far beyond linear growth.

    The separation ends below the size of the attractor, where its digits would depend on how a machine rounds.
    """
    chaotic, input = chaotic_network()
    input = input[:1000]
    other = input.clone()
    other[0, 0, 0] += 1e-6
    apart = torch.sqrt(separation(chaotic, input, other)[:, 0])
    setting = "m = 64, gamma = epsilon = 1, dt = 0.1, implicit, random W, inputs 1e-6 apart at one step, 1,000 steps"
    return Counterexample(setting, (len(input) * apart[1]).item(), apart.max().item(), STRONG)


def positive_exponent() -> Counterexample:
    """Show a positive Lyapunov exponent: chaos."""
    chaotic, input = chaotic_network()
    largest = lyapunov_exponents(chaotic, simulate(chaotic, input), skip=500)[0, 0].item() / 0.1
    return Counterexample("the same network: largest Lyapunov exponent per unit of time", 0.0, largest, STRONG)


def same_range() -> Counterexample:
    """Show that the stability limits of the two dampings differ."""
    explicit, implicit = (stability_limit(94.5, 9.5, damping=damping).item() for damping in ("explicit", "implicit"))
    setting = "gamma = 94.5, epsilon = 9.5: limit of dt, explicit and implicit damping"
    return Counterexample(setting, explicit, implicit, "all constants: the limits differ by 2 epsilon / gamma")


def representation_remainder() -> Counterexample:
    """Show that the remainder of eq:vg2 does not vanish with dt."""
    dt = 0.01
    neuron = network(torch.zeros(1, 1), torch.zeros(1, 1), dt, 1.0, 1.0, damping="implicit")
    _, left = leading_remainder(neuron, simulate(neuron, _zero_input(100)))
    setting = "m = 1, W = W_z = 0, gamma = epsilon = 1, dt = 0.01, lag 100"
    reach = "lags of order 1 in time, however small dt is; at lags of a few steps the formula is accurate"
    return Counterexample(setting, dt, left[-1, 0].item(), reach)


def leading_gradient_remainder() -> Counterexample:
    """Show that the remainder of eq:vg8 is larger than dt**3."""
    dt = 0.01
    neuron = network(torch.zeros(1, 1), torch.zeros(1, 1), dt, 1.0, 1.0, damping="implicit")
    trajectory = simulate(neuron, _zero_input(100) + 0.3)
    exact = gradient_by_lag(neuron, trajectory)["b"][0, 0].item()
    setting = "m = 1, W = W_z = 0, gamma = epsilon = 1, dt = 0.01, u = 0.3: step 1's part of dE_100/db"
    left = abs(leading_gradient(neuron, trajectory)[0, 0, 0].item() - exact)
    return Counterexample(setting, dt**3, left, "lags of order 1 in time: the remainder is of order dt, not dt^3")


def early_term() -> Counterexample:
    """Show that the first term of eq:vg8 at k = 2 is far below its claimed order for every input."""
    dt = 0.01
    delta = 1 / (1 + dt)
    largest = delta * dt**2  # |y_1|, of a full force
    setting = "dt = 0.01, k = 2, y_n at its energy bound, the largest y_1 of all inputs: the term of eq:vg11"
    reach = "steps near the start, any input: the term is of order dt^4 there"
    claimed = delta * dt**2.5 / math.cosh(math.sqrt(2 * dt) * (1 + dt)) ** 2
    return Counterexample(setting, claimed, delta * dt**2 * largest, reach, is_lower_bound=True)


def _summed_products(dt: float, steps: int) -> Tensor:
    """Return C* of eq:vg12 for two neurons that drive each other's velocity, with all slopes 1."""
    coupled = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    C = (torch.eye(2, dtype=torch.float64) + dt * coupled) / (1 + dt)
    return sum((torch.linalg.matrix_power(C, power) for power in range(1, steps + 1)), torch.zeros_like(C))


TWO = "m = 2, W = 0, W_z = [[0, 1], [1, 0]], dt = 0.01, lag 100"


def coupled_sum() -> Counterexample:
    """Show that C* of eq:vg12 is not a multiple of the identity."""
    C = _summed_products(0.01, 100)
    reach = "any coupling through W_z of order 1, which eq:assm with r = 1 allows, at lags of order 1 in time"
    return Counterexample(f"{TWO}: off-diagonal over diagonal entry of C*", 0.0, (C[0, 1] / C[0, 0]).item(), reach)


def cancelling_sum() -> Counterexample:
    """Make the sum of eq:vg110 zero with two neurons of opposite sign."""
    dt, k = 0.01, 10
    delta, C = 1 / (1 + dt), _summed_products(dt, 100)
    last = torch.stack((C[1, 0] / C[0, 0], torch.tensor(-1.0, dtype=torch.float64))) / 2  # y_n, both of order 1
    measured = abs(delta * dt**2 * (C[:, 0] @ last).item() * math.sqrt(k * dt))
    claimed = delta * dt**1.5 / math.cosh(math.sqrt(k * dt) * (1 + dt)) ** 2
    reach = "two neurons suffice; any y_n orthogonal to a column of C*"
    return Counterexample(f"{TWO}, k = 10: the sum of eq:vg110", claimed, measured, reach, is_lower_bound=True)


def unequal_energy() -> Counterexample:
    """Drive one of two neurons: the other has no energy."""
    zeros = torch.zeros(2, 2)
    neurons = network(zeros, zeros, 0.01, 1.0, 1.0, b=torch.tensor([1.0, 0.0]), damping="implicit")
    last = simulate(neurons, torch.zeros(100, 1, 2)).y[-1, 0]
    setting = "m = 2, W = W_z = 0, b = (1, 0), 100 steps: the energy of y_2 as a share of its mean"
    share = (last[1] ** 2 / (last**2).mean()).item()
    return Counterexample(setting, 1.0, share, "any network with neurons of unequal drive", is_lower_bound=True)


def frequency_of_oscillator() -> Counterexample:
    """Measure the angular frequency of y'' + gamma y = 0, which is sqrt(gamma)."""
    gamma, dt = 94.5, 1e-3
    measured = 2 * math.pi / (period(dt, gamma, 1e-9).item() * dt)
    setting = "gamma = 94.5, no damping, no coupling: angular frequency"
    return Counterexample(setting, gamma, measured, "every gamma except 1: it is sqrt(gamma)", is_lower_bound=True)


def gradient_of_ode() -> Counterexample:
    """Show that a step's part of the gradient is of order dt, as in the ODE, not of order dt**(3/2)."""
    W = torch.randn(2, 2, generator=generator(0, "remark"), dtype=torch.float64)
    W = W / W.abs().sum(1).max()  # W_z; W of size 0.01 meets eq:assm with r = 1

    def part(dt: float) -> float:
        example = network(0.0025 * W, W, dt, 1.0, 1.0, damping="implicit")
        trajectory = simulate(example, torch.ones(round(1 / dt), 1, 2))
        return gradient_by_lag(example, trajectory)["W"][round(0.2 / dt), 0].item()

    setting = "m = 2, eq:assm with r = 1, u = 1: dE/dW at t = 1, the part of the step at t = 0.2, dt = 0.0025 over 0.01"
    reach = "any network: the parts are those of the ODE's gradient times dt, for either damping"
    return Counterexample(setting, 0.25**1.5, part(0.0025) / part(0.01), reach)


def vanishing_gradient() -> Counterexample:
    """Show that the gradient is far below the claimed order, with the paper's constants for adding at T = 5000."""
    m, dt, gamma, epsilon = 128, 0.016, 94.5, 9.5
    bound = (2 + 2 * m) ** -0.5

    def drawn(name: str, *shape: int) -> Tensor:
        return (2 * torch.rand(*shape, generator=generator(0, "vanishing", name), dtype=torch.float64) - 1) * bound

    example = network(drawn("W", m, m), drawn("W_z", m, m), dt, gamma, epsilon, V=drawn("V", m, 2), b=drawn("b", m))
    input = torch.rand(1000, 1, 2, generator=generator(0, "vanishing", "input"), dtype=torch.float64)
    largest = gradient_by_lag(example, simulate(example, input))["W"][1, 0].item()
    ratio = claims.order_of_gradient(dt, 2, gamma, epsilon)[0] / largest
    setting = "adding's constants and start: the claimed order over step 2's part of dE_1000/dW (1 is right)"
    reach = (
        "t = 16; within t <= 1, the first 62 steps, one decade is lost; a hundred steps pass before the long-run rate"
    )
    return Counterexample(setting, 1.0, ratio, reach)


def silent_state() -> Counterexample:
    """Show that no state ever moves in prop:4, which sets u = b = 0 with a zero start."""
    W = torch.randn(4, 4, generator=generator(0, "silent"), dtype=torch.float64)
    trajectory = simulate(network(W, W, 0.05, 1.0, 1.0, damping="implicit"), _zero_input(20, 4))
    largest = trajectory.y.abs().max().item()
    setting = "u = b = 0 and a zero start: |y_20|"
    return Counterexample(setting, math.sqrt(20 * 0.05), largest, "all weights and constants", is_lower_bound=True)


def safe_steps() -> Counterexample:
    """Evaluate eq:gd3 for the paper's tasks: its largest number of steps is below 1."""
    tasks = {  # m, learning rate, dt, all from the paper's tables
        "adding": (128, 2e-2, 1.6e-2),
        "sMNIST-256": (256, 2.1e-3, 4.2e-2),
        "sMNIST-128": (128, 3.5e-3, 5.3e-2),
        "psMNIST-256": (256, 5.4e-3, 7.6e-2),
        "psMNIST-128": (128, 3.7e-3, 8.3e-2),
        "CIFAR-10": (128, 7.5e-3, 3.4e-2),
        "HAR-2": (64, 1.7e-2, 0.1),
        "IMDB": (128, 6e-4, 5.4e-2),
    }
    largest = max(claims.safe_training_steps(m, 1.0, rate, dt) for m, rate, dt in tasks.values())
    setting = "L of eq:gd3, the largest of the paper's tasks (it has to be 1)"
    return Counterexample(setting, 1.0, largest, "all tasks of the paper, targets of 1", is_lower_bound=True)


def ode_gradient_grows() -> Counterexample:
    """Exceed prop:n3_cont: a force until time 3, then an input that keeps tanh at 0, where its slope is 1."""
    gamma, epsilon, W, end, step = 0.01, 1.0, 1.0, 20.0, 0.005

    def change(time: float, state: Sequence[float]) -> tuple[float, ...]:
        y, z, y_theta, z_theta = state
        argument = 1.0 if time < 3 else 0.0  # the input is this minus W y
        force, slope = math.tanh(argument), 1 - math.tanh(argument) ** 2
        return (
            z,
            force - gamma * y - epsilon * z,
            z_theta,
            slope * (W * y_theta + y) - gamma * y_theta - epsilon * z_theta,
        )

    state: Sequence[float] = (0.0, 0.0, 0.0, 0.0)
    for number in range(round(end / step)):  # the classical Runge-Kutta method
        time = number * step
        first = change(time, state)
        second = change(time + step / 2, [x + step / 2 * k for x, k in zip(state, first, strict=True)])
        third = change(time + step / 2, [x + step / 2 * k for x, k in zip(state, second, strict=True)])
        fourth = change(time + step, [x + step * k for x, k in zip(state, third, strict=True)])
        state = [
            x + step / 6 * (a + 2 * b + 2 * c + d)
            for x, a, b, c, d in zip(state, first, second, third, fourth, strict=True)
        ]
    neuron = network(torch.full((1, 1), W), torch.zeros(1, 1), 0.5, gamma, epsilon)
    claimed = claims.ode_gradient(neuron, torch.tensor(end, dtype=torch.float64)).item()
    setting = "m = 1, gamma = 0.01, epsilon = 1, W = 1, W_z = 0, a force until t = 3 and an input -W y after it, t = 20"
    return Counterexample(setting, claimed, state[2] ** 2 + state[3] ** 2 / gamma, "one neuron; from t = 9.6 on")


def assumption_at_the_start() -> Counterexample:
    """Evaluate eq:assm as printed, r = 1/2, at the paper's initialisation of psMNIST-128."""
    m, dt = 128, 0.083
    bound = (1 + 2 * m) ** -0.5
    W, W_z = (
        (2 * torch.rand(m, m, generator=generator(0, "assumption", name), dtype=torch.float64) - 1) * bound
        for name in ("W", "W_z")
    )
    example = network(W, W_z, dt, 0.13, 4.1)
    setting = "psMNIST-128 before training: the two sides of eq:assm, r = 1/2"
    return Counterexample(setting, dt**0.5, assumption(example)[0], "all tasks of the paper except adding at T = 5000")


def chaos_respects_bound() -> bool:
    """Return whether the separating inputs respect the bound of prop:2, as they must."""
    chaotic, input = chaotic_network()
    other = input.clone()
    other[0, 0, 0] += 1e-6
    apart = separation(chaotic, input, other)[1:, 0]
    return bool((apart <= separation_bound(chaotic, len(input)).sum(1)[1:]).all())
