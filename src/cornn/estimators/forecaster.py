"""Forecasting."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cornn._checked import convert
from cornn.estimators.base import Estimator, PredictionStream, uniform_sampler
from cornn.estimators.forecast_stream import ForecastStream
from cornn.estimators.network import outputs
from cornn.estimators.output import OutputSpec
from cornn.estimators.preparation import Preparation, fill_missing
from cornn.estimators.saving import to_json_value, write_file
from cornn.estimators.sequences import SequenceData, check_as_trained, is_single, read_sequences
from cornn.forecasting import FAMILIES, Forecasts, History, Model, fit_model
from cornn.forecasting.scores import ScoreTable, compare_with_baselines
from cornn.forecasting.series import median_gap, regular_steps, spread_out

__all__ = ["CoRNNForecaster"]

METHODS = ("pool", "network")
OF_THE_NETWORK = (
    "hidden_size",
    "num_layers",
    "bidirectional",
    "dt",
    "gamma",
    "epsilon",
    "damping",
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "validation_share",
    "patience",
    "window",
)
"""Settings that only the network has."""
OF_THE_POOL = ("period", "known_future", "candidates")
"""Settings that only the pool has."""
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


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNForecaster(Estimator):
    """Forecast the next values of series.

    The default method combines a pool of simple forecasters: trivial rules, exponential smoothing, theta, and ridge
    regressions on lags and on the states of oscillators, each also on logarithms and on differences from the season
    before. Their weights come from forecasts at earlier origins inside the training data, whose errors also give the
    intervals. The method "network" trains a coRNN that is read at every step.

    A series may have missing values and uneven times: it is put on a grid of the median time between samples. Several
    series are fitted together: one set of weights and readouts, with the scale of each series taken from its history.

    The settings below `window`, and those of `cornn.estimators.base.Estimator` about the network and its training,
    belong to the network. If one of them is given, the default method is "network".

    Args:
        horizon: Number of steps to forecast.
        targets: Features to forecast, by index, or by name if X is a long-form DataFrame. Defaults to all of them. The
            other features are only used as inputs.
        method: "pool" or "network". Defaults to "network" if one of its settings is given, else to "pool".
        period: Steps per season, one number or two; 1 for none. Defaults to the seasons found in the training data.
        known_future: Features that are known in advance, such as holidays and prices, by index or by name. They are not
            forecast. `predict` needs their values for the steps to forecast.
        candidates: Kinds of members of the pool, from `cornn.forecasting.FAMILIES`. Defaults to all of them.
        window: Maximum number of steps of a training sequence of the network; longer ones are cut into pieces.

    Attributes:
        method_: The method in use.
        targets_: Indices of the features that are forecast.
        models_: With the pool: one `cornn.forecasting.Model` per target.
        backtests_: With the pool, after `fit`: for each target, one `cornn.forecasting.Backtest` per series.
        model_: With the network: the trained `cornn.SequenceModel`.
        history_: The losses of the network, one dictionary per epoch.

    Examples:
        >>> forecaster = CoRNNForecaster(horizon=12).fit(passengers[None])  # X: (series, time)
        >>> forecaster.predict(passengers[None])  # (series, 12)
        >>> low, high = forecaster.predict_interval(passengers[None], level=0.9)
    """

    accepts_one_series: ClassVar[bool] = True

    horizon: int = 1
    targets: Sequence[int | str] | None = None
    method: str | None = None
    period: int | Sequence[int] | None = None
    known_future: Sequence[int | str] | None = None
    candidates: Sequence[str] | None = None
    window: int = 200

    def fit(self, X: Any, y: Any = None, timespans: Any = None) -> Self:
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
        method = self.resolve_method()
        for name in ("horizon", "window"):
            if not isinstance(getattr(self, name), Integral) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a positive integer, got {getattr(self, name)!r}")
        sequences, _ = self._read(X, None, timespans)
        if method == "pool":
            self._fit_pool(sequences)
        else:
            self._fit_network(sequences)
        self.method_ = method
        return self

    def resolve_method(self) -> str:
        """Return the method that the settings name or imply, and check that they go together."""
        if self.method is not None and self.method not in METHODS:
            raise ValueError(f"unknown method {self.method!r}: choose one of {', '.join(METHODS)}")
        of_the_network, of_the_pool = self._given(OF_THE_NETWORK), self._given(OF_THE_POOL)
        method = self.method or ("network" if of_the_network else "pool")
        wrong = of_the_network if method == "pool" else of_the_pool
        if wrong:
            other = "network" if method == "pool" else "pool"
            raise ValueError(
                f"{', '.join(wrong)} only {'has' if len(wrong) == 1 else 'have'} an effect with method={other!r}: omit "
                f"{'it' if len(wrong) == 1 else 'them'}, or set the method"
            )
        return method

    def _given(self, names: Sequence[str]) -> list[str]:
        """Return which of some settings differ from their defaults."""
        defaults = {field.name: field.default for field in fields(self)}
        return [name for name in names if not _same(getattr(self, name), defaults[name])]

    def predict(self, X: Any, timespans: Any = None, future: Any = None) -> NDArray[np.float64]:
        """Forecast the values that follow each series.

        Args:
            X: Series, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.
            future: If `known_future` is set: its values for the steps to forecast, shape (series, horizon, features),
                or (series, horizon) for one feature. Defaults to the last `horizon` rows of each series, in which the
                targets are then missing.

        Returns:
            Forecasts, shape (series, horizon, targets), or (series, horizon) if X is an array (series, time). For one
            series by itself the first axis is missing: (horizon,), or (horizon, targets) for a frame.
        """
        check_is_fitted(self, "method_")
        if self.method_ == "pool":
            found = np.stack(
                [np.stack([own.mean[0] for own in row], 1) for row in self._forecasts(X, timespans, future)]
            )
        else:
            if future is not None:
                raise ValueError("future is only for method='pool' with known_future: omit it")
            sequences = self._validate_input(X, timespans)
            last = np.stack([fill_missing(sequence.values, self.preparation_.mean)[-1] for sequence in sequences])
            found = self._ahead(self._outputs(sequences), last)
        return self._flatten(X, found)

    def predict_quantiles(
        self, X: Any, levels: Sequence[float] = (0.1, 0.5, 0.9), timespans: Any = None, future: Any = None
    ) -> NDArray[np.float64]:
        """Forecast quantiles of the values that follow each series.

        They come from the errors of forecasts at earlier origins inside the training data, one by one for the steps
        ahead.

        Args:
            X: Series, as for `fit`.
            levels: Levels, each above 0 and below 1.
            timespans: Times since the previous sample, as for `fit`.
            future: As for `predict`.

        Returns:
            Quantiles, shape (levels, *the shape that `predict` returns).
        """
        if not all(0 < level < 1 for level in levels):
            raise ValueError(f"levels must be above 0 and below 1, got {list(levels)}")
        check_is_fitted(self, "method_")
        if self.method_ != "pool":
            raise ValueError("the network forecasts no quantiles and no intervals: fit with method='pool'")
        rows = self._forecasts(X, timespans, future)
        found = np.stack(
            [
                np.stack([model.quantiles(own, levels)[:, 0] for model, own in zip(self.models_, row, strict=True)], 2)
                for row in rows
            ],
            1,
        )  # (levels, series, horizon, targets)
        return np.stack([self._flatten(X, part) for part in found])

    def predict_interval(
        self, X: Any, level: float = 0.9, timespans: Any = None, future: Any = None
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Forecast intervals that contain a share `level` of the values that follow each series.

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
        low, high = self.predict_quantiles(X, ((1 - level) / 2, (1 + level) / 2), timespans, future)
        return low, high

    def score(self, X: Any, y: Any = None, timespans: Any = None) -> float:
        """Compute the coefficient of determination R² of the forecasts.

        Args:
            X: Sequences, as for `fit`.
            y: The values that follow X, in the shape that `predict` returns. If None, the forecasts from every step
                of X are compared with the later values of X.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            R², at most 1.
        """
        if y is not None:
            found = self.predict(X, timespans)
            columns = found.shape[2] if found.ndim == 3 else 1
            truth = np.asarray(y, np.float64).reshape(found.shape)
            return _r2(truth.reshape(-1, columns), found.reshape(-1, columns))
        sequences = self._read_fitted(X, timespans)
        truths, founds = [], []
        for sequence, found in zip(sequences, self._at_every_step(sequences), strict=True):
            for ahead in range(1, self.horizon + 1):
                truths.append(sequence.values[ahead:, self.targets_])
                founds.append(found[: max(0, len(found) - ahead), ahead - 1])
        return _r2(np.concatenate(truths), np.concatenate(founds))

    def predict_every_step(self, X: Any, timespans: Any = None) -> list[NDArray[np.float64]]:
        """Forecast from every step of every sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            One array (time, horizon, targets) per sequence. With the pool, the covariates that are known in advance are
            taken from the later steps of the sequence.
        """
        return self._at_every_step(self._read_fitted(X, timespans))

    def stream(self) -> PredictionStream | ForecastStream:
        """Open a stream that forecasts after each sample.

        Returns:
            A stream: `forecast = stream(sample)`, shape (horizon, targets). That of a pool also has `score`.
        """
        check_is_fitted(self, "method_")
        if self.method_ == "pool":
            return ForecastStream(self.models_, self._roles(), self.n_features_in_, self.unit_)
        return self._stream(lambda answer, stream: self._ahead(answer[None], stream.seen[None])[0])

    def evaluate(self, training: Any, test: Any, cuts: Sequence[int] | None = None) -> list[ScoreTable | None]:
        """Score the forecasts of later origins next to those of simple rules.

        The forecaster is not fitted again: its forecasts are made from the values known at each origin.

        Args:
            training: The series that the forecaster was fitted to.
            test: Series to test on, each with its history.
            cuts: First test step of each of them; earlier values were used in training. Defaults to 0.

        Returns:
            One table per target; None for one without known values to test on.
        """
        fitted, later = self._read_fitted(training, None), self._read_fitted(test, None)
        cuts = [0] * len(later) if cuts is None else cuts
        tables = []
        for column, (target, known, past) in enumerate(self._roles()):
            histories = [_history(self._regular(own)[0], target, known, past) for own in fitted]
            tests, firsts, answers = [], [], []
            for own, cut in zip(later, cuts, strict=True):
                values, steps = self._regular(own)
                history = _history(values, target, known, past)
                if history is None or cut >= len(steps):
                    continue
                trimmed = len(values) - len(history.values)
                tests.append(history)
                firsts.append(int(steps[cut]) - trimmed)
                if self.method_ == "network":
                    every = np.full((len(values), self.horizon), np.nan)
                    every[steps] = self._at_every_step([own])[0][:, :, column]
                    answers.append(every[trimmed:])

            def forecast(number: int, history: History, origins: NDArray, answers=answers, column=column) -> Forecasts:
                if self.method_ == "network":
                    return Forecasts(answers[number][origins - 1], np.ones(len(origins)))
                return self.models_[column].forecast_at(history, origins)

            tables.append(
                compare_with_baselines(
                    [own for own in histories if own is not None and len(own.values) > 1],
                    tests,
                    firsts,
                    int(self.horizon),
                    forecast,
                    self.models_[column] if self.method_ == "pool" else None,
                )
            )
        return tables

    def count_parameters(self) -> int:
        """Return the number of fitted parameters: of the network, or of the readouts of the pool."""
        check_is_fitted(self, "method_")
        if self.method_ == "network":
            return super().count_parameters()
        readouts = [own for model in self.models_ for own in model.pool.readouts.values()]
        return sum(own.weights.size + own.offset.size for own in readouts)

    def save(self, path: Any) -> None:
        """Save the fitted forecaster to one safetensors file.

        Args:
            path: The file to write. It is written completely or not at all.
        """
        check_is_fitted(self, "method_")
        if self.method_ == "network":
            super().save(path)
            return
        arrays, models = {}, []
        for number, model in enumerate(self.models_):
            about, own = model.to_state()
            models.append(about)
            arrays |= {f"pool.{number}.{name}": value for name, value in own.items()}
        about = {
            "kind": type(self).__name__,
            "method": self.method_,
            "settings": {name: to_json_value(name, value) for name, value in self.get_params(deep=False).items()},
            "columns": self.columns_,
            "learned": self._fitted_state()
            | {"known_future": self.known_future_, "features": self.n_features_in_, "unit": self.unit_},
            "models": models,
        }
        write_file(path, about, arrays)

    @classmethod
    def _from_file(cls, about: dict[str, Any], arrays: dict[str, NDArray]) -> Self:
        # Version 0.1.0 had the network only, and no such setting.
        method = about.get("method", "network")
        if method == "network":
            about["settings"].setdefault("method", "network")
            self = super()._from_file(about, arrays)
            self.method_, self.unit_, self.known_future_ = "network", self.preparation_.unit, []
            return self
        self = cls(**about["settings"])
        learned = about["learned"]
        self.columns_, self.history_, self.n_iter_ = about["columns"], [], 0
        self.n_features_in_ = convert(int, learned["features"], "features")
        self.unit_ = convert(float | None, learned["unit"], "unit")
        self.known_future_ = [int(own) for own in learned["known_future"]]
        self._restore_fitted_state(learned)
        for name, value in arrays.items():
            if not np.isfinite(value).all():
                raise ValueError(f"{name} contains values that are not finite")
        self.models_ = []
        for number, own in enumerate(about["models"]):
            prefix = f"pool.{number}."
            parts = {name.removeprefix(prefix): value for name, value in arrays.items() if name.startswith(prefix)}
            self.models_.append(Model.from_state(own, parts))
        if len(self.models_) != len(self.targets_) or any(own.horizon != self.horizon for own in self.models_):
            raise ValueError(f"{len(self.models_)} models for {len(self.targets_)} targets and horizon {self.horizon}")
        self.method_ = "pool"
        return self

    def _fit_network(self, sequences: list[SequenceData]) -> None:
        if self.bidirectional:
            raise ValueError("a forecaster must not see the values that it forecasts: set bidirectional=False")
        pieces = [piece for sequence in sequences for piece in self._pieces(sequence)]
        if not pieces:
            longest = max(len(sequence.values) for sequence in sequences)
            raise ValueError(
                f"the longest sequence has {longest} steps: forecasts need sequences of at least two steps"
            )
        self.targets_ = self._resolve_targets(pieces[0][0].values.shape[1])

        def loss(data, preparation):
            targets, known = (part.to(data.input.device) for part in self._targets(pieces, preparation))
            self._check_known(known)

            def of(model, batch, rows):
                steps = len(batch.input)
                error = (outputs(model, batch, every=True) - targets[:steps, rows]) * known[:steps, rows]
                return error.square().sum() / known[:steps, rows].sum().clamp(min=1)

            return of

        self._train(
            [piece for piece, _ in pieces], self.horizon * len(self.targets_), loss, uniform_sampler(len(pieces))
        )
        self.unit_, self.known_future_ = self.preparation_.unit, []

    def _fit_pool(self, sequences: list[SequenceData]) -> None:
        if self.candidates is not None:
            unknown = [name for name in self.candidates if name not in FAMILIES]
            if unknown or not self.candidates:
                raise ValueError(f"unknown candidates {unknown}: choose some of {', '.join(FAMILIES)}")
        self.n_features_in_ = features = sequences[0].values.shape[1]
        self.known_future_ = self._resolve_features("known_future", self.known_future or (), features)
        self.targets_ = [
            own for own in self._resolve_targets(features) if self.targets is not None or own not in self.known_future_
        ]
        if not self.targets_ or set(self.targets_) & set(self.known_future_):
            raise ValueError("a feature in known_future cannot be a target: remove it from one of them")
        gaps = [sequence.gaps for sequence in sequences if sequence.gaps is not None]
        self.unit_ = median_gap(gaps) if gaps else None
        regular = [self._regular(sequence)[0] for sequence in sequences]
        if max(len(own) for own in regular) < 2:
            raise ValueError(
                f"the longest sequence has {max(len(own) for own in regular)} steps: forecasts need sequences of at "
                "least two steps"
            )
        models, backtests = [], []
        for target, known, past in self._roles():
            histories = [
                own for own in (_history(values, target, known, past) for values in regular) if own is not None
            ]
            self._check_reach(target, histories)
            model, tests = fit_model(
                [own for own in histories if len(own.values) > 1],
                int(self.horizon),
                self._periods(),
                _hints(self.unit_),
                tuple(self.candidates or FAMILIES),
            )
            models.append(model)
            backtests.append(tests)
        self.models_, self.backtests_ = models, backtests
        self.history_, self.n_iter_ = [], 0

    def _periods(self) -> tuple[int, ...] | None:
        """Return `period` as a tuple; None if seasons are to be detected."""
        if self.period is None:
            return None
        period: Any = self.period
        given = (period,) if isinstance(period, Integral) else tuple(period)
        if not all(isinstance(own, Integral) and int(own) >= 1 for own in given) or len(given) > 2:
            raise ValueError(f"period must be a positive integer, or two of them, got {period!r}")
        return tuple(sorted({int(own) for own in given if int(own) > 1}))

    def _roles(self) -> list[tuple[int, list[int], list[int]]]:
        """Return for each target: its feature, the features known in advance, and those known up to now only."""
        own = range(self.n_features_in_)
        return [
            (
                target,
                self.known_future_,
                [other for other in own if other != target and other not in self.known_future_],
            )
            for target in self.targets_
        ]

    def _check_reach(self, target: int, histories: list[History]) -> None:
        """Check that some history has a value as many steps ahead as the horizon."""
        name = self.columns_[target] if self.columns_ else f"feature {target}"
        reach = 0
        for own in histories:
            known = np.flatnonzero(~np.isnan(own.values))
            reach = max(reach, int(known[-1] - known[0]))
        if reach < 1:
            raise ValueError(
                f"no training sequence has a value of {name} 1 steps ahead: pass longer sequences with values of it, "
                "or remove it from targets"
            )
        if reach < self.horizon:
            raise ValueError(
                f"no training sequence has a value of {name} {reach + 1} steps ahead: choose a horizon of at most "
                f"{reach}, or pass longer sequences"
            )

    def _regular(self, sequence: SequenceData) -> tuple[NDArray[np.float64], NDArray[np.int_]]:
        """Return the values on a regular grid, and the step of every sample."""
        if sequence.gaps is None or self.unit_ is None:
            return sequence.values, np.arange(len(sequence.values))
        steps = regular_steps(sequence.gaps, self.unit_)
        return spread_out(sequence.values, steps), steps

    def _read_fitted(self, X: Any, timespans: Any) -> list[SequenceData]:
        """Read sequences and check that they match the training data."""
        check_is_fitted(self, "method_")
        if self.method_ == "network":
            return self._validate_input(X, timespans)
        sequences = read_sequences(X, self._columns(self.columns_), timespans)
        check_as_trained(sequences, self.n_features_in_, timed=self.unit_ is not None)
        return sequences

    def _forecasts(self, X: Any, timespans: Any, future: Any) -> list[list[Forecasts]]:
        """Forecast with the pool: one list per series, with one entry per target."""
        sequences = self._read_fitted(X, timespans)
        regular = [self._regular(sequence)[0] for sequence in sequences]
        futures = self._futures(regular, future)
        found = []
        for number, (values, own) in enumerate(zip(regular, futures, strict=True)):
            if self.known_future_ and future is None:
                values = values[: len(values) - self.horizon]
            row = []
            for model, (target, known, past) in zip(self.models_, self._roles(), strict=True):
                history = _history(values, target, known, past, own)
                if history is None:
                    name = self.columns_[target] if self.columns_ else f"feature {target}"
                    raise ValueError(f"sequence {number} has no known value of {name}: pass at least one")
                row.append(model.forecast(history))
            found.append(row)
        return found

    def _futures(self, regular: list[NDArray], future: Any) -> list[NDArray | None]:
        """Return the covariates of the steps to forecast, one array (horizon, covariates) per series."""
        if not self.known_future_:
            if future is not None:
                raise ValueError("future is only for forecasters with known_future: omit it, or fit with known_future")
            return [None] * len(regular)
        count = len(self.known_future_)
        if future is not None:
            given = np.asarray(future, np.float64)
            shape = (len(regular), self.horizon, count)
            if given.shape not in (
                shape,
                shape[:2] if count == 1 else shape,
                shape[1:] if len(regular) == 1 else shape,
            ):
                raise ValueError(f"future has shape {given.shape}, expected (series, horizon, features) = {shape}")
            found: list[NDArray | None] = list(given.reshape(shape))
        else:
            for number, values in enumerate(regular):
                if len(values) <= self.horizon or not np.isnan(values[-self.horizon :, self.targets_]).all():
                    raise ValueError(
                        f"sequence {number} has no rows for the steps to forecast: pass `future`, or append "
                        f"{self.horizon} rows with the features of known_future and missing targets"
                    )
            found = [values[-self.horizon :, self.known_future_] for values in regular]
        for number, own in enumerate(found):
            if own is not None and np.isnan(own).any():
                raise ValueError(f"the future of sequence {number} has missing values: fill them in")
        return found

    def _flatten(self, X: Any, found: NDArray) -> NDArray[np.float64]:
        """Drop the axes of series (first) and targets (last) that X does not have."""
        single = self.id_column is None and is_single(X)
        flat = getattr(X, "ndim", 1) == 1 if single else isinstance(X, np.ndarray) and X.ndim == 2
        found = found[..., 0] if flat and found.shape[-1] == 1 else found
        return found[0] if single else found

    def _at_every_step(self, sequences: list[SequenceData]) -> list[NDArray[np.float64]]:
        if self.method_ == "pool":
            return [self._pool_at_every_step(sequence) for sequence in sequences]
        every = self._outputs(sequences, every=True)
        values = [fill_missing(sequence.values, self.preparation_.mean) for sequence in sequences]
        return [self._ahead(every[: len(own), number], own) for number, own in enumerate(values)]

    def _pool_at_every_step(self, sequence: SequenceData) -> NDArray[np.float64]:
        values, steps = self._regular(sequence)
        found = np.full((len(steps), self.horizon, len(self.models_)), np.nan)
        for column, (model, (target, known, past)) in enumerate(zip(self.models_, self._roles(), strict=True)):
            history = _history(values, target, known, past)
            if history is None:
                continue
            origins = steps + 1 - (len(values) - len(history.values))
            found[origins > 0, :, column] = model.forecast_at(history, origins[origins > 0]).mean
        return found

    def _resolve_targets(self, features: int) -> list[int]:
        """Return `targets` as indices of features."""
        if self.targets is None:
            return list(range(features))
        if not len(self.targets):
            raise ValueError("targets is empty: name at least one feature, or omit it to forecast all features")
        return self._resolve_features("targets", self.targets, features)

    def _resolve_features(self, setting: str, given: Sequence[int | str], features: int) -> list[int]:
        """Return the features that a setting names, as indices."""
        names = self.columns_ or []
        found: list[Any] = [names.index(name) if name in names else name for name in given]
        for name in found:
            if not isinstance(name, Integral) or not 0 <= int(name) < features:
                there = ", ".join(names) or f"0 to {features - 1}"
                raise ValueError(f"{setting} contains {name!r}, which is not a feature: the features are {there}")
        return [int(number) for number in found]

    def _ahead(self, answers: NDArray, last: NDArray) -> NDArray[np.float64]:
        """Convert outputs (rows, horizon * targets) to forecasts, given the last values (rows, features)."""
        change = answers.reshape(len(answers), self.horizon, -1) * self.preparation_.scale[self.targets_]
        return last[:, None, self.targets_] + change

    def _pieces(self, sequence: SequenceData) -> list[tuple[SequenceData, NDArray]]:
        """Cut a sequence into pieces of at most `window` steps, each with the values of its steps and its horizon.

        The horizon of a piece overlaps the next piece, so that validation pieces are not fully independent of training
        pieces.
        """
        found, length = [], len(sequence.values)
        for start in range(0, length - 1, self.window):
            end = min(start + self.window, length - 1)
            gaps = None if sequence.gaps is None else sequence.gaps[start:end]
            found.append((SequenceData(sequence.values[start:end], gaps), sequence.values[start : end + self.horizon]))
        return found

    def _targets(self, pieces: list[tuple[SequenceData, NDArray]], preparation: Preparation) -> tuple[Tensor, Tensor]:
        """Return the targets of every step, and 1 where they are known: both (time, pieces, horizon * targets)."""
        steps, own = max(len(piece.values) for piece, _ in pieces), self.targets_
        targets = np.full((steps, len(pieces), self.horizon, len(own)), np.nan, np.float32)
        for number, (piece, whole) in enumerate(pieces):
            now = fill_missing(piece.values, preparation.mean)[:, own]
            for ahead in range(1, self.horizon + 1):
                later = whole[ahead : ahead + len(now), own]
                targets[: len(later), number, ahead - 1] = (later - now[: len(later)]) / preparation.scale[own]
        table = torch.from_numpy(targets).flatten(2)
        return table.nan_to_num(), (~table.isnan()).float()

    def _check_known(self, known: Tensor) -> None:
        """Check that every target has a known value. `known`: (time, pieces, horizon * targets)."""
        never = ~known.any(0).any(0).view(self.horizon, -1)
        if not never.any():
            return
        ahead, column = (int(number) for number in never.nonzero()[0])
        feature = self.targets_[column]
        name = self.columns_[feature] if self.columns_ else f"feature {feature}"
        if ahead == 0:
            remedy = "pass longer sequences with values of it, or remove it from targets"
        else:
            remedy = f"choose a horizon of at most {ahead}, or pass longer sequences"
        raise ValueError(f"no training sequence has a value of {name} {ahead + 1} steps ahead: {remedy}")

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted network mean: standardised changes from the last known values."""
        check_is_fitted(self, "method_")
        if self.method_ == "pool":
            raise ValueError("a pool of forecasters cannot be exported: fit with method='network'")
        scale = np.tile(np.asarray(self.preparation_.scale, float)[self.targets_], self.horizon)
        return OutputSpec("changes", scale, np.zeros(len(scale)))

    def _output_size(self) -> int:
        return self.horizon * len(self.targets_)

    def _fitted_state(self) -> dict[str, Any]:
        return {"targets": self.targets_}

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        self.targets_ = learned["targets"]
        if not all(isinstance(own, int) and 0 <= own < self.n_features_in_ for own in self.targets_):
            raise ValueError(f"its targets are {self.targets_}, but there are {self.n_features_in_} features")


