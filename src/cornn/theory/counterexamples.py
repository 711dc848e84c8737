"""Counterexamples to claims of the paper, as small as we could make them. Each call computes one from scratch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn._random import generator
from cornn.theory import claims
from cornn.theory.energy import separation_bound
from cornn.theory.hypotheses import assumption
from cornn.theory.linear import stability_limit
from cornn.theory.measure import gradient_by_lag, loss_gradient, lyapunov_exponents, product_norms, separation, simulate
from cornn.theory.network import Network, network
from cornn.theory.representation import leading_gradient, leading_remainder

__all__ = ["Counterexample", "chaotic_network"]


@dataclass(frozen=True)
class Counterexample:
    """A claimed value next to the measured one.

    Attributes:
        setting: The network and its input, in words.
        claimed: The claimed bound.
        measured: The measured value.
        is_lower_bound: Whether the claim is a lower bound; otherwise it is an upper bound.
    """

    setting: str
    claimed: float
    measured: float
    is_lower_bound: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether the measured value contradicts the claim."""
        return self.measured < self.claimed if self.is_lower_bound else self.measured > self.claimed


def _growing(damping: str, dt: float = 0.01) -> Network:
    """Return one neuron at the limit of eq:assm or eq:nassm (C = 1) with r = 1/2: W, W_z of order 1 / sqrt(dt)."""
    edge = dt**-0.5 * (1 + dt if damping == "implicit" else 1)
    whole = torch.full((1, 1), edge, dtype=torch.float64)
    return network(whole - 1, whole, dt, 1.0, 1.0, damping=damping)


def _zero_input(steps: int, features: int = 1) -> Tensor:
    return torch.zeros(steps, 1, features, dtype=torch.float64)


SETTING = "m = 1, gamma = epsilon = 1, dt = 0.01, 100 steps, u = b = 0, target 1, W and W_z at the edge of"


def growing_product() -> Counterexample:
    """Exceed the approximation in eq:norm2 with one neuron."""
    one = _growing("implicit")
    log = product_norms(one, simulate(one, _zero_input(100)))[1][-1, 0].item()
    return Counterexample(
        f"{SETTING} eq:assm with r = 1/2: dX_100/dX_0", claims.approximate_product(0.01, 0.5, 100), math.exp(log)
    )


def growing_loss_gradient() -> Counterexample:
    """Exceed prop:3 with one neuron."""
    one = _growing("implicit")
    measured = loss_gradient(one, simulate(one, _zero_input(100)), 1.0)["b"].abs().item()
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: dE/db", claims.loss_gradient(1, 1.0), measured)


def growing_explicit_loss_gradient() -> Counterexample:
    """Exceed prop:n3 with one neuron."""
    one = _growing("explicit")
    measured = loss_gradient(one, simulate(one, _zero_input(100)), 1.0)["b"].abs().item()
    claimed = claims.explicit_loss_gradient(1, 1.0, 1.0, 1.0)
    return Counterexample(f"{SETTING} eq:nassm with C = 1, r = 1/2, explicit damping: dE/db", claimed, measured)


def growing_lag_gradient() -> Counterexample:
    """Exceed eq:norm20 with one neuron."""
    one = _growing("implicit")
    measured = gradient_by_lag(one, simulate(one, _zero_input(100)), 1.0)["b"][0].item()
    claimed = claims.lag_gradient(0.0, 1.0, 1.0, 0.01, 0.5, 99)
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: step 1's part of dE_100/db", claimed, measured)


def growing_step_gradient() -> Counterexample:
    """Exceed eq:norm5 with one neuron."""
    case = growing_lag_gradient()
    return Counterexample(case.setting, claims.step_gradient(1, 1.0, 0.01), case.measured)


def growing_sum_gradient() -> Counterexample:
    """Exceed eq:norm6 with one neuron."""
    one = _growing("implicit")
    measured = gradient_by_lag(one, simulate(one, _zero_input(100)), 1.0)["b"].sum().item()
    return Counterexample(
        f"{SETTING} eq:assm with r = 1/2: dE_100/db", claims.sum_gradient(1, 1.0, 0.01, 100), measured
    )


