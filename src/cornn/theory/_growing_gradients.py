"""Counterexamples to the paper's bounds on gradients that must not grow. Each call computes one from scratch."""

import math

import torch

from cornn.theory import claims
from cornn.theory._counterexample import Counterexample, zero_input
from cornn.theory._network import Network, network
from cornn.theory.measure import gradient_by_lag, jacobian, loss_gradient, product_norms, simulate

__all__ = [
    "growing_explicit_loss_gradient",
    "growing_lag_gradient",
    "growing_late_gradient",
    "growing_loss_gradient",
    "growing_network",
    "growing_product",
    "growing_step_gradient",
    "growing_sum_gradient",
    "growing_weight_gradient",
    "hub_early_gradient",
    "hub_lag_gradient",
    "hub_loss_gradient",
    "hub_network",
    "product_far_above_one",
    "product_far_below_one",
]


def growing_network(damping: str, dt: float = 0.01) -> Network:
    """Return one neuron at the limit of eq:assm or eq:nassm (C = 1) with r = 1/2: W, W_z of order 1 / sqrt(dt)."""
    edge = dt**-0.5 * (1 + dt if damping == "implicit" else 1)
    whole = torch.full((1, 1), edge, dtype=torch.float64)
    return network(whole - 1, whole, dt, 1.0, 1.0, damping=damping)


ONE_NEURON = "one neuron suffices, within t <= 1; for dt up to"
SETTING = "m = 1, gamma = epsilon = 1, dt = 0.01, 100 steps, u = b = 0, target 1, W and W_z at the edge of"


def growing_product() -> Counterexample:
    """Exceed the approximation in eq:norm2 with one neuron."""
    neuron = growing_network("implicit")
    log = product_norms(neuron, simulate(neuron, zero_input(100)))[1][-1, 0].item()
    claimed = claims.approximate_product(0.01, 0.5, 100)
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: dX_100/dX_0", claimed, math.exp(log), f"{ONE_NEURON} 1/8")


def product_far_above_one() -> Counterexample:
    """Exceed 1, which the norm of a product is said to be close to."""
    case = growing_product()
    return Counterexample(case.setting, 1.0, case.measured, "r below 1: at r = 1 and t <= 1 it is below e^3 = 20")


def product_far_below_one() -> Counterexample:
    """Fall below 1, which the norm of a product is said to be close to, with an uncoupled neuron."""
    neuron = network(torch.zeros(1, 1), torch.zeros(1, 1), 0.01, 1.0, 1.0, damping="implicit")
    log = product_norms(neuron, simulate(neuron, zero_input(2000)), every=2000)[1][-1, 0].item()
    setting = "m = 1, W = W_z = 0, gamma = epsilon = 1, dt = 0.01, 2,000 steps: dX_2000/dX_0"
    reach = "t = 20, as in the paper's experiments (t = 13 to 80); at t <= 1 it is 1 to 1.3"
    return Counterexample(setting, 1.0, math.exp(log), reach, is_lower_bound=True)


def growing_loss_gradient() -> Counterexample:
    """Exceed prop:3 with one neuron."""
    neuron = growing_network("implicit")
    measured = loss_gradient(neuron, simulate(neuron, zero_input(100)), 1.0)["b"].abs().item()
    claimed = claims.loss_gradient(1, 1.0)
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: dE/db", claimed, measured, f"{ONE_NEURON} 1/60")


def growing_explicit_loss_gradient() -> Counterexample:
    """Exceed prop:n3 with one neuron."""
    neuron = growing_network("explicit")
    measured = loss_gradient(neuron, simulate(neuron, zero_input(100)), 1.0)["b"].abs().item()
    claimed = claims.explicit_loss_gradient(1, 1.0, 1.0, 1.0)
    setting = f"{SETTING} eq:nassm with C = 1, r = 1/2, explicit damping: dE/db"
    return Counterexample(setting, claimed, measured, f"{ONE_NEURON} 1/60")


def growing_lag_gradient() -> Counterexample:
    """Exceed eq:norm20 with one neuron."""
    neuron = growing_network("implicit")
    measured = gradient_by_lag(neuron, simulate(neuron, zero_input(100)), 1.0)["b"][0].item()
    claimed = claims.lag_gradient(0.0, 1.0, 1.0, 0.01, 0.5, 99)
    setting = f"{SETTING} eq:assm with r = 1/2: step 1's part of dE_100/db"
    return Counterexample(setting, claimed, measured, f"{ONE_NEURON} 1/30")


