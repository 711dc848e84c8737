"""Suggest constants and an initialisation for a sequence length, from the linearised dynamics.

Evidence: the values for overdamped neurons, with their initialisation, solve the adding problem at 500 to 20,000 steps
from every seed tried (docs/adding.md). Underdamped neurons store more about the shape of a whole sequence
(docs/better.md, permuted MNIST).
"""

import math
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from cornn._counts import format_count
from cornn.layers import CoRNN
from cornn.theory.linear import (
    effective_rank,
    half_life,
    log_spaced,
    shortest_half_life,
    stability_limit,
    stiffness_from_half_life,
    stiffness_from_period,
)

__all__ = ["Suggestion", "suggest"]

STEP = 0.3  # dt
LOST = 0.7  # epsilon dt: the share of its velocity that a neuron loses per step
HALF_LIVES = (0.1, 10.0)  # as shares of the sequence
SOLVED = 20_000  # steps; the longest at which the adding problem was solved with values like these

UNDERDAMPED_STEP = 0.1  # dt
PERIODS = (0.01, 1.0)  # as shares of the sequence
SHORTEST_PERIOD = 4.0  # steps
UNDERDAMPED_HALF_LIFE = 1.25  # as a share of the sequence


@dataclass(frozen=True)
class Suggestion:
    """Constants and an initialisation, returned by `suggest`.

    Attributes:
        length: Steps per sequence.
        hidden_size: Number of neurons.
        dt: Step size.
        gamma: Stiffness per neuron, (hidden).
        epsilon: Damping.
        damping: "explicit" or "implicit".
        half_lives: Half-life of each neuron in steps, (hidden).
        periods: Period of each neuron in steps, (hidden); infinite for overdamped neurons.
        init: Initialisation of the weights, as for `CoRNN`.
        centre: Whether to call `layer.centre_` with the mean of the data.
    """

    length: int
    hidden_size: int
    dt: float
    gamma: Tensor
    epsilon: float
    damping: str
    half_lives: Tensor
    periods: Tensor
    init: str
    centre: bool

    def __repr__(self) -> str:
        return f"Suggestion({self.explanation})"

    @property
    def explanation(self) -> str:
        """The values, the reason for them, and how far they have been tested."""
        limit = stability_limit(self.gamma, self.epsilon, damping=self.damping).min().item()
        rank = effective_rank(self.dt, self.gamma, self.epsilon, self.length, damping=self.damping)
        kind = self._explain_underdamped() if self.periods.isfinite().any() else self._explain_overdamped()
        return (
            f"{self.length:,} steps, {format_count(self.hidden_size, 'neuron')}: dt = {self.dt:.3g}, "
            f"epsilon = {self.epsilon:.3g}, gamma from {self.gamma.min().item():.3g} to {self.gamma.max().item():.3g}, "
            f"one value per neuron. The stability limit of dt is {limit:.3g}. The effective rank of the "
            f"uncoupled neurons is {rank}. {kind}"
        )

    def _explain_overdamped(self) -> str:
        known = (
            "Values like these solve the adding problem at this length or a longer one (docs/adding.md)."
            if self.length <= SOLVED
            else f"Values like these have been tested on the adding problem up to {SOLVED:,} steps (docs/adding.md): "
            "treat them as a starting point."
        )
        return (
            f"All neurons are overdamped, with half-lives of {self.half_lives[0]:.0f} to {self.half_lives[-1]:.0f} "
            f"steps: they hold values. Use init={self.init!r}, which subtracts the accumulated input from the next "
            "one, so that the noise of a long input does not build up, and call layer.centre_ with the mean of your "
            f"data: slow neurons sum their input, and a nonzero mean would saturate them. {known}"
        )

    def _explain_underdamped(self) -> str:
        return (
            f"All neurons are underdamped, with periods of {self.periods.min():.3g} to {self.periods.max():.3g} steps "
            f"and a half-life of {self.half_lives.max():.0f} steps: together they compute a spectrum of the sequence. "
            f"Use init={self.init!r}, call layer.centre_ with the mean of your data, clip gradients to a norm of 0.1, "
            "warm the learning rate up over 100 steps, and train the coupling (weight_hh) at a fifth of the learning "
            "rate, because it acts on states that oscillate through the whole sequence (docs/better.md)."
        )

    def layer(self, input_size: int, **options) -> CoRNN:
        """Create a layer with these constants and this initialisation.

        Args:
            input_size: Number of input features.
            **options: Further arguments of `CoRNN`; they take precedence.

        Returns:
            The layer.
        """
        constants = {"dt": self.dt, "gamma": self.gamma, "epsilon": self.epsilon, "damping": self.damping}
        return CoRNN(input_size, self.hidden_size, **({**constants, "init": self.init} | options))


