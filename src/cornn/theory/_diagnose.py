"""Diagnose a layer: check the paper's hypotheses and every proven bound, measure gradients, and summarise."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cornn._random import generator
from cornn.functional import ACTIVATIONS
from cornn.layers import CoRNN
from cornn.theory import bounds, hypotheses, linear, measure, register, small_gain
from cornn.theory._network import Network, network_from_layer
from cornn.theory._threads import threads_for
from cornn.theory.bounds import Bound, Comparison
from cornn.theory.measure import Trajectory
from cornn.theory.register import Condition

__all__ = ["SEQUENCES", "Diagnosis", "Fact", "Subject", "diagnose", "subject_from_constants", "subject_from_layer"]

SEQUENCES = 2
MAX_STEPS = 1000
"""Longer sequences are truncated: longer Jacobian products add little and take long."""

LARGEST_TRANSIENT = math.log(10)
"""Natural logarithm of the growth of a tangent vector up to which states are not said to diverge: a step is not normal,
so a vector can grow for a while although all vectors shrink in the end."""


@dataclass(frozen=True)
class Subject:
    """A network and an input to diagnose it on.

    Attributes:
        name: Name to print.
        network: The network.
        input: Input, (time, batch, features), truncated to `MAX_STEPS` steps.
        length: Number of steps before truncation.
    """

    name: str
    network: Network
    input: Tensor
    length: int


@dataclass(frozen=True)
class Fact:
    """A named number, or a range over the neurons, that is neither a hypothesis nor a bound."""

    name: str
    value: str


@dataclass(frozen=True)
class Diagnosis:
    """The result of `diagnose`.

    Attributes:
        subject: The network and its input.
        trajectory: The states along the input, up to the first overflow.
        facts: Properties of the linearised dynamics, and measurements.
        conditions: The paper's hypotheses, each with its value and limit.
        comparisons: Every proven bound with its comparison; None where the bound does not apply.
        summary: A paragraph in plain English.
        gradients: The sentence of the summary on the measured change of gradients.
    """

    subject: Subject
    trajectory: Trajectory
    facts: tuple[Fact, ...]
    conditions: tuple[Condition, ...]
    comparisons: tuple[tuple[Bound, Comparison | None], ...]
    summary: str
    gradients: str

    @property
    def is_sound(self) -> bool:
        """Whether no applicable bound is violated."""
        return all(comparison is None or comparison.holds for _, comparison in self.comparisons)


def subject_from_layer(name: str, layer: nn.Module, input: Tensor, index: int = 0) -> Subject:
    """Select one layer of a `CoRNN`, with the output of the layers below it as input.

    Args:
        name: Name to print.
        layer: A `CoRNN`. If it is bidirectional, its forward direction is used.
        input: Input of the whole stack, (time, batch, features).
        index: Index of the layer, from 0.

    Returns:
        The subject, to pass to `diagnose`.

    Raises:
        ValueError: If `layer` is not a `CoRNN` or has no layer `index`.
    """
    if not isinstance(layer, CoRNN):
        raise ValueError(f"the theory covers CoRNN only, got {type(layer).__name__}")
    if not 0 <= index < layer.num_layers:
        raise ValueError(f"there is no layer {index + 1}: the model has {layer.num_layers}, counted from 1")
    if index and layer.bidirectional:
        raise ValueError("only the first layer of a bidirectional model can be checked: choose layer 1")
    features = input[:MAX_STEPS]
    for below in range(index):
        features = measure.simulate(network_from_layer(layer, below), features).y[1:]
    if layer.num_layers > 1:
        name += f", layer {index + 1} of {layer.num_layers}"
    if layer.bidirectional:
        name += ", forward direction"
    return Subject(name, network_from_layer(layer, index), features, len(input))


def subject_from_constants(
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
    """Create an untrained layer with these constants, and random input from U(0, 1).

    Args:
        dt: Step size.
        gamma: Stiffness.
        epsilon: Damping.
        hidden_size: Number of neurons.
        inputs: Number of input features.
        length: Number of steps per sequence.
        damping: "explicit" or "implicit".
        init: Initialisation of the weights, as for `CoRNN`.
        seed: Seed of weights and input.

    Returns:
        The subject, to pass to `diagnose`.
    """
    if length < 1:
        raise ValueError(f"length must be 1 or more, got {length}")
    layer = CoRNN(inputs, hidden_size, dt=dt, gamma=gamma, epsilon=epsilon, damping=damping, init=init)
    layer.reset_parameters(generator(seed, "check", "weights"))
    input = torch.rand(min(length, MAX_STEPS), SEQUENCES, inputs, generator=generator(seed, "check", "input"))
    name = f"dt {dt:g}, gamma {gamma:g}, epsilon {epsilon:g}, {damping} damping, {hidden_size} neurons, before training"
    return Subject(name, network_from_layer(layer), input, length)


def diagnose(subject: Subject, watch: Callable[[float], None] | None = None) -> Diagnosis:
    """Simulate a network and compare it with the theory.

    Args:
        subject: A network with an input, from `subject_from_layer` or `subject_from_constants`.
        watch: Function that is called with the completed share of the work that takes longest.

    Returns:
        Facts, hypotheses, bounds with measured values, and a summary.

    Examples:
        >>> from cornn.theory import diagnose, subject_from_constants
        >>> diagnosis = diagnose(subject_from_constants(0.05, 1.0, 4.0, hidden_size=8, length=50))
        >>> diagnosis.is_sound
        True
    """
    with threads_for(2 * subject.network.hidden_size):  # rows of the products of Jacobians
        return _diagnose(subject, watch)


def _diagnose(subject: Subject, watch: Callable[[float], None] | None) -> Diagnosis:
    network = subject.network
    trajectory = measure.finite_prefix(measure.simulate(network, subject.input))
    comparisons = bounds.compare_all(network, trajectory, watch)
    conditions = tuple(register.conditions(network, subject.length))
    change = measure.gradient_decay(network, trajectory)[0].mean().item()
    # The theorem needs slopes in [0, 1].
    rate = small_gain.slowest_rate(network) if ACTIVATIONS[network.activation].unit_slope else None
    skip = len(trajectory) // 4
    exponent = measure.lyapunov_exponents(network, trajectory, skip=skip).max().item()
    facts = _facts(network, rate, exponent, change)
    lengths = (len(trajectory), len(subject.input))
    chaos = _chaos(rate, exponent, len(trajectory) - skip)
    summary = _summary(network, lengths, conditions, comparisons, rate, chaos, change)
    gradients = _measured_growth(change, len(trajectory))
    return Diagnosis(subject, trajectory, facts, conditions, comparisons, summary, gradients)


def _facts(network: Network, rate: float | None, exponent: float, change: float) -> tuple[Fact, ...]:
    constants = (network.dt, network.gamma, network.epsilon)
    limits = linear.stability_limit(network.gamma, network.epsilon, damping=network.damping)
    left, right = hypotheses.assumption(network)
    constant = ", ".join(f"{hypotheses.smallest_constant(network, r):.3g}" for r in (0.5, 1.0))
    return (
        Fact("natural frequency, radians per step", _span(network.dt * linear.natural_frequency(network.gamma))),
        Fact(
            "damping ratio (above 1: overdamped, below 1: underdamped)",
            _span(linear.damping_ratio(network.gamma, network.epsilon)),
        ),
        Fact("spectral radius per step, uncoupled", _span(linear.spectral_radius(*constants, damping=network.damping))),
        Fact("half-life in steps, uncoupled", _span(linear.half_life(*constants, damping=network.damping))),
        Fact("dt / exact stability limit, uncoupled", _span(network.dt / limits)),
        Fact("eq:assm as printed: left side / dt^(1/2)", f"{left / right:.3g}"),
        Fact("largest r with eta <= dt^r (the paper requires 1/2)", f"{hypotheses.largest_r(network):.3g}"),
        Fact("smallest C of eq:nassm for r = 1/2 and r = 1", constant),
        Fact("growth of Jacobian products per step, proven bound", "n/a" if rate is None else f"{rate:.6g}"),
        Fact("largest Lyapunov exponent per step", f"{exponent:.3g}"),
        Fact("log10 of the gradient at the first step / at the last", f"{change:.3g}"),
    )


def _span(values: Tensor) -> str:
    low, high = values.min().item(), values.max().item()
    return f"{low:.4g}" if math.isclose(low, high, rel_tol=1e-9) or low == high else f"{low:.4g} to {high:.4g}"


def _summary(
    network: Network,
    lengths: tuple[int, int],
    conditions: tuple[Condition, ...],
    comparisons: tuple[tuple[Bound, Comparison | None], ...],
    rate: float | None,
    chaos: str,
    change: float,
) -> str:
    steps, requested = lengths
    sentences = [_stability(network)]
    if steps < requested:
        sentences.append(f"The states overflow after {steps} of {requested} steps; the rest covers those steps.")
    sentences += [_proven_growth(rate), _measured_growth(change, steps), chaos]
    missed = [condition.name for condition in conditions if not condition.holds]
    sentences.append(
        f"{len(conditions) - len(missed)} of the paper's {len(conditions)} hypotheses hold"
        + (f"; these do not: {'; '.join(missed)}." if missed else ".")
        + " Its gradient bounds (prop:3, prop:n3) are false as stated, so nothing follows from them either way."
    )
    broken = [bound.statement for bound, comparison in comparisons if comparison is not None and not comparison.holds]
    if broken:
        sentences.append(f"BROKEN: {'; '.join(broken)}. A proven bound cannot be violated: please report this.")
    else:
        sentences.append("The measurement satisfies every proven bound that applies.")
    return " ".join(sentences)


def _stability(network: Network) -> str:
    limit = linear.stability_limit(network.gamma, network.epsilon, damping=network.damping)
    share = (network.dt / limit).max().item()
    if share >= 1:
        return f"Uncoupled neurons are unstable: dt is {share:.3g} times the exact stability limit. Lower dt."
    if ((network.gamma == 0) | (network.epsilon == 0)).any():
        return "Some uncoupled neurons neither decay nor grow: they have no damping, or no stiffness."
    return f"Uncoupled neurons are stable: dt is {share:.1%} of the exact stability limit."


def _proven_growth(rate: float | None) -> str:
    if rate is None:
        return "No growth rate of gradients is proven: the slopes of the activation are not known to lie in [0, 1]."
    if rate == 0:
        return "With these weights every gradient vanishes within a few steps, for any input."
    if rate < 1:
        tenfold = math.log(0.1) / math.log(rate)
        return (
            "With these weights every gradient must vanish, for any input: after the first few steps, by a factor of "
            f"ten at least every {max(tenfold, 1):,.0f} steps."
        )
    return f"The weights do not force gradients to vanish. Gradients grow by a factor of at most {rate:.4g} per step."


def _measured_growth(change: float, steps: int) -> str:
    if change < -6:
        verdict = "they vanish, so the start of the sequence can hardly be learned from"
    elif change < -3:
        verdict = "they shrink strongly: early steps are hard to learn from"
    elif change > 3:
        verdict = "they explode: clip them, or lower dt or the coupling"
    else:
        verdict = "neither vanishing nor exploding"
    return f"Measured over {steps:,} steps, gradients change by a factor of {_power(change)}: {verdict}."


def _chaos(rate: float | None, exponent: float, steps: int) -> str:
    """Interpret the exponent of `steps` steps. In the Euclidean norm it can be positive for a while without chaos."""
    if rate is not None and rate < 1:
        verdict = (
            "a transient, since the weights force states to converge" if exponent > 0 else "nearby states converge"
        )
    elif exponent * steps > LARGEST_TRANSIENT:
        verdict = "nearby states diverge (chaos, if this persists)"
    else:
        verdict = "nearby states do not diverge"
    return f"The largest Lyapunov exponent over these steps is {exponent:.2g} per step: {verdict}."


def _power(logarithm: float) -> str:
    if logarithm == -math.inf:
        return "0"
    return f"{10**logarithm:.2g}" if -4 < logarithm < 4 else f"10^{logarithm:.1f}"
