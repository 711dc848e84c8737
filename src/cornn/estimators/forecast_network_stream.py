"""Streams of the method "network" of `CoRNNForecaster`: missing targets are forecast first, as in `predict`."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from cornn.estimators.forecast_gaps import find_start, find_stop
from cornn.estimators.network_stream import PredictionStream
from cornn.estimators.preparation import Preparation
from cornn.estimators.values import to_array
from cornn.forecasting.model import MAX_HORIZONS
from cornn.streaming import Stream, unpack_state

__all__ = ["NetworkForecastStream"]


class NetworkForecastStream(PredictionStream):
    """Forecast after each sample with a trained network.

    After n samples the forecast equals that of `predict` for the series of these n samples; it is NaN after a hundred
    horizons without a value. While a target is missing, the stream keeps the samples since its last known value.

    Examples:
        >>> stream = forecaster.stream()
        >>> for sample in series:  # (time, features)
        ...     forecast = stream(sample)  # (horizon, targets)
    """

    def __init__(
        self,
        open_stream: Callable[[], Stream],
        preparation: Preparation,
        finish: Callable[[NDArray, Stream], Any],
        targets: list[int],
        horizon: int,
    ) -> None:
        super().__init__(open_stream(), preparation, finish)
        self._ahead = open_stream()  # takes forecasts in place of missing targets
        self._targets, self._horizon = targets, horizon
        self._forget()

    def __call__(self, sample: Any, timespan: float | None = None) -> NDArray[np.float64]:
        """Process one sample and return the forecast, as `PredictionStream` does."""
        values = np.array(to_array(sample), np.float64).reshape(-1)
        missing = np.isnan(values[self._targets]) if len(values) == len(self._preparation.mean) else np.zeros(0, bool)
        if not missing.any():
            forecast = super().__call__(sample, timespan)
            self._lasts[:] = self.stream.steps
            self._rows.clear()
            return forecast
        base, steps = self._base if self._rows else self.stream.state(), self._count_steps(timespan)
        forecast = super().__call__(sample, timespan)
        self._base = base
        self._rows.append((values, steps))
        self._lasts[~missing] = self.stream.steps
        start = find_start(self._lasts, self.stream.steps)
        if start == self.stream.steps:
            self._rows.clear()
            return forecast
        self._drop_rows(start)
        return self._forecast(start)

    def reset(self) -> None:
        """Start a new sequence."""
        super().reset()
        self._forget()

    def _forget(self) -> None:
        self._lasts = np.full(len(self._targets), self.stream.steps)
        self._rows: list[tuple[NDArray[np.float64], float]] = []  # samples, and the steps since the one before
        self._base = self.stream.state()

    def _drop_rows(self, start: int) -> None:
        """Drop the samples of the first `start` steps."""
        drop = start - (self.stream.steps - len(self._rows))
        if drop <= 0:
            return
        self._ahead.restore(self._base)
        for values, steps in self._rows[:drop]:
            self._ahead(values, self._limit(steps))
        self._rows, self._base = self._rows[drop:], self._ahead.state()

    def _forecast(self, start: int) -> NDArray[np.float64]:
        """Forecast targets that are missing since the first `start` samples, and then what follows."""
        stream, first = self._ahead, start
        counts = [max(1, round(steps)) for _, steps in self._rows]
        places = start + np.cumsum([0, *counts])
        end = places[-1]
        if end - start > MAX_HORIZONS * self._horizon:
            return np.full((self._horizon, len(self._targets)), np.nan)
        rows = []  # one per step; steps without a sample have no values
        for (values, steps), count in zip(self._rows, counts, strict=True):
            rows += [(np.full_like(values, np.nan), steps / count)] * (count - 1) + [(values, steps / count)]
        lasts = np.where(self._lasts > start, places[np.maximum(self._lasts - start, 0)], self._lasts)
        stream.restore(self._base)
        forecast = self._finish(stream.answer, stream)
        while start < end:
            stop = find_stop(lasts, start, self._horizon, end)
            for step in range(start, stop):
                values, steps = rows[step - first]
                values = values.copy()
                for column in np.flatnonzero((lasts > 0) & (lasts <= start)):
                    values[self._targets[column]] = forecast[step - start, column]
                stream(values, self._limit(steps))
            start, forecast = stop, self._finish(stream.answer, stream)
        return forecast

    def to_bytes(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        base = {f"base.{name}": value for name, value in self._base.items()}
        rows = np.array([[steps, *values] for values, steps in self._rows])
        state = {"lasts": self._lasts.astype(np.int64)}
        return save(self.stream.state() | state | (base | {"rows": rows} if len(rows) else {}))

    def restore(self, state: bytes | bytearray | memoryview) -> None:
        """Resume from a state that `to_bytes` returned, from a stream of the same estimator."""
        given = unpack_state(state)
        # Earlier states have neither.
        lasts, rows = given.get("lasts"), given.get("rows", np.zeros((0, 0)))
        wrong = lasts is not None and lasts.shape != self._lasts.shape
        if wrong or (len(rows) and rows.shape[1:] != (1 + len(self._preparation.mean),)):
            raise ValueError(
                "the state belongs to a forecaster with other features: restore it with a stream of that forecaster"
            )
        base = {name.removeprefix("base."): value for name, value in given.items() if name.startswith("base.")}
        if len(rows):
            self._ahead.restore(base)  # checks it
        super().restore(state)
        self._forget()
        if lasts is not None:
            self._lasts = lasts.astype(int)
        if len(rows):
            self._base, self._rows = base, [(row[1:].copy(), float(row[0])) for row in rows]