def growing_step_gradient() -> Counterexample:
    """Exceed eq:norm5 with one neuron."""
    case = growing_lag_gradient()
    return Counterexample(case.setting, claims.step_gradient(1, 1.0, 0.01), case.measured, f"{ONE_NEURON} 1/20")


def growing_sum_gradient() -> Counterexample:
    """Exceed eq:norm6 with one neuron."""
    neuron = growing_network("implicit")
    measured = gradient_by_lag(neuron, simulate(neuron, zero_input(100)), 1.0)["b"].sum().item()
    claimed = claims.sum_gradient(1, 1.0, 0.01, 100)
    return Counterexample(f"{SETTING} eq:assm with r = 1/2: dE_100/db", claimed, measured, f"{ONE_NEURON} 1/40")


def growing_weight_gradient() -> Counterexample:
    """Exceed eq:norm3 with one neuron, under a full force until step k and then an input that keeps tanh at 0."""
    dt, n, k = 0.0025, 400, 40
    neuron, delta = growing_network("implicit", dt), 1 / (1 + dt)
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
    setting = (
        "m = 1, dt = 0.0025, W and W_z at the edge of eq:assm with r = 1/2, a full force until step 40, then tanh kept "
        "at 0, target 1: step 40's part of dE_400/dW"
    )
    reach = "one neuron suffices, within t <= 1; not at dt = 0.01"
    return Counterexample(setting, claims.weight_gradient(1, 1.0, dt, 0.5, n, k), measured, reach)


def growing_late_gradient() -> Counterexample:
    """Exceed eq:norm4 with one neuron."""
    case = growing_weight_gradient()
    return Counterexample(case.setting, claims.late_gradient(1, 1.0, 0.0025, 0.5), case.measured, case.reach)


def hub_early_gradient() -> Counterexample:
    """Exceed eq:norm30 at a lag of ten steps, with one neuron that drives 9,999 others.

    The others behave alike, so two neurons are computed, and the second counts 9,999 times.
    """
    m, dt, n, k, target = 10_000, 0.01, 100, 90, 1000.0
    delta = 1 / (1 + dt)
    W_z = torch.zeros(2, 2, dtype=torch.float64)
    W_z[1, 0] = dt**-0.5 / delta  # at the edge of eq:assm with r = 1/2
    neuron = network(torch.zeros(2, 2), W_z, dt, 1.0, 1.0, damping="implicit")
    product = torch.linalg.matrix_power(jacobian(neuron, torch.ones(1, 2, dtype=torch.float64))[0], n - k)
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


def hub_network(m: int, dt: float) -> Network:
    """Couple every neuron to the velocity of the first: eq:assm holds with r = 1, and one bias moves all neurons."""
    W_z = torch.zeros(m, m, dtype=torch.float64)
    W_z[:, 0] = 1 + dt
    nothing = torch.zeros(m, 1, dtype=torch.float64)
    return network(torch.zeros(m, m), W_z, dt, 1.0, 1.0, V=nothing, damping="implicit")


def hub_lag_gradient() -> Counterexample:
    """Exceed eq:norm20 at r = 1 with 100 neurons."""
    m, dt = 100, 0.05
    neuron = hub_network(m, dt)
    measured = gradient_by_lag(neuron, simulate(neuron, zero_input(20)), 1.0)["b"][0].item()
    setting = "m = 100, W = 0, W_z = 1 + dt in its first column, dt = 0.05, r = 1: step 1's part of dE_20/db_1"
    claimed = claims.lag_gradient(0.0, 1.0, 1.0, dt, 1.0, 19)
    return Counterexample(setting, claimed, measured, "ten neurons suffice, within t <= 1, at any r")


def hub_loss_gradient() -> Counterexample:
    """Exceed prop:3 at r = 1 with 2,500 neurons."""
    m, dt, target = 2500, 0.05, 1e6
    neuron = hub_network(m, dt)
    measured = loss_gradient(neuron, simulate(neuron, zero_input(20)), target)["b"][0, 0].abs().item()
    setting = "m = 2500, W = 0, W_z = 1 + dt in its first column, dt = 0.05, 20 steps, target 1e6, r = 1: dE/db_1"
    return Counterexample(setting, claims.loss_gradient(m, target), measured, "2,500 neurons and targets above 300")