def _r2(truth: NDArray, found: NDArray) -> float:
    """Compute R² over all known values. Both arguments: (rows, features)."""
    known = ~np.isnan(truth) & ~np.isnan(found)
    if known.sum() < 2:
        raise ValueError("fewer than two known values to score: pass longer sequences")
    error = ((truth - found)[known] ** 2).sum()
    total = ((truth - np.nanmean(np.where(known, truth, np.nan), 0))[known] ** 2).sum()
    return float(1 - error / total) if total else float(error == 0)


def _history(
    values: NDArray[np.float64], target: int, known: list[int], past: list[int], future: NDArray | None = None
) -> History | None:
    """Return a feature of a regular series (time, features) from its first known value on, or None without any."""
    there = np.flatnonzero(~np.isnan(values[:, target]))
    if not len(there):
        return None
    own = values[there[0] :]
    return History(own[:, target], own[:, known], own[:, past], future)


def _hints(unit: float | None) -> tuple[int, ...]:
    """Return the seasons that dates at such distances suggest."""
    if unit is None:
        return ()
    return next((periods for low, high, periods in SEASONS_OF_GAPS if low <= unit <= high), ())


def _same(value: Any, default: Any) -> bool:
    """Return whether a setting has its default. Sequences of any kind are compared as tuples."""
    if isinstance(value, list | tuple | np.ndarray):
        return isinstance(default, list | tuple) and tuple(value) == tuple(default)
    return value is default or value == default