def _hub(m: int, dt: float) -> Network:
    """Couple every neuron to the velocity of the first: eq:assm holds with r = 1, and one bias moves all neurons."""
    W_z = torch.zeros(m, m, dtype=torch.float64)
    W_z[:, 0] = 1 + dt
    nothing = torch.zeros(m, 1, dtype=torch.float64)
    return network(torch.zeros(m, m), W_z, dt, 1.0, 1.0, V=nothing, damping="implicit")


def hub_lag_gradient() -> Counterexample:
    """Exceed eq:norm20 at r = 1 with 100 neurons."""
    m, dt = 100, 0.05
    one = _hub(m, dt)
    measured = gradient_by_lag(one, simulate(one, _zero_input(20)), 1.0)["b"][0].item()
    setting = "m = 100, W = 0, W_z = 1 + dt in its first column, dt = 0.05, r = 1: step 1's part of dE_20/db_1"
    return Counterexample(setting, claims.lag_gradient(0.0, 1.0, 1.0, dt, 1.0, 19), measured)


def hub_loss_gradient() -> Counterexample:
    """Exceed prop:3 at r = 1 with 2,500 neurons."""
    m, dt, target = 2500, 0.05, 1e6
    one = _hub(m, dt)
    measured = loss_gradient(one, simulate(one, _zero_input(20)), target)["b"][0, 0].abs().item()
    setting = "m = 2500, W = 0, W_z = 1 + dt in its first column, dt = 0.05, 20 steps, target 1e6, r = 1: dE/db_1"
    return Counterexample(setting, claims.loss_gradient(m, target), measured)


def chaotic_network(dt: float = 0.1) -> tuple[Network, Tensor]:
    """Return 64 neurons with a random W, and an input that is nonzero for its first 2 units of time."""
    W = torch.randn(64, 64, generator=generator(0, "chaos", "W"), dtype=torch.float64) * 6 / 8
    input = torch.zeros(round(200 / dt), 1, 64, dtype=torch.float64)
    first = 0.5 * torch.randn(64, generator=generator(0, "chaos", "input"), dtype=torch.float64)
    input[: round(2 / dt)] = first
    return network(W, torch.zeros(64, 64), dt, 1.0, 1.0, damping="implicit"), input


def separating_inputs() -> Counterexample:
    """Separate two inputs that differ by 1e-9 at one step, far beyond linear growth."""
    one, input = chaotic_network()
    other = input.clone()
    other[0, 0, 0] += 1e-9
    apart = torch.sqrt(separation(one, input, other)[:, 0])
    setting = "m = 64, gamma = epsilon = 1, dt = 0.1, implicit, random W, inputs 1e-9 apart at one step, 2,000 steps"
    return Counterexample(setting, (len(input) * apart[1]).item(), apart.max().item())


def positive_exponent() -> Counterexample:
    """Show a positive Lyapunov exponent: chaos."""
    one, input = chaotic_network()
    largest = lyapunov_exponents(one, simulate(one, input), skip=500)[0, 0].item() / 0.1
    return Counterexample("the same network: largest Lyapunov exponent per unit of time", 0.0, largest)


def same_range() -> Counterexample:
    """Show that the stability limits of the two dampings differ."""
    explicit, implicit = (stability_limit(94.5, 9.5, damping=damping).item() for damping in ("explicit", "implicit"))
    return Counterexample("gamma = 94.5, epsilon = 9.5: limit of dt, explicit and implicit damping", explicit, implicit)


def representation_remainder() -> Counterexample:
    """Show that the remainder of eq:vg2 does not vanish with dt."""
    dt = 0.01
    one = network(torch.zeros(1, 1), torch.zeros(1, 1), dt, 1.0, 1.0, damping="implicit")
    _, left = leading_remainder(one, simulate(one, _zero_input(100)))
    return Counterexample("m = 1, W = W_z = 0, gamma = epsilon = 1, dt = 0.01, lag 100", dt, left[-1, 0].item())