def suggest(
    length: int,
    hidden_size: int,
    *,
    shortest: float | None = None,
    longest: float | None = None,
    dt: float | None = None,
    damping: str = "explicit",
    underdamped: bool = False,
) -> Suggestion:
    """Suggest dt, gamma and epsilon for sequences of a given length.

    Overdamped neurons (the default) hold a few values for a long time, as a sum or a marked value needs. Underdamped
    neurons store much more about the shape of a sequence, for about its length.

    Args:
        length: Steps per sequence.
        hidden_size: Number of neurons.
        shortest: Shortest half-life in steps. Default: a tenth of the sequence. With `underdamped`, the shortest
            period; default: a hundredth of the sequence.
        longest: Longest half-life in steps. Default: ten sequences. With `underdamped`, the longest period;
            default: one sequence.
        dt: Step size. Default: 0.3, or 0.1 with `underdamped`. One unit of force moves a slow neuron by dt / epsilon.
        damping: "explicit" or "implicit".
        underdamped: Whether the neurons oscillate.

    Returns:
        The suggestion: `suggestion.layer(input_size)` builds the layer, `suggestion.explanation` gives the reasons.

    Raises:
        ValueError: If a value is out of range, or the half-lives or periods are impossible with this dt.

    Examples:
        >>> from cornn import theory
        >>> layer = theory.suggest(500, 64).layer(input_size=3)
        >>> layer.hidden_size
        64
    """
    if not isinstance(length, Integral) or length < 2 or not isinstance(hidden_size, Integral) or hidden_size < 1:
        raise ValueError(
            f"length must be an integer of at least 2 and hidden_size one of at least 1, got {length} and {hidden_size}"
        )
    length, hidden_size = int(length), int(hidden_size)  # of NumPy's integers, which layers do not take
    for name, value in (("shortest", shortest), ("longest", longest)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")
    dt = (UNDERDAMPED_STEP if underdamped else STEP) if dt is None else float(dt)
    if not 0 < dt < 1:
        raise ValueError(f"dt must lie between 0 and 1, got {dt}")
    if underdamped:
        return _underdamped(length, hidden_size, shortest, longest, dt, damping)
    # Both dampings lose the same share of the velocity: 1 - dt epsilon = 1 / (1 + dt epsilon').
    epsilon = LOST / dt if damping == "explicit" else LOST / (1 - LOST) / dt
    least = shortest_half_life(dt, epsilon, damping=damping)
    first, last = _ends(shortest, longest, (HALF_LIVES[0] * length, HALF_LIVES[1] * length), least)
    half_lives = _spread(first, last, hidden_size)
    gamma = stiffness_from_half_life(half_lives, dt, epsilon, damping=damping)
    exact = half_life(dt, gamma, epsilon, damping=damping)
    no_period = torch.full_like(exact, math.inf)
    return Suggestion(length, hidden_size, dt, gamma, epsilon, damping, exact, no_period, "memory", True)


def _ends(
    shortest: float | None, longest: float | None, default: tuple[float, float], least: float
) -> tuple[float, float]:
    """Complete `shortest` and `longest`, both at least `least`.

    A missing end is the default one, or has the default ratio to the end that is given.
    """
    if shortest is not None and longest is not None and shortest > longest:
        raise ValueError(f"shortest must be at most longest, got {shortest:g} and {longest:g}")
    if longest is not None and longest < least:
        raise ValueError(f"longest must be at least {least:.3g} steps with these settings, got {longest:g}")
    ratio = default[1] / default[0]
    first = min(default[0], (longest or default[1]) / ratio) if shortest is None else shortest
    last = max(default[1], first * ratio) if longest is None else longest
    return max(first, least), max(last, least)


def _spread(first: float, last: float, count: int) -> Tensor:
    """Return `count` logarithmically spaced values; a single one is `last`."""
    return log_spaced(first, last, count) if count > 1 else torch.tensor([last], dtype=torch.float64)


def _underdamped(
    length: int, hidden_size: int, shortest: float | None, longest: float | None, dt: float, damping: str
) -> Suggestion:
    keep = 0.5 ** (2 / (UNDERDAMPED_HALF_LIFE * length))
    epsilon = (1 - keep) / dt if damping == "explicit" else (1 / keep - 1) / dt
    least = SHORTEST_PERIOD if shortest is None else 0.0
    periods = _spread(*_ends(shortest, longest, (PERIODS[0] * length, PERIODS[1] * length), least), hidden_size)
    gamma = stiffness_from_period(periods, dt, epsilon, damping=damping)
    halves = half_life(dt, gamma, epsilon, damping=damping)
    return Suggestion(length, hidden_size, dt, gamma, epsilon, damping, halves, periods, "uncoupled", True)
