"""The default method of `CoRNNForecaster`: one pool of simple forecasters per target, over series on a regular grid."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._arguments import Argument, ArgumentError, InPython, Setting
from cornn._counts import format_count
from cornn.estimators.forecast_layout import SeriesLayout, check_futures, describe_end
from cornn.estimators.forecast_stream import ForecastStream
from cornn.estimators.output import OutputSpec
from cornn.estimators.series import SequenceData
from cornn.forecasting import Backtest, Forecasts, History, Model, fit_model
from cornn.forecasting.series import count_known, count_missing

__all__ = ["Pools", "fit_pools", "read_periods"]

SEASONS_OF_GAPS = (  # seconds from, to, periods: what dates at such distances suggest
    (55, 65, (60, 1440)),
    (290, 310, (288, 2016)),
    (890, 910, (96, 672)),
    (1790, 1810, (48, 336)),
    (3590, 3610, (24, 168)),
    (86_000, 86_800, (7, 365)),
    (604_000, 605_600, (52,)),
    (2_400_000, 2_700_000, (12,)),
    (7_700_000, 8_000_000, (4,)),
)


@dataclass(frozen=True)
class Pools:
    """The fitted pools of a forecaster, one per target."""

    layout: SeriesLayout
    horizon: int
    models: list[Model]

    @property
    def parameters(self) -> int:
        """Number of trained numbers: those of the readouts."""
        readouts = [readout for model in self.models for readout in model.pool.readouts.values()]
        return sum(readout.weights.size + readout.offset.size for readout in readouts)

    def describe(self) -> list[tuple[str, str]]:
        """Describe the pools, as rows of a name and a text."""
        seasons = dict.fromkeys(period for model in self.models for period in model.pool.periods)
        return [
            ("method", "pool of simple forecasters"),
            ("seasons", f"{' and '.join(map(str, seasons))} steps" if seasons else "none"),
            ("parameters", f"{self.parameters:,} in the readouts"),
        ]

    def predict(self, sequences: Sequence[SequenceData], future: Any) -> NDArray[np.float64]:
        """Forecast what follows each series, shape (series, horizon, targets)."""
        rows = self.forecast(sequences, future)
        return np.stack([np.stack([forecasts.mean[0] for forecasts in row], 1) for row in rows])

    def predict_quantiles(
        self, sequences: Sequence[SequenceData], future: Any, levels: Sequence[float]
    ) -> NDArray[np.float64]:
        """Forecast quantiles of what follows each series, shape (levels, series, horizon, targets)."""
        rows = self.forecast(sequences, future)
        return self._stack(lambda model, forecasts: model.quantiles(forecasts, levels), rows)

    def predict_interval(self, sequences: Sequence[SequenceData], future: Any, level: float) -> NDArray[np.float64]:
        """Forecast the ends of intervals, shape (2, series, horizon, targets)."""
        rows = self.forecast(sequences, future)
        return self._stack(lambda model, forecasts: model.interval(forecasts, level), rows)

    def _stack(
        self, compute: Callable[[Model, Forecasts], NDArray[np.float64]], rows: list[list[Forecasts]]
    ) -> NDArray[np.float64]:
        """Return (parts, 1, horizon) of each series and target as (parts, series, horizon, targets)."""
        pairs = (zip(self.models, row, strict=True) for row in rows)
        return np.stack(
            [np.stack([compute(model, forecasts)[:, 0] for model, forecasts in row], 2) for row in pairs], 1
        )

    def predict_every_step(self, sequences: Sequence[SequenceData]) -> list[NDArray[np.float64]]:
        """Forecast from every sample, (time, horizon, targets) per series; NaN before the first known value."""
        every = []
        for sequence in sequences:
            values, steps = self.layout.regular(sequence)
            forecasts = np.full((len(steps), self.horizon, len(self.models)), np.nan)
            for column, model in enumerate(self.models):
                history = self.layout.history(values, column)
                if history is not None:
                    origins = steps + 1 - (len(values) - len(history.values))
                    forecasts[origins > 0, :, column] = model.forecast_at(history, origins[origins > 0]).mean
            every.append(forecasts)
        return every

    def stream(self) -> ForecastStream:
        """Open a stream that forecasts after each sample."""
        return ForecastStream(self.models, self.layout)

    def output_spec(self) -> OutputSpec:
        """Raise an error: exports need a network."""
        raise ArgumentError("a pool of forecasters cannot be exported: fit with ", Argument("method", "network"))

    def forecast(self, sequences: Sequence[SequenceData], future: Any) -> list[list[Forecasts]]:
        """Forecast what follows each series: one list per series, with one entry per target."""
        regular = [self.layout.regular(sequence)[0] for sequence in sequences]
        futures = self._futures(regular, future)
        forecasts = []
        for number, (values, known) in enumerate(zip(regular, futures, strict=True)):
            if self.layout.known_future and future is None:
                values = values[: len(values) - self.horizon]
            row = []
            for column, model in enumerate(self.models):
                history = self.layout.history(values, column, known)
                if history is None:
                    name = self.layout.name(self.layout.targets[column])
                    raise ValueError(f"sequence {number} has no known value of {name}: pass at least one")
                row.append(model.forecast(history))
                if np.isnan(row[-1].mean).any():
                    name = self.layout.name(self.layout.targets[column])
                    raise describe_end(int(count_missing(history.values)[-1]), name, number)
            forecasts.append(row)
        return forecasts

    def _futures(self, regular: list[NDArray], future: Any) -> list[NDArray | None]:
        """Return the covariates of the steps to forecast, one array (horizon, covariates) per series."""
        if future is not None or not self.layout.known_future:
            return self.layout.read_futures(future, len(regular), self.horizon)
        for number, values in enumerate(regular):
            if len(values) <= self.horizon or not np.isnan(values[-self.horizon :, self.layout.targets]).all():
                rows = format_count(self.horizon, "row")
                where = "the series" if len(regular) == 1 else f"sequence {number}"
                raise ArgumentError(
                    f"{where} has no rows for the steps to forecast: append {rows} with the features "
                    "that are known in advance and missing targets",
                    InPython(", or pass `future`"),
                )
        futures = [values[-self.horizon :, list(self.layout.known_future)] for values in regular]
        check_futures(futures)
        return list(futures)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return entries of the header of an estimator's file, and arrays."""
        arrays, models = {}, []
        for number, model in enumerate(self.models):
            about, parts = model.to_state()
            models.append(about)
            arrays |= {f"pool.{number}.{name}": value for name, value in parts.items()}
        return {"models": models}, arrays

    @classmethod
    def from_file(
        cls, layout: SeriesLayout, horizon: int, about: Mapping[str, Any], arrays: Mapping[str, NDArray]
    ) -> "Pools":
        """Return the pools of `to_file`."""
        models = []
        for number, state in enumerate(about["models"]):
            prefix = f"pool.{number}."
            parts = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
            models.append(Model.from_state(state, parts))
        if len(models) != len(layout.targets) or any(model.horizon != horizon for model in models):
            raise ValueError(f"{len(models)} models for {len(layout.targets)} targets and horizon {horizon}")
        return cls(layout, horizon, models)


