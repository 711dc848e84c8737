"""Quantiles and p-values from the errors of earlier forecasts."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit
from sklearn.isotonic import isotonic_regression

__all__ = ["Errors", "collect_errors", "scale_back"]

MIN_SPREAD = 1e-9
MIN_INDEPENDENT = 0.5  # forecasts
FEW = 5.0  # independent forecasts for which the quantiles are half those of Student's distribution
GROWTH = 0.75  # of the spread of errors: this power of the number of steps ahead, where few errors are known
PRIOR_STEPS = 4.0  # errors' worth of a smooth growth that the spread of each step ahead is pulled to


@dataclass(frozen=True)
class Errors:
    """Errors of earlier forecasts, divided by the scale of the series at their origins.

    Attributes:
        spread: Root mean square of the errors of each step ahead, shape (horizon,), never decreasing.
        shapes: Errors of all origins and steps ahead divided by their spread, sorted, shape (errors,).
        origins: Number of origins that the errors come from.
        first: Absolute errors one step ahead of all origins, sorted, shape (all origins,).
        independent: Number of forecasts that do not overlap, which may be a fraction.
    """

    spread: NDArray[np.float64]
    shapes: NDArray[np.float64]
    origins: int
    first: NDArray[np.float64]
    independent: float

    def spread_after(self, missing: NDArray[np.int_]) -> NDArray[np.float64]:
        """Return the spread of each step ahead if so many values before the origins are missing, (origins, horizon)."""
        horizon = len(self.spread)
        steps = missing[:, None] + np.arange(1, horizon + 1)
        return self.spread[np.minimum(steps, horizon) - 1] * np.maximum(steps / horizon, 1.0) ** GROWTH

    def quantiles(self, levels: NDArray[np.float64], missing: NDArray[np.int_]) -> NDArray[np.float64]:
        """Return quantiles of the scaled errors, shape (levels, origins, horizon).

        As in conformal prediction, the level is moved outwards by the one error to come: the quantile of n errors at
        level q is the one at (1 + 1/n) q, from the middle. Errors of overlapping forecasts depend on each other, so
        that n is the number of origins, not of errors. Few independent forecasts say little about bias, size and shape
        of the errors: the quantiles are then closer to those of Student's distribution, which are the quantiles of the
        next of k independent normal errors with unknown mean and size.

        Args:
            levels: Levels, shape (levels,).
            missing: Number of values right before each origin that are missing, shape (origins,).
        """
        if not len(self.shapes):
            return np.zeros((len(levels), len(missing), len(self.spread)))
        outer = np.clip(0.5 + (levels - 0.5) * (1 + 1 / max(self.origins, 1)), 0.0, 1.0)
        few = max(min(self.independent, self.origins), MIN_INDEPENDENT)
        student = stdtrit(few + 1, levels) * np.sqrt(1 + 1 / few)
        share = 1 / (1 + few / FEW)
        shape = share * student + (1 - share) * np.quantile(self.shapes, outer)
        return shape[:, None, None] * self.spread_after(missing)

    def p_value(self, error: float) -> float:
        """Return the share of earlier one-step errors that were at least as large, counting the new one.

        Args:
            error: The new error, divided by the scale of the series.

        Returns:
            The conformal p-value, at most 1. The smallest that n errors can give is 1 / (n + 1).
        """
        larger = len(self.first) - np.searchsorted(self.first, abs(error), "left")
        return float((1 + larger) / (len(self.first) + 1))


def scale_back(errors: NDArray[np.float64], missing: NDArray[np.int_]) -> NDArray[np.float64]:
    """Scale errors after missing values, which are errors further ahead, to those after known values.

    Args:
        errors: Shape (origins, horizon).
        missing: Number of values right before each origin that are missing, shape (origins,).
    """
    steps = np.arange(1, errors.shape[1] + 1)
    return errors * (steps / (steps + missing[:, None])) ** GROWTH


def collect_errors(errors: NDArray[np.float64], first: NDArray[np.float64], independent: float) -> Errors:
    """Summarise scaled errors.

    Args:
        errors: Shape (origins, horizon); NaN where the later value is unknown.
        first: Errors one step ahead, also of earlier origins, shape (all origins,); NaN likewise.
        independent: Number of forecasts that do not overlap, which may be a fraction.

    Returns:
        The errors, ready for quantiles.
    """
    known = ~np.isnan(errors)
    counts = known.sum(0)
    squares = np.where(known, np.square(errors), 0.0).sum(0)
    growth = np.arange(1, errors.shape[1] + 1) ** (2 * GROWTH)
    usual = np.sqrt(squares.sum() / max((counts * growth).sum(), 1) * growth)
    mean = (squares + PRIOR_STEPS * usual**2) / (counts + PRIOR_STEPS)
    spread = np.maximum(isotonic_regression(np.sqrt(mean), sample_weight=counts + PRIOR_STEPS), MIN_SPREAD)
    first = np.sort(np.abs(first[~np.isnan(first)]))
    return Errors(spread, np.sort((errors / spread)[known]), int(known.any(1).sum()), first, float(independent))
