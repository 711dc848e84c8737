"""Forecasting."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cornn._arguments import ArgumentError, Setting, to_names
from cornn._checked import convert
from cornn.estimators.base import NETWORK_ATTRIBUTES
from cornn.estimators.dated_index import check_future_dates, find_gap
from cornn.estimators.forecast_layout import SeriesLayout
from cornn.estimators.forecast_network import NetworkForecaster, NetworkForecasts
from cornn.estimators.forecast_pool import Pools, fit_pools, read_periods
from cornn.estimators.forecast_stream import ForecastStream
from cornn.estimators.network_stream import PredictionStream
from cornn.estimators.output import OutputSpec
from cornn.estimators.random_state import check_seed
from cornn.estimators.sequences import is_single
from cornn.estimators.series import SequenceData
from cornn.estimators.settings import NETWORK_ARGUMENTS, check_settings, resolve_method
from cornn.estimators.times import choose_unit
from cornn.estimators.values import to_float_array
from cornn.forecasting import FAMILIES, Forecasts, History, Model
from cornn.forecasting.scores import ScoreTable, compare_with_baselines, compute_r2
from cornn.forecasting.series import regular_steps, spread_out

__all__ = ["CoRNNForecaster"]

METHODS = ("pool", "network")


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNForecaster(NetworkForecaster):
    """Forecast the next values of series.

    The default method combines a pool of simple forecasters: trivial rules, exponential smoothing, theta, and ridge
    regressions on lags and on the states of oscillators, each also on logarithms and on differences from the season
    before. Their weights come from forecasts at earlier origins inside the training data, whose errors also give the
    intervals. The method "network" trains a coRNN that is read at every step.

    A series may have missing values and uneven times: it is put on a grid of the median time between samples. Several
    series are fitted together: one set of weights and readouts, with the scale of each series taken from its history.

    `window`, and the settings of `cornn.estimators.base.Estimator` about the network and its training, belong to the
    network. If one of them is given, the default method is "network".

    Args:
        horizon: Number of steps to forecast.
        targets: Feature or features to forecast, by index, or by name if X is a DataFrame. Defaults to all of them. The
            other features are only used as inputs.
        method: "pool" or "network". Defaults to "network" if one of its settings is given, else to "pool".
        period: Steps per season, one number or two; 1 for none. Defaults to the seasons found in the training data.
        known_future: Feature or features that are known in advance, such as holidays and prices, by index or by name.
            They are not forecast. `predict` needs their values for the steps to forecast.
        candidates: Kinds of members of the pool, one or several of `cornn.forecasting.FAMILIES`. Defaults to all.
        window: Maximum number of steps of a training sequence of the network; longer ones are cut into pieces. Default:
            200.

    Attributes:
        method_: The method in use.
        targets_: Indices of the features that are forecast.
        known_future_: Indices of the features that are known in advance.
        pools_: With the pool: the fitted pools.
        models_: With the pool: one `cornn.forecasting.Model` per target.
        backtests_: With the pool: for each target, one `cornn.forecasting.Backtest` per series. Not saved.
        model_: With the network: the trained `cornn.SequenceModel`.
        history_: The losses of the network, one dictionary per epoch.

    Examples:
        >>> forecaster = CoRNNForecaster(horizon=12).fit(passengers[None])  # X: (series, time)
        >>> forecaster.predict(passengers[None])  # (series, 12)
        >>> low, high = forecaster.predict_interval(passengers[None], level=0.9)
    """

    accepts_one_series: ClassVar[bool] = True

    method: str | None = None
    period: int | Sequence[int] | None = None
    known_future: int | str | Sequence[int | str] | None = None
    candidates: str | Sequence[str] | None = None

    arguments_of: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "pool": ("period", "known_future", "candidates"),
        "network": (*NETWORK_ARGUMENTS, "window"),
    }

    def fit(self, X: Any, y: Any = None, *, timespans: Any = None) -> Self:
        """Learn from series.

        Args:
            X: Series: an array (series, time, features) or (series, time), a list of arrays (time, features) or (time,)
                of any lengths, a list of `Series`, or a DataFrame in long form. One series by itself may be an array
                (time,), a pandas Series, or a DataFrame with an index of dates. NaN marks a missing value.
            y: Ignored; it exists for scikit-learn's conventions.
            timespans: Times since the previous sample, in the layout of X without features, as an alternative to
                `Series` with times.

        Returns:
            The fitted forecaster.
        """
        self.check()
        check_seed(self.random_state)
        sequences = self._read_training(X, timespans)
        longest = max(len(sequence.values) for sequence in sequences)
        if longest < 2:
            raise ValueError(
                "the longest series has one step, forecasts need at least two: pass one series as an array (time,), "
                "several as (series, time)"
            )
        shape = getattr(X, "shape", ())
        if not hasattr(X, "columns") and len(shape) == 2 and longest <= self.horizon < shape[0]:
            raise ValueError(
                f"X has {shape[0]:,} series of {shape[1]:,} steps, too short for a horizon of {self.horizon}: choose a "
                f"horizon of at most {longest - 1}, or pass longer series; if X is one series with {shape[1]:,} "
                "features, pass X[np.newaxis], of shape (series, time, features)"
            )
        method = resolve_method(self, METHODS)
        self.n_features_in_, self.unit_ = sequences[0].values.shape[1], choose_unit(sequences)
        self.known_future_ = [] if self.known_future is None else self._resolve_features("known_future")
        if method == "pool":
            self.n_iter_, self.history_ = 0, []
            self.targets_ = self._resolve_targets()
            if self.targets is None:
                self.targets_ = [target for target in self.targets_ if target not in self.known_future_]
            if not self.targets_ or set(self.targets_) & set(self.known_future_):
                raise ValueError("a feature in known_future cannot be a target: remove it from one of them")
            # Evenly spaced dates of one series are no times, but suggest its seasons.
            gap = self._find_date_gap(X) if self.unit_ is None else self.unit_
            self.pools_, self.backtests_ = fit_pools(
                sequences, self._layout(), int(self.horizon), read_periods(self.period), self.families(), gap
            )
        else:
            self._fit_network(sequences, self.unit_)
        self.date_gap_ = self._find_date_gap(X) if self.unit_ is None else None
        self._forget(*(NETWORK_ATTRIBUTES if method == "pool" else ("pools_", "backtests_")))
        self.method_ = method
        return self

    def _find_date_gap(self, X: Any) -> float | None:
        return None if self._is_long(X) else find_gap(X)

    @property
    def models_(self) -> list[Model]:
        """With the pool: one `cornn.forecasting.Model` per target."""
        return self.pools_.models

    def check(self) -> None:
        """Validate the settings before any work is done."""
        resolve_method(self, METHODS)
        check_settings(self)
        for name in ("horizon", "window"):
            value = getattr(self, name)
            if (name == "horizon" or value is not None) and (not isinstance(value, Integral) or value < 1):
                raise ArgumentError(Setting(name), f" must be a positive integer, got {value!r}")
        unknown = [name for name in self.families() if name not in FAMILIES]
        if unknown or not self.families():
            raise ValueError(f"unknown candidates {unknown}: choose some of {', '.join(FAMILIES)}")
        read_periods(self.period)

    def families(self) -> tuple[str, ...]:
        """Return the kinds of members of the pool: `candidates`, or all of them."""
        return FAMILIES if self.candidates is None else to_names(self.candidates)

    def predict(self, X: Any, *, timespans: Any = None, future: Any = None) -> NDArray[np.float64]:
        """Forecast the values that follow each series.

        Args:
            X: Series, as for `fit`. The forecasts follow the last row, also if its target is missing.
            timespans: Times since the previous sample, as for `fit`.
            future: If `known_future` is set: its values for the steps to forecast, shape (series, horizon, features),
                or (series, horizon) for one feature; for one series also a DataFrame, and for several a list of these,
                whose columns are found by their names. Defaults to the last `horizon` rows of each series, in which
                the targets are then missing.

        Returns:
            Forecasts, shape (series, horizon, targets), or (series, horizon) if X is an array, a tensor or a DataFrame
            (series, time). For one series by itself the first axis is missing: (horizon,), or (horizon, targets) for a
            frame.
        """
        return self._flatten(X, self._fitted.predict(self._read_past(X, timespans, future), future))

    def _read_past(self, X: Any, timespans: Any, future: Any) -> list[SequenceData]:
        """Read series, and check that the covariates of the steps to forecast follow them."""
        sequences = self.validate_input(X, timespans)
        check_future_dates(X, future, self.unit_ or self.date_gap_)
        return sequences

    def predict_quantiles(
        self, X: Any, levels: float | Sequence[float] = (0.1, 0.5, 0.9), *, timespans: Any = None, future: Any = None
    ) -> NDArray[np.float64]:
        """Forecast quantiles of the values that follow each series.

        They come from the errors of forecasts at earlier origins inside the training data, separately for each step
        ahead.

        Args:
            X: Series, as for `fit`.
            levels: Levels, each above 0 and below 1, or one level.
            timespans: Times since the previous sample, as for `fit`.
            future: As for `predict`.

        Returns:
            Quantiles, shape (levels, *the shape that `predict` returns); without the first axis for one level.
        """
        several: list[float] = np.atleast_1d(np.asarray(levels, np.float64)).tolist()
        if not several or not all(0 < level < 1 for level in several):
            raise ValueError(f"levels must be above 0 and below 1, at least one; got {levels}")
        forecasts = self._fitted.predict_quantiles(self._read_past(X, timespans, future), future, several)
        quantiles = np.stack([self._flatten(X, part) for part in forecasts])
        return quantiles if np.ndim(levels) else quantiles[0]

    def predict_interval(
        self, X: Any, level: float = 0.9, *, timespans: Any = None, future: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Forecast intervals that contain a share `level` of the values that follow each series.

        They contain the forecasts of `predict`, and have the same limits.

        Args:
            X: Series, as for `fit`.
            level: Share of the values in the interval, above 0 and below 1.
            timespans: Times since the previous sample, as for `fit`.
            future: As for `predict`.

        Returns:
            Lower and upper ends, each in the shape that `predict` returns.
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be above 0 and below 1, got {level}")
        low, high = self._fitted.predict_interval(self._read_past(X, timespans, future), future, level)
        return self._flatten(X, low), self._flatten(X, high)

    def score(self, X: Any, y: Any = None, *, timespans: Any = None, future: Any = None) -> float:
        """Compute the coefficient of determination R² of the forecasts.

        Args:
            X: Sequences, as for `fit`.
            y: The values that follow X, in the shape that `predict` returns. If None, the forecasts from every step
                of X that has a value are compared with the later values of X.
            timespans: Times since the previous sample, as for `fit`.
            future: As for `predict`; with y only.

        Returns:
            R², at most 1.
        """
        if y is not None:
            predictions = self.predict(X, timespans=timespans, future=future)
            truth = to_float_array(y, "y")
            if truth.squeeze().shape != predictions.squeeze().shape:
                raise ValueError(f"y has shape {truth.shape}, expected that of the forecasts, {predictions.shape}")
            columns = len(self.targets_)
            return compute_r2(truth.reshape(-1, columns), predictions.reshape(-1, columns))
        if future is not None:
            raise ValueError("future is for the forecasts that y is compared with: pass y too, or omit future")
        sequences = self.validate_input(X, timespans)
        layout, truths, forecasts = self._layout(), [], []
        for sequence, predictions in zip(sequences, self._fitted.predict_every_step(sequences), strict=True):
            values, steps = layout.regular(sequence)
            known = ~np.isnan(sequence.values).all(1)  # a row without values counts like a row that is not there
            for ahead in range(1, self.horizon + 1):
                # Samples may be several steps apart.
                inside = known & (steps + ahead < len(values))
                truths.append(values[steps[inside] + ahead][:, self.targets_])
                forecasts.append(predictions[inside, ahead - 1])
        return compute_r2(np.concatenate(truths), np.concatenate(forecasts))

    def predict_every_step(self, X: Any, *, timespans: Any = None) -> list[NDArray[np.float64]]:
        """Forecast from every step of every sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            One array (time, horizon, targets) per sequence. With the pool, the covariates that are known in advance are
            taken from the later steps of the sequence.
        """
        return self._fitted.predict_every_step(self.validate_input(X, timespans))

    def stream(self) -> PredictionStream | ForecastStream:
        """Open a stream that forecasts after each sample.

        Returns:
            A stream: `forecast = stream(sample)`, shape (horizon, targets). That of a pool also has `score`.
        """
        check_is_fitted(self)
        return self._fitted.stream()

    def evaluate(self, training: Any, test: Any, cuts: int | Sequence[int] | None = None) -> list[ScoreTable | None]:
        """Score the forecasts of later origins next to those of simple rules.

        The forecaster is not fitted again: its forecasts are made from the values known at each origin.

        Args:
            training: The series that the forecaster was fitted to.
            test: Series to test on, each with its history.
            cuts: First test step of each of them, or that of a single series; earlier values were used in training.
                Defaults to 0.

        Returns:
            One table per target; None for one without known values to test on.
        """
        fitted, later = self.validate_input(training), self.validate_input(test)
        starts: list[int] = [0] * len(later) if cuts is None else np.atleast_1d(cuts).tolist()
        if len(starts) != len(later) or min(starts) < 0:
            raise ValueError(f"cuts are {cuts}, expected one step of each of {len(later)} series, not negative")
        layout, horizon, tables = self._layout(), int(self.horizon), []
        network = self.method_ == "network"
        predicted = [self._fitted.predict_every_step([sequence])[0] for sequence in later if network]
        for column in range(len(self.targets_)):
            histories = [layout.history(layout.regular(sequence)[0], column) for sequence in fitted]
            tests, firsts, answers = [], [], []
            for number, (sequence, cut) in enumerate(zip(later, starts, strict=True)):
                values, steps = layout.regular(sequence)
                history = layout.history(values, column)
                if history is None or cut >= len(steps):
                    continue
                trimmed = len(values) - len(history.values)
                tests.append(history)
                firsts.append(int(steps[cut]) - trimmed)
                if network:
                    every = np.full((len(values), horizon), np.nan)
                    every[steps] = predicted[number][:, :, column]
                    answers.append(every[trimmed:])

            def forecast(number: int, history: History, origins: NDArray, answers=answers, column=column) -> Forecasts:
                if network:
                    return Forecasts(answers[number][origins - 1], np.ones(len(origins)))
                return self.models_[column].forecast_at(history, origins)

            long = [history for history in histories if history is not None and len(history.values) > 1]
            model = None if network else self.models_[column]
            tables.append(compare_with_baselines(long, tests, firsts, horizon, forecast, model))
        return tables

    @property
    def _fitted(self) -> Pools | NetworkForecasts:
        check_is_fitted(self)
        return self.pools_ if self.method_ == "pool" else self._forecasts

    def _fitted_state(self) -> dict[str, Any]:
        fields = {"known_future": self.known_future_, "features": self.n_features_in_, "unit": self.unit_}
        return super()._fitted_state() | fields | {"date_gap": self.date_gap_}

    def _restore(self, about: dict[str, Any], arrays: dict[str, NDArray]) -> None:
        # Earlier files do not have it.
        self.date_gap_ = convert(float | None, about["learned"].get("date_gap"), "date_gap")
        if self.method_ == "network":
            super()._restore(about, arrays)
            self.unit_, self.known_future_ = self.preparation_.unit, []
            return
        learned = about["learned"]
        self.history_, self.n_iter_ = [], 0
        self.n_features_in_ = convert(int, learned["features"], "features")
        self.unit_ = convert(float | None, learned["unit"], "unit")
        self.known_future_ = [int(feature) for feature in learned["known_future"]]
        self._restore_fitted_state(learned)
        self.pools_ = Pools.from_file(self._layout(), self.horizon, about, arrays)

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted network mean: standardised changes from the last known values."""
        check_is_fitted(self)
        return self._fitted.output_spec()

    def _layout(self) -> SeriesLayout:
        names = tuple(self.columns_ or ())
        return SeriesLayout(self.n_features_in_, tuple(self.targets_), tuple(self.known_future_), self.unit_, names)

    @property
    def _unit(self) -> float | None:
        return self.unit_

    def _place_dates(self, sequence: SequenceData, gaps: NDArray[np.float64]) -> SequenceData:
        """Return a series with dates in the form of the training series: with times, or evenly spaced.

        It may have gaps, or none, whatever the training series had.
        """
        if self.unit_ is not None or self.date_gap_ is None:
            return super()._place_dates(sequence, gaps)
        return SequenceData(spread_out(sequence.values, regular_steps(gaps, self.date_gap_)), None)

    def _flatten(self, X: Any, forecasts: NDArray) -> NDArray[np.float64]:
        """Drop the axes of series (first) and targets (last) that X does not have."""
        long = self._is_long(X)
        single = not long and is_single(X)
        flat = getattr(X, "ndim", 1) == 1 if single else not long and getattr(X, "ndim", None) == 2
        forecasts = forecasts[..., 0] if flat and forecasts.shape[-1] == 1 else forecasts
        return forecasts[0] if single else forecasts
