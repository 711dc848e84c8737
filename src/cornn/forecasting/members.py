"""Members of a pool: forecasters of one series that are used as they are, and the scales they work on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import softmax

from cornn.forecasting import rules
from cornn.forecasting.smoothing import Smoother, State, Track

__all__ = [
    "FAMILIES",
    "Member",
    "SmoothingStates",
    "View",
    "make_views",
    "moving_scale",
    "simple_forecasts",
    "undo_log",
]

FAMILIES = (
    *("last value", "drift", "mean", "seasonal naive", "seasonal naive with drift"),
    *("smoothing", "theta", "ridge on lags", "oscillators"),
)
"""Kinds of members of a pool."""

CHUNK = 256  # steps that are smoothed at once
SCALE_HALF_LIFE = 30  # steps; at least three seasons
MIN_SHARE = 0.1  # of the mean absolute change so far that the scale never falls below
MIN_SIZE = 1e-6  # of the mean absolute value so far, likewise
MIN_SCALE = 1e-100  # of a series of zeros; no more, so that small series are scaled like large ones


@dataclass(frozen=True)
class Member:
    """One forecaster of a pool.

    Attributes:
        family: One of `FAMILIES`.
        period: Steps per season; 1 means no season.
        log: Whether it works on logarithms.
        seasonal: Of a readout: whether it corrects the value one season before.
        covariates: Of a readout: whether it sees covariates.
    """

    family: str
    period: int = 1
    log: bool = False
    seasonal: bool = False
    covariates: bool = False

    def __str__(self) -> str:
        words = ["log"] * self.log + ["seasonal"] * self.seasonal + [self.family]
        words += ["with covariates"] * self.covariates + [f"({self.period})"] * (self.period > 1)
        return " ".join(words)


@dataclass(frozen=True)
class View:
    """A series on the scale on which members work. Logarithms end before the first value that has none."""

    values: NDArray[np.float64]  # (time,)
    scale: NDArray[np.float64]  # (time,): discounted mean absolute change
    covariates: NDArray[np.float64]  # (time, covariates)


SmoothingStates = dict[tuple[int, bool], State]
"""(period, log) -> the state of smoothing after all but the last value of a series, for `Pool.forecast_at`."""


def undo_log(values: NDArray, log: bool) -> NDArray:
    """Return forecasts of a view in units of the series."""
    return np.exp(np.minimum(values, 700.0)) if log else values


def make_views(values: NDArray[np.float64], period: int, log: bool, covariates: NDArray) -> dict[bool, View]:
    """Return the values, and with `log` their logarithms, with their scales."""
    views = {False: View(values, moving_scale(values, period), covariates)}
    # Forecasts at earlier origins must not depend on whether a later value has a logarithm.
    positive = np.logical_and.accumulate(values > 0)
    if log and positive[0]:
        logs = np.log(values[positive])
        views[True] = View(logs, moving_scale(logs, period), covariates[positive])
    return views


def moving_scale(values: NDArray[np.float64], period: int) -> NDArray[np.float64]:
    """Return the discounted mean absolute change from one season before, at every step; never zero.

    The scale of a step depends on earlier steps and itself only. Changes in the first season are from one step before.
    """
    steps = np.arange(len(values))
    changes = np.abs(values - values[np.where(steps >= period, steps - period, np.maximum(steps - 1, 0))])
    known = (steps > 0).astype(float)
    keep = 0.5 ** (1 / max(SCALE_HALF_LIFE, 3 * period))
    mean = lfilter([1.0], [1.0, -keep], changes) / np.maximum(lfilter([1.0], [1.0, -keep], known), 1.0)
    ever = np.cumsum(changes) / np.maximum(steps, 1)
    size = np.cumsum(np.abs(values)) / (steps + 1)
    return np.maximum(np.maximum(mean, MIN_SHARE * ever), np.maximum(MIN_SIZE * size, MIN_SCALE))


def simple_forecasts(
    views: dict[bool, View],
    origins: NDArray[np.int_],
    horizon: int,
    use: Sequence[Member],
    states: SmoothingStates | None = None,
) -> dict[Member, NDArray[np.float64]]:
    """Forecast with the members that have no readout."""
    values = views[False].values
    functions = {
        "last value": rules.last_value,
        "drift": rules.drift,
        "mean": rules.mean_value,
        "seasonal naive": rules.seasonal_naive,
        "seasonal naive with drift": rules.seasonal_drift,
    }
    forecasts = {}
    for member in use:
        if member.family in functions:
            answer = functions[member.family](values, origins, horizon, member.period)
            enough = origins >= (2 * member.period if member.period > 1 else 1)
            forecasts[member] = np.where(enough[:, None], answer, np.nan)
    smoothed = [(member.period, member.log) for member in use if member.family in ("smoothing", "theta")]
    for period, log in dict.fromkeys(smoothed):
        known = origins <= len(views[log].values) if log in views else np.zeros(len(origins), bool)
        if not known.any():
            continue
        state = None if states is None else states.get((period, log))
        flat, moving = smooth(views[log], origins[known], horizon, period, state)
        for family, answer in (("smoothing", moving), ("theta", flat)):
            member = Member(family, period, log)
            if member in use:
                forecasts[member] = np.full((len(origins), horizon), np.nan)
                forecasts[member][known] = undo_log(answer, log)
    return forecasts


def smooth(
    view: View, origins: NDArray[np.int_], horizon: int, period: int, state: State | None
) -> tuple[NDArray, NDArray]:
    """Forecast with theta and with exponential smoothing, each (origins, horizon).

    Theta is smoothing without trend plus half of the slope of the least-squares line.

    Args:
        view: The series.
        origins: Numbers of known values after which to forecast.
        horizon: Steps to forecast.
        period: Steps per season.
        state: The state before the last value. None: smoothing starts with the first value, in chunks that bound the
            memory.
    """
    smoother = Smoother(period)
    still = smoother.grid.damping == 0
    slopes = expanding_slope(view.values)
    flat, moving = np.empty((len(origins), horizon)), np.empty((len(origins), horizon))

    def forecast(track: Track, where: NDArray[np.int_], first: int) -> None:
        ends = origins[where] - first
        every = smoother.forecast(track, ends, horizon)
        losses = track.loss[ends - 1]
        moving[where] = np.einsum("ohs,os->oh", every, softmax(-losses, axis=1))
        level = np.einsum("ohs,os->oh", every[:, :, still], softmax(-losses[:, still], axis=1))
        flat[where] = level + 0.5 * slopes[origins[where] - 1][:, None] * np.arange(1, horizon + 1)

    first = 0 if state is None else len(view.values) - 1
    if state is None:
        # The initial state is fitted to the first values, of which early origins know some only.
        for number in np.flatnonzero(origins < smoother.warmup):
            forecast(smoother.run(view.values[: origins[number]]), np.array([number]), 0)
    while first < len(view.values):
        end = first + (max(CHUNK, smoother.warmup) if first == 0 else CHUNK)
        values = view.values[first:end]
        least = max(first + 1, 0 if first else smoother.warmup)
        where = np.flatnonzero((origins >= least) & (origins <= first + len(values)))
        track = smoother.run(values, state)
        if len(where):
            forecast(track, where, first)
        state, first = track.state, end
    return flat, moving


def expanding_slope(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least-squares slope of the values up to each step."""
    count = np.arange(1, len(values) + 1)
    time = count - 1.0
    # Centred by the first value, so that the sums stay small.
    shifted = values - values[0]
    total, moment = np.cumsum(shifted), np.cumsum(shifted * time)
    spread = count * (count.astype(float) ** 2 - 1) / 12
    return (moment - (count - 1) / 2 * total) / np.maximum(spread, 1.0)
