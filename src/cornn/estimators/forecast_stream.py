"""Streams of a pool forecaster: one sample at a time, with forecasts and p-values."""

import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import save

from cornn.estimators.forecast_layout import SeriesLayout
from cornn.estimators.times import scale_timespan
from cornn.forecasting import Forecasts, History, Model
from cornn.forecasting.members import SmoothingStates
from cornn.forecasting.series import check_length
from cornn.streaming import unpack_state

__all__ = ["ForecastStream"]


class ForecastStream:
    """Forecast after each sample, and judge each sample by the forecast that was made before it.

    After n samples the forecast equals that of `predict` for the series of these n samples. A stream keeps its history.
    Create one with the forecaster's `stream` method.

    Examples:
        >>> stream = forecaster.stream()
        >>> for sample in series:
        ...     if stream.score(sample) < 0.01:
        ...         print("unusual:", sample)
    """

    def __init__(self, models: list[Model], layout: SeriesLayout) -> None:
        self._models, self._layout, self._features = models, layout, layout.features
        self.reset()

    def __call__(self, sample: ArrayLike, timespan: float | None = None, future: Any = None) -> NDArray[np.float64]:
        """Process one sample and forecast.

        Args:
            sample: The sample, shape (features,), or a number if there is one feature; NaN marks a missing value.
            timespan: The time since the previous sample, in the unit of the training data. Defaults to one step. Longer
                ones are rounded to whole steps.
            future: The covariates that are known in advance of the steps to forecast, shape (horizon, covariates).
                Defaults to those of this sample, repeated.

        Returns:
            Forecasts, shape (horizon, targets); NaN before the first known value.
        """
        known = self._read_future(future)
        self._add(sample, timespan)
        return self._forecast(known)

    def forecast(self, future: Any = None) -> NDArray[np.float64]:
        """Forecast from the samples so far, shape (horizon, targets); `future` as for a call."""
        return self._forecast(self._read_future(future))

    def _read_future(self, future: Any) -> NDArray[np.float64] | None:
        return self._layout.read_futures(future, 1, self._models[0].horizon)[0]

    def _forecast(self, future: NDArray[np.float64] | None) -> NDArray[np.float64]:
        columns = []
        for number, model in enumerate(self._models):
            forecasts = self._predict(number, future)
            columns.append(np.full(model.horizon, np.nan) if forecasts is None else forecasts.mean[0])
        return np.stack(columns, 1)

    def score(self, sample: ArrayLike, timespan: float | None = None) -> Any:
        """Process one sample and return its conformal p-value under the forecast that was made before it.

        The p-value is the share of earlier one-step errors, of the backtest in `fit`, that were at least as large. If
        the series continues as before, p-values are spread evenly over (0, 1]: one of 20 is below 0.05. With n earlier
        errors the smallest p-value is 1 / (n + 1); a series of 180 values or more usually has 120.

        Args:
            sample: The sample, as for a call.
            timespan: The time since the previous sample, as for a call.

        Returns:
            The p-value, or one per target; NaN if the value is missing or there is no forecast yet.
        """
        values = self._read(sample)
        p_values = np.full(len(self._models), np.nan)
        # The covariates of this sample are known when it arrives.
        covariates = values[list(self._layout.known_future)]
        for number, (model, target) in enumerate(zip(self._models, self._layout.targets, strict=True)):
            forecasts = self._predict(number, np.repeat(covariates[None], model.horizon, 0))
            if forecasts is not None and not math.isnan(values[target]):
                error = (values[target] - forecasts.mean[0, 0]) / forecasts.scale[0]
                # After missing values it is the error of a forecast further ahead.
                error *= model.errors.spread[0] / model.errors.spread_after(np.atleast_1d(forecasts.missing))[0, 0]
                p_values[number] = model.errors.p_value(float(error))
        self._add(values, timespan)
        return float(p_values[0]) if len(p_values) == 1 else p_values

    def reset(self) -> None:
        """Start a new series."""
        self._rows = np.zeros((64, self._features))
        self._length = 0
        self._states: list[SmoothingStates] = [{} for _ in self._models]
        self._firsts = [-1 for _ in self._models]

    def to_bytes(self) -> bytes:
        """Return the samples so far as bytes, for `restore`."""
        return save({"rows": self._rows[: self._length].copy()})

    def restore(self, state: bytes | bytearray | memoryview) -> None:
        """Resume from what `to_bytes` returned, from a stream of the same forecaster."""
        restored = unpack_state(state)
        if "rows" not in restored:
            raise ValueError("this is not the state of a forecaster's stream: 'rows' is missing")
        rows = restored["rows"]
        if rows.ndim != 2 or rows.shape[1] != self._features:
            raise ValueError(f"the state has samples of shape {rows.shape[1:]}, expected ({self._features},)")
        self.reset()
        for row in rows:
            self._append(row)

    def _read(self, sample: ArrayLike) -> NDArray[np.float64]:
        values = np.asarray(sample, np.float64).reshape(-1)
        if len(values) != self._features:
            raise ValueError(f"the sample has {len(values)} features, this forecaster expects {self._features}")
        if np.isinf(values).any():
            raise ValueError("the sample contains infinity: replace it, or pass NaN if the value is missing")
        return values

    def _add(self, sample: ArrayLike, timespan: float | None) -> None:
        values, unit = self._read(sample), self._layout.unit
        if timespan is not None:
            steps = float(scale_timespan(timespan, unit))
            if self._length and not math.isnan(steps):
                check_length(self._length + steps, self._length + 1, unit or 1.0)
                if (count := round(steps) - 1) > 0:  # steps without values
                    self._rows = np.concatenate([self._rows[: self._length], np.full((count, self._features), np.nan)])
                    self._length += count
                    # The next sample computes them from the whole history, in one pass.
                    self._states = [{} for _ in self._models]
        self._append(values)

    def _append(self, row: NDArray[np.float64]) -> None:
        if self._length == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
        self._rows[self._length] = row
        self._length += 1
        for number, (model, target) in enumerate(zip(self._models, self._layout.targets, strict=True)):
            if self._firsts[number] < 0 and not math.isnan(row[target]):
                self._firsts[number] = self._length - 1
            history = self._history(number, None)
            # States lag one step behind: `Pool.forecast_at` takes the last value itself.
            if history is not None and len(history.values) > 1:
                values, _ = model.prepare(history)
                self._states[number] = model.pool.advance(values[:-1], self._states[number])

    def _history(self, number: int, future: NDArray | None) -> History | None:
        first = self._firsts[number]
        return None if first < 0 else self._layout.history(self._rows[first : self._length], number, future)

    def _predict(self, number: int, future: NDArray | None) -> Forecasts | None:
        history = self._history(number, future)
        return None if history is None else self._models[number].forecast(history, self._states[number])
