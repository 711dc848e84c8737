"""Trivial rules, which every forecast is compared with."""

import numpy as np
from numpy.typing import NDArray

from cornn.forecasting.series import last_season

__all__ = ["drift", "last_value", "mean_value", "seasonal_drift", "seasonal_naive"]


def last_value(values: NDArray[np.float64], origins: NDArray[np.int_], horizon: int, period: int) -> NDArray:
    """Repeat the last value."""
    return np.repeat(values[origins - 1][:, None], horizon, 1)


def seasonal_naive(values: NDArray[np.float64], origins: NDArray[np.int_], horizon: int, period: int) -> NDArray:
    """Repeat the last season."""
    return values[np.maximum((origins - 1)[:, None] + last_season(horizon, period), 0)]


def drift(values: NDArray[np.float64], origins: NDArray[np.int_], horizon: int, period: int) -> NDArray:
    """Continue the line from the first to the last value."""
    slope = (values[origins - 1] - values[0]) / np.maximum(origins - 1, 1)
    return values[origins - 1][:, None] + slope[:, None] * np.arange(1, horizon + 1)


def seasonal_drift(values: NDArray[np.float64], origins: NDArray[np.int_], horizon: int, period: int) -> NDArray:
    """Repeat the last season, raised by the change of the mean from the season before."""
    sums = np.cumsum(np.concatenate([[0.0], values]))
    now, previous, before = (np.maximum(origins - count * period, 0) for count in range(3))
    change = np.where(origins >= 2 * period, (sums[now] - 2 * sums[previous] + sums[before]) / period, 0.0)
    seasons = (np.arange(1, horizon + 1) + period - 1) // period
    return seasonal_naive(values, origins, horizon, period) + change[:, None] * seasons


def mean_value(values: NDArray[np.float64], origins: NDArray[np.int_], horizon: int, period: int) -> NDArray:
    """Forecast the mean of all values so far."""
    means = np.cumsum(values)[origins - 1] / origins
    return np.repeat(means[:, None], horizon, 1)
