"""What the features of a series are, for forecasts, and the grid that the series is put on."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.frames import select_columns
from cornn.estimators.series import SequenceData
from cornn.estimators.values import is_frame, to_float_array
from cornn.forecasting import History
from cornn.forecasting.series import regular_steps, spread_out

__all__ = ["SeriesLayout", "check_futures", "describe_end", "name_feature"]


@dataclass(frozen=True)
class SeriesLayout:
    """What the features of a series are, and the grid that it is put on.

    Attributes:
        features: Number of features.
        targets: Features that are forecast.
        known_future: Features that are known in advance.
        unit: Time of one step of the grid; None: samples have no times.
        names: Names of the features, if they have some.
    """

    features: int
    targets: tuple[int, ...]
    known_future: tuple[int, ...] = ()
    unit: float | None = None
    names: tuple[str, ...] = ()

    @property
    def past(self) -> list[list[int]]:
        """For each target, the features that are known up to the last step only, without the target itself."""
        others = [feature for feature in range(self.features) if feature not in self.known_future]
        return [[feature for feature in others if feature != target] for target in self.targets]

    def name(self, target: int) -> str:
        """Return the name of a feature for messages."""
        return name_feature(target, self.names)

    def regular(self, sequence: SequenceData) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
        """Return the values on the grid, shape (steps, features), and the step of every sample."""
        if sequence.gaps is None or self.unit is None:
            return sequence.values, np.arange(len(sequence.values))
        steps = regular_steps(sequence.gaps, self.unit)
        return spread_out(sequence.values, steps), steps

    def history(self, values: NDArray[np.float64], column: int, future: NDArray | None = None) -> History | None:
        """Return one target of a regular series from its first known value on, or None without any.

        Args:
            values: The series, shape (steps, features).
            column: Number of the target.
            future: Features of `known_future` of the steps to forecast, shape (horizon, features).
        """
        target = self.targets[column]
        known_steps = np.flatnonzero(~np.isnan(values[:, target]))
        if not len(known_steps):
            return None
        known = values[known_steps[0] :]
        return History(known[:, target], known[:, list(self.known_future)], known[:, self.past[column]], future)

    def read_futures(self, future: Any, count: int, horizon: int) -> list[NDArray[np.float64] | None]:
        """Return the covariates of the steps to forecast, one array (horizon, covariates) per series.

        Args:
            future: The covariates, shape (series, horizon, covariates), without the axes of which there is one; or one
                DataFrame per series, whose columns are found by their names. None if there are none.
            count: Number of series.
            horizon: Number of steps to forecast.
        """
        if future is None:
            return [None] * count
        if not self.known_future:
            raise ValueError("future is only for forecasters with known_future: omit it, or fit with known_future")
        frames = [future] if is_frame(future) else future if isinstance(future, list | tuple) else []
        if frames and all(map(is_frame, frames)):
            wrong = next((len(frame) for frame in frames if len(frame) != horizon), None)
            if wrong is not None:
                raise ValueError(f"a DataFrame of future has {wrong} rows, expected {horizon}: one per step ahead")
            names = [self.names[feature] for feature in self.known_future] if self.names else None
            future = [frame if names is None else select_columns(frame, names, "future, ") for frame in frames]
        values, shape = to_float_array(future, "future"), (count, horizon, len(self.known_future))
        allowed = {shape} | ({shape[:2]} if shape[2] == 1 else set())
        allowed |= {sizes[1:] for sizes in allowed} if count == 1 else set()
        if values.shape not in allowed:
            raise ValueError(f"future has shape {values.shape}, expected (series, horizon, features) = {shape}")
        futures = values.reshape(shape)
        check_futures(futures)
        return list(futures)


def name_feature(number: int, names: tuple[str, ...]) -> str:
    """Return the name of a feature for messages."""
    return names[number] if names else f"feature {number}"


def describe_end(missing: int, name: str, number: int) -> ValueError:
    """Return the error of a sequence that has too many missing values of a target at its end."""
    return ValueError(
        f"the last {missing:,} values of {name} in sequence {number} are missing, too many to forecast from those "
        "before: fit and forecast it by itself, up to its last value"
    )


def check_futures(futures: Iterable[NDArray[np.float64]]) -> None:
    """Check that the covariates of the steps to forecast are known."""
    for number, values in enumerate(futures):
        if np.isnan(values).any():
            raise ValueError(f"the future of sequence {number} has missing values: fill them in")
