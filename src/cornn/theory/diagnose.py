"""A layer held against the theory: its hypotheses, its bounds, what was measured, and what that means."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cornn import theory
from cornn._random import generator
from cornn.layers import CoRNN
from cornn.theory import Network, bounds, hypotheses, linear, measure, register, small_gain
from cornn.theory.bounds import Bound, Held
from cornn.theory.measure import Trajectory
from cornn.theory.register import Condition

__all__ = ["SEQUENCES", "Check", "Fact", "Subject", "examine", "fresh", "of_layer"]

SEQUENCES = 2
MOST_STEPS = 1000
"""Longer sequences are cut: products of Jacobians of more steps say little more, and take long."""


@dataclass(frozen=True)
class Subject:
    """What is checked: a network and an input (time, batch, features) to try it on, cut where it is long."""

    name: str
    network: Network
    input: Tensor
    length: int  # steps of a sequence, before it was cut


@dataclass(frozen=True)
class Fact:
    """A number, or a range over the neurons, that is neither a hypothesis nor a bound."""

    name: str
    value: str


@dataclass(frozen=True)
class Check:
    subject: Subject
    trajectory: Trajectory
    facts: tuple[Fact, ...]
    conditions: tuple[Condition, ...]
    held: tuple[tuple[Bound, Held | None], ...]
    meaning: str

    @property
    def sound(self) -> bool:
        """Whether no bound is broken whose condition is met."""
        return all(held is None or held.holds for _, held in self.held)


def of_layer(name: str, layer: nn.Module, input: Tensor, number: int = 0) -> Subject:
    """One layer of a `CoRNN`, on what those below it make of an input (time, batch, features); of two directions the
    first."""
    if not isinstance(layer, CoRNN):
        raise ValueError(f"the theory is about coRNN, this is a {type(layer).__name__}")
    if not 0 <= number < layer.num_layers:
        raise ValueError(f"there is no layer {number + 1}, the model has {layer.num_layers}: count from 1")
    if number and layer.bidirectional:
        raise ValueError("of a layer that reads both ways only the first of several can be checked: take layer 1")
    features = input[:MOST_STEPS]
    for below in range(number):
        features = measure.simulate(theory.network_from_layer(layer, below), features).y[1:]
    if layer.num_layers > 1:
        name += f", layer {number + 1} of {layer.num_layers}"
    if layer.bidirectional:
        name += ", reading forwards"
    return Subject(name, theory.network_from_layer(layer, number), features, len(input))


def fresh(
    dt: float,
    gamma: float,
    epsilon: float,
    *,
    hidden_size: int = 128,
    inputs: int = 2,
    length: int = 500,
    damping: str = "explicit",
    init: str = "paper",
    seed: int = 0,
) -> Subject:
    """A layer with these constants before training, on inputs drawn from U(0, 1)."""
    if length < 1:
        raise ValueError(f"length must be 1 or more, got {length}")
    layer = CoRNN(inputs, hidden_size, dt=dt, gamma=gamma, epsilon=epsilon, damping=damping, init=init)
    layer.reset_parameters(generator(seed, "check", "weights"))
    input = torch.rand(min(length, MOST_STEPS), SEQUENCES, inputs, generator=generator(seed, "check", "input"))
    name = f"dt {dt:g}, gamma {gamma:g}, epsilon {epsilon:g}, {damping} damping, {hidden_size} neurons, before training"
    return Subject(name, theory.network_from_layer(layer), input, length)


def examine(subject: Subject) -> Check:
    """Follow the network through its input and hold everything against it."""
    network = subject.network
    trajectory = measure.finite_part(measure.simulate(network, subject.input))
    held = tuple((bound, bounds.hold(bound, network, trajectory)) for bound in bounds.BOUNDS)
    conditions = tuple(register.conditions(network, subject.length))
    change = measure.fading(network, trajectory)[0].mean().item()
    rate = small_gain.slowest_rate(network)
    exponent = measure.lyapunov_exponents(network, trajectory, skip=len(trajectory) // 4).max().item()
    facts = _facts(network, rate, exponent, change)
    lengths = (len(trajectory), len(subject.input))
    meaning = _meaning(network, lengths, conditions, held, rate, exponent, change)
    return Check(subject, trajectory, facts, conditions, held, meaning)


def _facts(network: Network, rate: float, exponent: float, change: float) -> tuple[Fact, ...]:
    constants = (network.dt, network.gamma, network.epsilon)
    limits = linear.stability_limit(network.gamma, network.epsilon, damping=network.damping)
    left, right = hypotheses.assumption(network)
    constant = ", ".join(f"{hypotheses.smallest_constant(network, r):.3g}" for r in (0.5, 1.0))
    return (
        Fact("frequency, radians a step", _span(network.dt * linear.natural_frequency(network.gamma))),
        Fact("damping ratio (above 1: overdamped)", _span(linear.damping_ratio(network.gamma, network.epsilon))),
        Fact("kept of the past a step, uncoupled", _span(linear.spectral_radius(*constants, damping=network.damping))),
        Fact("half-life in steps, uncoupled", _span(linear.half_life(*constants, damping=network.damping))),
        Fact("dt over its exact limit, uncoupled", _span(network.dt / limits)),
        Fact("eq:assm as printed: left side over dt^(1/2)", f"{left / right:.3g}"),
        Fact("largest r with eta <= dt^r (the paper asks for 1/2)", f"{hypotheses.largest_r(network):.3g}"),
        Fact("smallest C of eq:nassm for r = 1/2 and r = 1", constant),
        Fact("slowest rate of products, proven", f"{rate:.6g}"),
        Fact("largest Lyapunov exponent a step", f"{exponent:.3g}"),
        Fact("log10 of the gradient at the first step over the last", f"{change:.3g}"),
    )


def _span(values: Tensor) -> str:
    low, high = values.min().item(), values.max().item()
    return f"{low:.4g}" if math.isclose(low, high, rel_tol=1e-9) or low == high else f"{low:.4g} to {high:.4g}"


def _meaning(
    network: Network,
    lengths: tuple[int, int],
    conditions: tuple[Condition, ...],
    held: tuple[tuple[Bound, Held | None], ...],
    rate: float,
    exponent: float,
    change: float,
) -> str:
    limit = linear.stability_limit(network.gamma, network.epsilon, damping=network.damping)
    share = (network.dt / limit).max().item()
    lasting = (network.gamma == 0) | (network.epsilon == 0)
    steps, asked = lengths
    said = []
    if share >= 1:
        said.append(f"An uncoupled neuron is unstable: dt is {share:.3g} times its exact limit. Lower dt.")
    elif lasting.any():
        said.append("An uncoupled neuron neither fades nor grows: it has no damping, or no stiffness.")
    else:
        said.append(f"Uncoupled neurons are stable: dt is {share:.1%} of its exact limit.")
    if steps < asked:
        said.append(f"Its states leave the range of numbers after {steps} of {asked} steps; what follows is of those.")
    if 0 < rate < 1:
        tenth = math.log(0.1) / math.log(rate)
        said.append(
            f"With these weights every gradient must vanish, whatever the input: by a factor of ten in "
            f"{max(tenth, 1):,.0f} steps at the latest, once the first few are over."
        )
    elif rate == 0:
        said.append("With these weights no gradient outlives a few steps, whatever the input.")
    else:
        said.append(
            f"The weights leave room for gradients that grow, by a factor of {rate:.4g} a step at the most, and do not "
            "force them to vanish."
        )
    if change < -6:
        verdict = "what happened at the start can hardly be learned from"
    elif change > 3:
        verdict = "they grow: clip them, or lower dt or the coupling"
    else:
        verdict = "neither vanishing nor exploding"
    said.append(f"Measured over {steps:,} steps, gradients change by a factor of {_power(change)}: {verdict}.")
    said.append(
        f"The largest Lyapunov exponent is {exponent:.2g} a step: "
        + (
            "nearby states drift apart (chaos, if it lasts)."
            if exponent > 1e-3
            else "nearby states do not drift apart."
        )
    )
    missed = [condition.name for condition in conditions if not condition.holds]
    said.append(
        f"Of the paper's hypotheses {len(conditions) - len(missed)} of {len(conditions)} hold"
        + (f"; not: {'; '.join(missed)}." if missed else ".")
        + " Its bounds on gradients (prop:3, prop:n3) are false as stated, so nothing follows from them either way."
    )
    broken = [bound.says for bound, found in held if found is not None and not found.holds]
    if broken:
        said.append(f"BROKEN: {'; '.join(broken)}. A bound that is proven cannot break: please report this.")
    else:
        said.append("Every bound that stands and applies was held by the measurement.")
    return " ".join(said)


def _power(logarithm: float) -> str:
    if logarithm == -math.inf:
        return "0"
    return f"{10**logarithm:.2g}" if -4 < logarithm < 4 else f"10^{logarithm:.1f}"
