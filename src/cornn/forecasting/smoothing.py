"""Exponential smoothing with every setting of a grid at once; their forecasts are averaged by past accuracy."""

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

from cornn.forecasting.series import last_season

__all__ = ["Smoother", "State", "Track", "settings"]

LEVELS = (0.02, 0.08, 0.2, 0.35, 0.5, 0.7, 0.85, 0.97)
TRENDS = (  # of the trend, damping
    (0.0, 0.0),
    (0.0, 1.0),
    (0.03, 1.0),
    (0.15, 1.0),
    (0.03, 0.95),
    (0.15, 0.95),
    (0.4, 0.95),
    (0.15, 0.85),
    (0.4, 0.85),
)
SEASONS = (0.001, 0.03, 0.1, 0.25, 0.6)
HALF_LIFE = 120  # of the squared errors that settings are compared by, in steps; at least four seasons
FIRST_SEASONS = 3  # that the initial season is averaged over
FIRST_STEPS = 8  # that the initial level and trend are fitted to, without a season
MIN_ERROR = 1e-24  # mean square, so that its logarithm exists; series are of about unit scale
PARAMETER_COST = 1.0  # in units of the log likelihood, as in Akaike's criterion


@dataclass(frozen=True)
class Settings:
    """A grid of smoothing constants, each of shape (settings,)."""

    level: NDArray[np.float64]
    trend: NDArray[np.float64]
    damping: NDArray[np.float64]  # 0: no trend
    season: NDArray[np.float64]
    seasonal: NDArray[np.bool_]
    cost: NDArray[np.float64]


@cache
def settings(seasonal: bool) -> Settings:
    """Return the grid. With a season it also contains the settings without one."""
    rows = []
    for season in (None, *SEASONS) if seasonal else (None,):
        for level in LEVELS:
            for trend, damping in TRENDS:
                count = 1 + (2 if damping else 0) + (1 if season else 0)
                rows.append((level, trend, damping, season or 0.0, season is not None, count * PARAMETER_COST))
    level, trend, damping, season, has, cost = (np.array(column) for column in zip(*rows, strict=True))
    return Settings(level, trend, damping, season, has.astype(bool), cost)


@dataclass(frozen=True)
class State:
    """What smoothing remembers after a step, for all settings."""

    level: NDArray[np.float64]  # (settings,)
    trend: NDArray[np.float64]  # (settings,)
    season: NDArray[np.float64]  # (period, settings): the season as updated at each of the last steps
    total: NDArray[np.float64]  # (settings,): discounted sum of squared errors
    count: float  # discounted number of errors


@dataclass(frozen=True)
class Track:
    """The states after each of some steps of a series, for all settings."""

    level: NDArray[np.float64]  # (steps, settings)
    trend: NDArray[np.float64]  # (steps, settings)
    season: NDArray[np.float64]  # (period + steps, settings): the season as updated at each step
    loss: NDArray[np.float64]  # (steps, settings): negative log likelihood of the errors so far
    state: State  # after the last step


class Smoother:
    """Exponential smoothing with additive season and damped trend, for all settings of a grid side by side.

    Args:
        period: Steps per season; 1 means no season.
    """

    def __init__(self, period: int = 1) -> None:
        self.period = period
        self.grid = settings(period > 1)

    @property
    def warmup(self) -> int:
        """Number of first steps that the initial state is fitted to."""
        return FIRST_SEASONS * self.period if self.period > 1 else FIRST_STEPS

    def start(self, values: NDArray[np.float64]) -> State:
        """Return the state before the first step, fitted to the first steps."""
        first, count = values[: self.warmup], len(self.grid.level)
        time = np.arange(len(first))
        season = np.zeros((self.period, count))
        wave = np.zeros(self.period)
        if self.period > 1 and len(first) >= 2 * self.period:
            width = self.period
            means = np.convolve(first, np.ones(width) / width, "valid")
            slope = (means[-1] - means[0]) / max(len(means) - 1, 1)
            rest = first - slope * time
            wave = np.array([rest[phase :: self.period].mean() for phase in range(self.period)])
            wave -= wave.mean()
            season[:, self.grid.seasonal] = wave[:, None]
        elif len(first) > 2:
            slope = np.polyfit(time, first, 1)[0]
        else:
            slope = 0.0
        seasonal = self.grid.seasonal
        clean = first - wave[time % self.period]
        centre = (len(first) - 1) / 2
        level = np.where(seasonal, clean.mean(), first[: self.period + FIRST_STEPS].mean())
        moving = self.grid.damping > 0
        level = np.where(moving & seasonal, clean.mean() - slope * (centre + 1), level)
        level = np.where(moving & ~seasonal, first.mean() - slope * (centre + 1), level)
        return State(level, np.where(moving, slope, 0.0), season, np.zeros(count), 0.0)

    def run(self, values: NDArray[np.float64], state: State | None = None) -> Track:
        """Filter a series, or the continuation of one.

        Args:
            values: The values, shape (steps,), without missing ones.
            state: The state before the first of them. Defaults to one that is fitted to the first values.

        Returns:
            The states after every step.
        """
        grid, period, steps = self.grid, self.period, len(values)
        burn = 0
        if state is None:
            state, burn = self.start(values), min(self.warmup, steps) // 2
        level, trend = state.level, state.trend
        levels, trends, errors = (np.empty((steps, len(grid.level))) for _ in range(3))
        seasons = np.concatenate([state.season, np.empty((steps, len(grid.level)))])
        gain = grid.season * (1 - grid.level)
        slope = grid.level * grid.trend
        for step in range(steps):
            ahead = grid.damping * trend
            error = values[step] - level - ahead - seasons[step]
            level = level + ahead + grid.level * error
            trend = ahead + slope * error
            levels[step], trends[step], errors[step] = level, trend, error
            seasons[step + period] = seasons[step] + gain * error
        squares = np.square(errors)
        squares[:burn] = 0.0
        counts = np.ones(steps)
        counts[:burn] = 0.0
        keep = 0.5 ** (1 / max(HALF_LIFE, 4 * period))
        totals, _ = lfilter([1.0], [1.0, -keep], squares, axis=0, zi=keep * state.total[None])
        count, _ = lfilter([1.0], [1.0, -keep], counts, zi=[keep * state.count])
        mean = totals / np.maximum(count, 1.0)[:, None]
        loss = 0.5 * count[:, None] * np.log(mean + MIN_ERROR) + grid.cost
        after = State(level, trend, seasons[steps:].copy(), totals[-1], float(count[-1]))
        return Track(levels, trends, seasons, loss, after)

    def forecast(self, track: Track, origins: NDArray[np.int_], horizon: int) -> NDArray[np.float64]:
        """Forecast with all settings.

        Args:
            track: The states from `run`.
            origins: Steps of the track after which to forecast; 1 is its first.
            horizon: Steps to forecast.

        Returns:
            Forecasts, shape (origins, horizon, settings).
        """
        ahead = np.arange(1, horizon + 1)
        growth = np.cumsum(self.grid.damping[None] ** ahead[:, None], 0)  # (horizon, settings)
        last = origins - 1
        forecasts = track.level[last][:, None] + growth * track.trend[last][:, None]
        if self.period > 1:
            forecasts = forecasts + track.season[last[:, None] + self.period + last_season(horizon, self.period)]
        return forecasts
