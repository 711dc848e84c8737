"""The effect of covariates that are known in advance, such as holidays and prices."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornn.forecasting.readout import fit_readout

__all__ = ["Effect", "fit_effect"]

MIN_SHARE = 0.02  # of the variance of the changes that an effect must predict, leaving one out


@dataclass(frozen=True)
class Effect:
    """A linear effect on the values, or on their logarithms.

    Attributes:
        weights: Shape (covariates,).
        centre: Covariates without effect, shape (covariates,).
        log: Whether the effect multiplies the values.
    """

    weights: NDArray[np.float64]
    centre: NDArray[np.float64]
    log: bool

    def remove(self, values: NDArray[np.float64], covariates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values without the effect of covariates, which have one more axis."""
        effect = self._effect(covariates)
        return values * np.exp(-effect) if self.log else values - effect

    def restore(self, values: NDArray[np.float64], covariates: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return values with the effect of covariates, which have one more axis."""
        effect = self._effect(covariates)
        return values * np.exp(effect) if self.log else values + effect

    def _effect(self, covariates: NDArray[np.float64]) -> NDArray[np.float64]:
        return (np.nan_to_num(covariates, nan=0.0) - self.centre) @ self.weights


def fit_effect(series: list[NDArray[np.float64]], covariates: list[NDArray[np.float64]], log: bool) -> Effect | None:
    """Fit the effect of covariates to the changes of series, by ridge regression.

    Args:
        series: The series, each of shape (time,); NaN where missing.
        covariates: Their covariates, each of shape (time, covariates).
        log: Whether to try the effect on logarithms too; the values are then positive.

    Returns:
        The effect, or None if the covariates predict nothing.
    """
    together = np.concatenate(covariates)
    centre = np.nanmean(together, 0)
    scale = np.nanstd(together, 0)
    scale = np.where(scale > 0, scale, 1.0)
    best, effect = MIN_SHARE, None
    for use_log in (False, True) if log else (False,):
        changes, inputs = [], []
        for values, known in zip(series, covariates, strict=True):
            values = np.log(values) if use_log else values
            changes.append(np.diff(values))
            inputs.append(np.diff((np.nan_to_num(known, nan=0.0) - centre) / scale, axis=0))
        y, X = np.concatenate(changes), np.concatenate(inputs)
        is_known = ~np.isnan(y)
        y, X = y[is_known], X[is_known]
        if len(y) < 3 * X.shape[1] + 5 or not y.std():
            continue
        share, weights = _leave_out(X, y)
        if share > best:
            best, effect = share, Effect(weights / scale, centre, use_log)
    return effect


def _leave_out(X: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
    """Return the share of the variance that is predicted, leaving every fifth part out, and the weights."""
    size = y.std()
    empty = np.zeros((len(y), 1, 0))
    predicted = np.zeros(len(y))
    parts = np.arange(len(y)) * 5 // len(y)
    for part in range(5):
        out = parts == part
        readout = fit_readout(X[~out], empty[~out], y[~out, None] / size)
        if readout is not None:
            predicted[out] = (X[out] @ readout.weights + readout.offset)[:, 0] * size
    readout = fit_readout(X, empty, y[:, None] / size)
    weights = np.zeros(X.shape[1]) if readout is None else readout.weights[:, 0] * size
    return float(1 - np.square(y - predicted).sum() / np.square(y - y.mean()).sum()), weights