def fit_pools(
    sequences: Sequence[SequenceData],
    layout: SeriesLayout,
    horizon: int,
    periods: Sequence[int] | None,
    families: Sequence[str],
    gap: float | None,
) -> tuple[Pools, list[list[Backtest]]]:
    """Fit one pool per target.

    Args:
        sequences: The training series.
        layout: Their features and their grid.
        horizon: Steps to forecast.
        periods: Steps per season, at most two; empty for none. None: detect them.
        families: Kinds of members of the pools.
        gap: Time between samples, in seconds if they have dates, which suggests seasons; None if unknown.

    Returns:
        The pools, and for each target the backtest on each series.
    """
    regular = [layout.regular(sequence)[0] for sequence in sequences]
    models, backtests = [], []
    for column, target in enumerate(layout.targets):
        series = [layout.history(values, column) for values in regular]
        # Steps after the last value have nothing to learn from.
        histories = [history.take(count_known(history.values)) for history in series if history is not None]
        _check_reach(layout.name(target), histories, horizon)
        long = [history for history in histories if len(history.values) > 1]
        model, tests = fit_model(long, horizon, periods, _hints(gap), families)
        models.append(model)
        backtests.append(tests)
    return Pools(layout, horizon, models), backtests


def read_periods(period: Any) -> tuple[int, ...] | None:
    """Return steps per season as a tuple, without 1; None if seasons are to be detected."""
    if period is None:
        return None
    periods = tuple(np.atleast_1d(np.asarray(period)).tolist())
    if not all(isinstance(number, Integral) and int(number) >= 1 for number in periods) or len(periods) > 2:
        raise ArgumentError(Setting("period"), f" must be a positive integer, or two of them, got {period!r}")
    return tuple(sorted({int(number) for number in periods if int(number) > 1}))


def _check_reach(name: str, histories: Sequence[History], horizon: int) -> None:
    """Check that some history has a value as many steps ahead as the horizon."""
    reach = max((len(history.values) for history in histories), default=1) - 1  # both ends are known
    if reach < 1:
        raise ValueError(
            f"no training sequence has two known values of {name}: pass longer sequences with values of it, or remove "
            "it from targets"
        )
    if reach < horizon:
        raise ValueError(
            f"no training sequence has a value of {name} {reach + 1} steps ahead: choose a horizon of at most {reach}, "
            "or pass longer sequences"
        )


def _hints(gap: float | None) -> tuple[int, ...]:
    """Return the seasons that dates at such distances suggest."""
    if gap is None:
        return ()
    return next((periods for low, high, periods in SEASONS_OF_GAPS if low <= gap <= high), ())
