"""Sequences: as users pass them with times, and after reading."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["SequenceData", "Series", "ValidSeries", "check_known"]


@dataclass(frozen=True, eq=False)
class Series:
    """One sequence with the times of its samples.

    The estimators accept lists of these, and scikit-learn can split such lists.

    Args:
        values: Values, shape (time, features), or (time,) for a single feature. NaN marks a missing value.
        times: Increasing times of the samples, shape (time,), as numbers or dates. None means evenly spaced.

    Examples:
        >>> Series(np.array([0.1, 0.7, 0.2]), times=np.array([0.0, 0.5, 2.0]))
    """

    values: Any
    times: Any = None


@dataclass(frozen=True, eq=False)
class ValidSeries(Series):
    """A `Series` whose reader has validated it, so that it is not validated again.

    Args:
        values: Values, shape (time, features), of type float64, at least one step, without infinity.
        times: Finite, increasing times of the samples, shape (time,), of type float64. None means evenly spaced.
        names: Names of the features, if the file has some.
    """

    names: tuple[str, ...] = ()

    def take(self, length: int) -> "ValidSeries":
        """Return the first samples."""
        return replace(self, values=self.values[:length], times=None if self.times is None else self.times[:length])


class SequenceData(NamedTuple):
    """A sequence after reading and validation."""

    values: NDArray[np.float64]  # (time, features)
    gaps: NDArray[np.float64] | None  # (time): the time since the previous sample; NaN for the first if unknown


def check_known(sequence: SequenceData, where: str) -> None:
    """Check that at least one value of a sequence is known."""
    # The first step alone decides for almost all sequences.
    if np.isnan(sequence.values[0]).all() and np.isnan(sequence.values).all():
        raise ValueError(f"{where} has no values, all are missing: remove it")