def leading_gradient_remainder() -> Counterexample:
    """Show that the remainder of eq:vg8 is larger than dt**3."""
    dt = 0.01
    one = network(torch.zeros(1, 1), torch.zeros(1, 1), dt, 1.0, 1.0, damping="implicit")
    trajectory = simulate(one, _zero_input(100) + 0.3)
    exact = gradient_by_lag(one, trajectory)["b"][0, 0].item()
    setting = "m = 1, W = W_z = 0, gamma = epsilon = 1, dt = 0.01, u = 0.3: step 1's part of dE_100/db"
    return Counterexample(setting, dt**3, abs(leading_gradient(one, trajectory)[0, 0, 0].item() - exact))


def vanishing_gradient() -> Counterexample:
    """Show that the gradient is far below the claimed order, with the paper's constants for adding at T = 5000."""
    m, dt, gamma, epsilon = 128, 0.016, 94.5, 9.5
    bound = (2 + 2 * m) ** -0.5

    def drawn(name: str, *shape: int) -> Tensor:
        return (2 * torch.rand(*shape, generator=generator(0, "vanishing", name), dtype=torch.float64) - 1) * bound

    one = network(drawn("W", m, m), drawn("W_z", m, m), dt, gamma, epsilon, V=drawn("V", m, 2), b=drawn("b", m))
    input = torch.rand(1000, 1, 2, generator=generator(0, "vanishing", "input"), dtype=torch.float64)
    largest = gradient_by_lag(one, simulate(one, input))["W"][1, 0].item()
    ratio = claims.order_of_gradient(dt, 2, gamma, epsilon)[0] / largest
    setting = "adding's constants and start: the claimed order over step 2's part of dE_1000/dW (1 is right)"
    return Counterexample(setting, 1.0, ratio)


def silent_state() -> Counterexample:
    """Show that no state ever moves in prop:4, which sets u = b = 0 with a zero start."""
    W = torch.randn(4, 4, generator=generator(0, "silent"), dtype=torch.float64)
    trajectory = simulate(network(W, W, 0.05, 1.0, 1.0, damping="implicit"), _zero_input(20, 4))
    return Counterexample(
        "u = b = 0 and a zero start: |y_20|", math.sqrt(20 * 0.05), trajectory.y.abs().max().item(), is_lower_bound=True
    )


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
    most = max(claims.safe_training_steps(m, 1.0, rate, dt) for m, rate, dt in tasks.values())
    return Counterexample(
        "L of eq:gd3, the largest of the paper's tasks (it has to be 1)", 1.0, most, is_lower_bound=True
    )


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
    one = network(torch.full((1, 1), W), torch.zeros(1, 1), 0.5, gamma, epsilon)
    claimed = claims.ode_gradient(one, torch.tensor(end, dtype=torch.float64)).item()
    setting = "m = 1, gamma = 0.01, epsilon = 1, W = 1, W_z = 0, a force until t = 3 and an input -W y after it, t = 20"
    return Counterexample(setting, claimed, state[2] ** 2 + state[3] ** 2 / gamma)


def assumption_at_the_start() -> Counterexample:
    """Evaluate eq:assm as printed, r = 1/2, at the paper's initialisation of psMNIST-128."""
    m, dt = 128, 0.083
    bound = (1 + 2 * m) ** -0.5
    W, W_z = (
        (2 * torch.rand(m, m, generator=generator(0, "assumption", name), dtype=torch.float64) - 1) * bound
        for name in ("W", "W_z")
    )
    one = network(W, W_z, dt, 0.13, 4.1)
    return Counterexample("psMNIST-128 before training: the two sides of eq:assm, r = 1/2", dt**0.5, assumption(one)[0])


def chaos_respects_bound() -> bool:
    """Return whether the separating inputs respect the bound of prop:2, as they must."""
    one, input = chaotic_network()
    other = input.clone()
    other[0, 0, 0] += 1e-9
    apart = separation(one, input, other)[1:, 0]
    return bool((apart <= separation_bound(one, len(input)).sum(1)[1:]).all())
