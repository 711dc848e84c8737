"""Constants and a start for a sequence length, from the linear picture.

What is known: the values for neurons that hold, with the start that goes with them, solve the adding problem at 500 to
20,000 steps from every seed tried (docs/adding.md has the records). Neurons that ring tell more of the shape of a whole
sequence (docs/better.md has those of permuted MNIST).
"""

import math
from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

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
LOST = 0.7  # epsilon dt: the share of its velocity that a neuron loses in a step
HALF_LIVES = (0.1, 10.0)  # as shares of the sequence
SOLVED = 20_000  # steps; the longest at which the adding problem was solved with values like these

RINGING_STEP = 0.1  # dt
PERIODS = (0.01, 1.0)  # as shares of the sequence
SHORTEST_PERIOD = 4.0  # steps
RINGS = 1.25  # the half-life of what rings, as a share of the sequence


@dataclass(frozen=True)
class Suggestion:
    """What `suggest` suggests: constants, and how to start."""

    length: int
    hidden_size: int
    dt: float
    gamma: Tensor  # (hidden)
    epsilon: float
    damping: str
    half_lives: Tensor  # (hidden), in steps
    periods: Tensor  # (hidden), in steps; infinite for neurons that hold
    init: str
    centre: bool  # whether to call `layer.centre_` with the mean of the data

    @property
    def explanation(self) -> str:
        """Why these values, and how far they are known to carry."""
        limit = stability_limit(self.gamma, self.epsilon, damping=self.damping).min().item()
        held = effective_rank(self.dt, self.gamma, self.epsilon, self.length, damping=self.damping)
        kind = self._ringing() if self.init == "uncoupled" else self._holding()
        return (
            f"{self.length:,} steps, {self.hidden_size} neurons: dt = {self.dt:.3g}, epsilon = {self.epsilon:.3g}, "
            f"gamma from {self.gamma.min().item():.3g} to {self.gamma.max().item():.3g}, one a neuron. dt is stable up "
            f"to {limit:.3g}. Uncoupled they hold {held} number{'s' if held > 1 else ''} about the sequence. {kind}"
        )

    def _holding(self) -> str:
        known = (
            "The adding problem was solved at this length or a longer one with values like these (docs/adding.md)."
            if self.length <= SOLVED
            else f"The longest at which the adding problem was solved with values like these is {SOLVED:,} steps "
            "(docs/adding.md): take these as a start, not as an answer."
        )
        return (
            f"What one holds halves in {self.half_lives[0]:.0f} to {self.half_lives[-1]:.0f} steps. All neurons are "
            f"overdamped: they hold, they do not ring. Start with init={self.init!r}, which takes what was summed up "
            "of the input off the next one, so that the noise of a long input does not pile up, and call layer.centre_ "
            "with the mean of your data: slow neurons add up what drives them, and only a drive without a mean keeps "
            f"them from filling up. {known}"
        )

    def _ringing(self) -> str:
        return (
            f"Every neuron rings at its own pace, with {self.periods.min():.3g} to {self.periods.max():.3g} steps to a "
            f"period, and halves in {self.half_lives.max():.0f} steps: together they are a spectrum of the sequence. "
            f"Start with init={self.init!r}, call layer.centre_ with the mean of your data, clip gradients to a norm "
            "of 0.1, let the rate rise over the first 100 steps, and train the coupling (weight_hh) at a fifth of the "
            "rate of the rest: it acts on a state that rings through the whole sequence (docs/better.md)."
        )

    def layer(self, input_size: int, **options) -> CoRNN:
        """A layer with these constants; `options` are others of `CoRNN`."""
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
    """dt, gamma and epsilon for sequences of `length` steps.

    shortest, longest: half-lives in steps, if you know how far your data asks to be remembered; else a tenth of the
        sequence and ten times its length. With `underdamped`, periods in steps; else a hundredth of the sequence and
        all of it.
    dt: the step; else 0.3, or 0.1 with `underdamped`. With epsilon dt fixed, one unit of force moves a slow neuron by
        dt / epsilon.
    underdamped: overdamped neurons (the default) hold a few values for any time, which is what a sum or a marked
        value needs. Underdamped neurons carry much more about a sequence as a whole, for about its length.
    """
    if not isinstance(length, Integral) or length < 2 or not isinstance(hidden_size, Integral) or hidden_size < 1:
        raise ValueError(
            f"length must be a whole number from 2 on, and hidden_size one from 1 on, got {length} and {hidden_size}"
        )
    for name, value in (("shortest", shortest), ("longest", longest)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, got {value}")
    dt = (RINGING_STEP if underdamped else STEP) if dt is None else dt
    if not 0 < dt < 1:
        raise ValueError(f"dt must lie between 0 and 1, got {dt}")
    if underdamped:
        return _ringing(length, hidden_size, shortest, longest, dt, damping)
    # The same share of the velocity is lost with either damping: 1 - dt epsilon = 1 / (1 + dt epsilon').
    epsilon = LOST / dt if damping == "explicit" else LOST / (1 - LOST) / dt
    least = shortest_half_life(dt, epsilon, damping=damping)
    first, last = _ends(shortest, longest, (HALF_LIVES[0] * length, HALF_LIVES[1] * length), least)
    half_lives = _spread(first, last, hidden_size)
    gamma = stiffness_from_half_life(half_lives, dt, epsilon, damping=damping)
    exact = half_life(dt, gamma, epsilon, damping=damping)
    creeping = torch.full_like(exact, math.inf)
    return Suggestion(length, hidden_size, dt, gamma, epsilon, damping, exact, creeping, "memory", True)


def _ends(
    shortest: float | None, longest: float | None, usual: tuple[float, float], least: float
) -> tuple[float, float]:
    """The shortest and the longest: those that are given, and else the usual ones, or as far from the one that is given
    as they are from each other; both from `least` on."""
    if shortest is not None and longest is not None and shortest > longest:
        raise ValueError(f"shortest must not be above longest, got {shortest:g} and {longest:g}")
    if longest is not None and longest < least:
        raise ValueError(f"longest must be {least:.3g} steps at least with these settings, got {longest:g}")
    ratio = usual[1] / usual[0]
    first = min(usual[0], (longest or usual[1]) / ratio) if shortest is None else shortest
    last = max(usual[1], first * ratio) if longest is None else longest
    return max(first, least), max(last, least)


def _spread(first: float, last: float, count: int) -> Tensor:
    """So many values between the two; a single one is the last."""
    return log_spaced(first, last, count) if count > 1 else torch.tensor([last], dtype=torch.float64)


def _ringing(
    length: int, hidden_size: int, shortest: float | None, longest: float | None, dt: float, damping: str
) -> Suggestion:
    kept = 0.5 ** (2 / (RINGS * length))
    epsilon = (1 - kept) / dt if damping == "explicit" else (1 / kept - 1) / dt
    least = SHORTEST_PERIOD if shortest is None else 0.0
    periods = _spread(*_ends(shortest, longest, (PERIODS[0] * length, PERIODS[1] * length), least), hidden_size)
    gamma = stiffness_from_period(periods, dt, epsilon, damping=damping)
    halves = half_life(dt, gamma, epsilon, damping=damping)
    return Suggestion(length, hidden_size, dt, gamma, epsilon, damping, halves, periods, "uncoupled", True)
