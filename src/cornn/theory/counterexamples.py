"""Counterexamples to claims of the paper, as small as we could make them. Each call computes one from scratch."""

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._random import generator
from cornn.theory import claims
from cornn.theory._counterexample import Counterexample, zero_input
from cornn.theory._network import Network, network
from cornn.theory.hypotheses import assumption
from cornn.theory.linear import period, stability_limit
from cornn.theory.measure import (
    gradient_by_lag,
    lyapunov_exponents,
    separation,
    simulate,
)
from cornn.theory.representation import leading_gradient, leading_remainder

__all__ = ["Counterexample", "chaotic_network"]

STRONG = "strong coupling, ||W|| = 48, and t far beyond 1, as in all of the paper's experiments"


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
    one = network(torch.zeros(1, 1), torch.zeros(1, 1), dt, 1.0, 1.0, damping="implicit")
    _, left = leading_remainder(one, simulate(one, zero_input(100)))
    setting = "m = 1, W = W_z = 0, gamma = epsilon = 1, dt = 0.01, lag 100"
    reach = "lags of order 1 in time, however small dt is; at lags of a few steps the formula is accurate"
    return Counterexample(setting, dt, left[-1, 0].item(), reach)


def leading_gradient_remainder() -> Counterexample:
    """Show that the remainder of eq:vg8 is larger than dt**3."""
    dt = 0.01
    neuron = network(torch.zeros(1, 1), torch.zeros(1, 1), dt, 1.0, 1.0, damping="implicit")
    trajectory = simulate(neuron, zero_input(100) + 0.3)
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
    trajectory = simulate(network(W, W, 0.05, 1.0, 1.0, damping="implicit"), zero_input(20, 4))
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

    def change(time: float, state: NDArray) -> NDArray:
        y, z, y_theta, z_theta = state
        argument = 1.0 if time < 3 else 0.0  # the input is this minus W y
        force, slope = math.tanh(argument), 1 - math.tanh(argument) ** 2
        pulled = slope * (W * y_theta + y) - gamma * y_theta - epsilon * z_theta
        return np.array((z, force - gamma * y - epsilon * z, z_theta, pulled))

    state = np.zeros(4)
    for number in range(round(end / step)):  # the classical Runge-Kutta method
        time = number * step
        first = change(time, state)
        second = change(time + step / 2, state + step / 2 * first)
        third = change(time + step / 2, state + step / 2 * second)
        fourth = change(time + step, state + step * third)
        state = state + step / 6 * (first + 2 * second + 2 * third + fourth)
    neuron = network(torch.full((1, 1), W), torch.zeros(1, 1), 0.5, gamma, epsilon)
    claimed = claims.ode_gradient(neuron, torch.tensor(end, dtype=torch.float64)).item()
    setting = "m = 1, gamma = 0.01, epsilon = 1, W = 1, W_z = 0, a force until t = 3 and an input -W y after it, t = 20"
    measured = float(state[2] ** 2 + state[3] ** 2 / gamma)
    return Counterexample(setting, claimed, measured, "one neuron; from t = 9.6 on")


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
