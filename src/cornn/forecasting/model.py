"""A forecaster of one variable: seasons, covariates, the pool and its errors."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._checked import decode
from cornn.forecasting.conformal import Errors, collect_errors, scale_back
from cornn.forecasting.covariates import Effect, fit_effect
from cornn.forecasting.members import FAMILIES, Member, SmoothingStates, moving_scale
from cornn.forecasting.pool import Backtest, Pool, find_limits, fit_pool, later_values, select_periods
from cornn.forecasting.readout import Readout, ReadoutSpec
from cornn.forecasting.seasons import detect_periods
from cornn.forecasting.series import History, count_missing, fill_gaps

__all__ = ["Forecasts", "Model", "choose_periods", "fit_model", "include_forecasts"]

SEASONAL_SHARE = 0.4  # of many series that must have a season for all to get it
MAX_SERIES = 100  # that seasons are detected in
MAX_HORIZONS = 100  # without a value before an origin, from which nothing is forecast
ERRORS_AFTER = 0.25  # of the origins of a backtest: the weights of earlier ones are not settled


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of one series.

    Attributes:
        mean: Forecasts, shape (origins, horizon).
        scale: Scale of the series at each origin, shape (origins,).
        low: Smallest possible values, shape (origins, horizon), or of all; minus infinity without a limit.
        high: Largest possible values, likewise.
        missing: Number of values right before each origin that are missing, shape (origins,), or of all.
    """

    mean: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: NDArray[np.float64] | float = -np.inf
    high: NDArray[np.float64] | float = np.inf
    missing: NDArray[np.int_] | int = 0


@dataclass(frozen=True)
class Model:
    """A fitted forecaster of one variable.

    Attributes:
        pool: The fitted pool.
        errors: Its errors at earlier origins.
        unit: Size of the values, a power of two, by which they are divided.
        low: Smallest possible value, or None: 0 if the training values are never negative. It does not apply to a
            series that has smaller values itself.
        effect: Effect of the covariates that are known in advance, or None.
        centre: Means of the other covariates, shape (covariates,).
        spread: Standard deviations of the other covariates, shape (covariates,).
    """

    pool: Pool
    errors: Errors
    unit: float
    low: float | None
    effect: Effect | None
    centre: NDArray[np.float64]
    spread: NDArray[np.float64]

    @property
    def horizon(self) -> int:
        """Number of steps that are forecast."""
        return self.pool.horizon

    def prepare(self, history: History) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the values without gaps and effects, and the covariates, both of about unit scale."""
        values = history.values / self.unit
        if self.effect is not None:
            values = self.effect.remove(values, history.known)
        covariates = np.nan_to_num((history.past - self.centre) / self.spread, nan=0.0)
        return fill_gaps(values, self.pool.period), covariates

    def forecast(self, history: History, states: SmoothingStates | None = None) -> Forecasts:
        """Forecast the values that follow a series: one origin, its end."""
        return self.forecast_at(history, np.array([len(history.values)]), states)

    def forecast_at(
        self, history: History, origins: NDArray[np.int_], states: SmoothingStates | None = None
    ) -> Forecasts:
        """Forecast after each of some steps.

        Values that are missing right before an origin are forecast first, from those before. The quantiles are then as
        wide as those of forecasts so many steps further ahead.

        Args:
            history: The series.
            origins: Increasing numbers of steps after which to forecast.
            states: States of smoothing before the last value, for the last origin only.

        Returns:
            The forecasts; NaN after a hundred horizons without a value.
        """
        values, covariates = self.prepare(history)
        missing = count_missing(history.values)[origins - 1]
        lasts = origins - missing
        starts = np.unique(lasts) if missing.any() else origins
        forecasts = self.pool.forecast_at(values, starts, covariates, None if missing.any() else states)
        forecasts = self.finish(forecasts, history, starts)
        if missing.any():
            ahead, forecasts = forecasts, forecasts[np.searchsorted(starts, lasts)]
            for last in np.unique(lasts[missing > 0]):
                after = (lasts == last) & (missing > 0)
                first = ahead[np.searchsorted(starts, last)]
                forecasts[after] = self._forecast_after_gap(history, int(last), first, origins[after])
        scale = moving_scale(values, self.pool.period)[lasts - 1]
        shape = (len(origins), self.horizon)
        limits = (np.broadcast_to(limit[:, None], shape) for limit in find_limits(values, lasts))
        low, high = (self.finish(limit, history, origins) for limit in limits)
        # In a gap, earlier forecasts count as history.
        return Forecasts(forecasts, scale * self.unit, np.minimum(low, forecasts), np.maximum(high, forecasts), missing)

    def _forecast_after_gap(
        self, history: History, last: int, ahead: NDArray[np.float64], origins: NDArray[np.int_]
    ) -> NDArray[np.float64]:
        """Forecast after some of the missing values that follow the first `last` steps.

        Args:
            history: The series.
            last: Number of steps up to the last known value.
            ahead: Forecasts after it, shape (horizon,).
            origins: Increasing numbers of steps after which to forecast, in the gap.

        Returns:
            The forecasts, shape (origins, horizon).
        """
        result = np.full((len(origins), self.horizon), np.nan)
        values = history.values.copy()
        end = min(int(origins[-1]), last + MAX_HORIZONS * self.horizon)
        for start in range(last, end, self.horizon):
            stop = min(start + self.horizon, end)
            values[start:stop] = ahead[: stop - start]
            in_piece = (origins > start) & (origins <= stop)
            filled = replace(history, values=values).take(stop)
            forecasts = self.forecast_at(filled, np.append(origins[in_piece], stop)).mean
            result[in_piece], ahead = forecasts[:-1], forecasts[-1]
        return result

    def member_forecasts(self, history: History, origins: NDArray[np.int_]) -> dict[Member, NDArray[np.float64]]:
        """Forecast with every member of the pool, also with those without a weight."""
        values, covariates = self.prepare(history)
        forecasts = self.pool.member_forecasts(values, origins, covariates, every=True)
        return {
            member: self.finish(values_of_member, history, origins) for member, values_of_member in forecasts.items()
        }

    def finish(self, forecasts: NDArray, history: History, origins: NDArray[np.int_]) -> NDArray[np.float64]:
        """Add the effect of the covariates and the unit to forecasts (origins, horizon), and apply the limit."""
        if self.effect is not None:
            future = np.zeros((0, history.known.shape[1])) if history.future is None else history.future
            covariates = np.concatenate([history.known, future])
            steps = origins[:, None] + np.arange(self.horizon)
            # Beyond what is known, the last covariates are repeated.
            forecasts = self.effect.restore(forecasts, covariates[np.minimum(steps, len(covariates) - 1)])
        forecasts = forecasts * self.unit
        if self.low is None:
            return forecasts
        # A history starts with a known value; fmin ignores the missing ones after it.
        is_below = np.fmin.accumulate(history.values)[origins - 1] < self.low
        return np.where(is_below[:, None], forecasts, np.maximum(forecasts, self.low))

    def quantiles(self, forecasts: Forecasts, levels: Sequence[float]) -> NDArray[np.float64]:
        """Return quantiles of forecasts, shape (levels, origins, horizon), within the limits of the forecasts."""
        shifts = self.errors.quantiles(np.asarray(levels, np.float64), np.atleast_1d(forecasts.missing))
        quantiles = forecasts.mean + shifts * forecasts.scale[:, None]
        return np.clip(quantiles, forecasts.low, forecasts.high)

    def interval(self, forecasts: Forecasts, level: float) -> NDArray[np.float64]:
        """Return the ends of intervals of some level, shape (2, origins, horizon). They contain the forecasts."""
        return include_forecasts(self.quantiles(forecasts, ((1 - level) / 2, (1 + level) / 2)), forecasts.mean)

    def to_state(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return the model as JSON values and arrays."""
        pool, effect = self.pool, self.effect
        members = list(dict.fromkeys([*pool.weights, *pool.specs]))
        about = {
            "horizon": pool.horizon,
            "periods": list(pool.periods),
            "log": pool.log,
            "families": list(pool.families),
            "members": [
                {
                    "member": asdict(member),
                    "weight": pool.weights.get(member, 0.0),
                    "spec": asdict(pool.specs[member]) if member in pool.readouts else None,
                }
                for member in members
            ],
            "unit": self.unit,
            "low": self.low,
            "origins": self.errors.origins,
            "independent": self.errors.independent,
            "effect_log": None if effect is None else effect.log,
        }
        arrays = {f"errors.{name}": getattr(self.errors, name) for name in ("spread", "shapes", "first")}
        arrays |= {"centre": self.centre, "spread": self.spread}
        if effect is not None:
            arrays |= {"effect.weights": effect.weights, "effect.centre": effect.centre}
        for number, member in enumerate(members):
            if readout := pool.readouts.get(member):
                arrays |= {f"readout.{number}.{name}": value for name, value in vars(readout).items()}
        return about, arrays

    @classmethod
    def from_state(cls, about: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> "Model":
        """Restore a model from what `to_state` returned."""
        specs, readouts, weights = {}, {}, {}
        for number, entry in enumerate(about["members"]):
            member = decode(Member, entry["member"], "a member")
            if member.family not in FAMILIES:
                raise ValueError(f"unknown family {member.family!r}")
            weights[member] = float(entry["weight"])
            if entry["spec"] is not None:
                spec = specs[member] = decode(ReadoutSpec, entry["spec"], "a readout")
                readout = Readout(arrays[f"readout.{number}.weights"], arrays[f"readout.{number}.offset"])
                if readout.weights.shape[1:] != readout.offset.shape or readout.offset.shape != (spec.horizon,):
                    raise ValueError(
                        f"the readout of {member} has shapes {readout.weights.shape} and {readout.offset.shape}"
                    )
                readouts[member] = readout
        pool = Pool(
            int(about["horizon"]),
            tuple(int(period) for period in about["periods"]),
            bool(about["log"]),
            tuple(about["families"]),
            specs,
            readouts,
            weights,
        )
        parts = {name: arrays[f"errors.{name}"] for name in ("spread", "shapes", "first")}
        errors = Errors(**parts, origins=int(about["origins"]), independent=float(about["independent"]))
        if errors.spread.shape != (pool.horizon,):
            raise ValueError(f"errors of {errors.spread.shape} steps ahead, but the horizon is {pool.horizon}")
        effect = None
        if about["effect_log"] is not None:
            effect = Effect(arrays["effect.weights"], arrays["effect.centre"], bool(about["effect_log"]))
        low = None if about["low"] is None else float(about["low"])
        return cls(pool, errors, float(about["unit"]), low, effect, arrays["centre"], arrays["spread"])


def include_forecasts(ends: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
    """Extend intervals (2, origins, horizon) to the forecasts (origins, horizon).

    Both quantiles are on one side of the forecast if earlier ones were mostly too low, or mostly too high.
    """
    return np.stack([np.minimum(ends[0], mean), np.maximum(ends[1], mean)])


def choose_periods(series: Sequence[NDArray[np.float64]], hints: Sequence[int] = ()) -> tuple[int, ...]:
    """Detect the seasons that many of the series have.

    Args:
        series: The series, each of shape (time,); NaN where missing.
        hints: Periods that the times of the samples suggest.

    Returns:
        At most two periods, the shortest first.
    """
    chosen = series[:: max(1, len(series) // MAX_SERIES)][:MAX_SERIES]
    votes: Counter[int] = Counter()
    for values in chosen:
        known = ~np.isnan(values)
        time = np.arange(len(values))
        votes.update(detect_periods(np.interp(time, time[known], values[known]), hints))
    return tuple(sorted(period for period, count in votes.most_common(2) if count >= SEASONAL_SHARE * len(chosen)))


def fit_model(
    histories: Sequence[History],
    horizon: int,
    periods: Sequence[int] | None = None,
    hints: Sequence[int] = (),
    families: Sequence[str] = FAMILIES,
) -> tuple[Model, list[Backtest]]:
    """Fit a forecaster of one variable to one or many series.

    Args:
        histories: The series.
        horizon: Steps to forecast.
        periods: Steps per season, at most two; empty for none. None: detect them.
        hints: Periods that the times of the samples suggest, for the detection.
        families: Kinds of members of the pool.

    Returns:
        The model, and its backtest on each series, in units of the data.
    """
    together = np.concatenate([history.values for history in histories])
    together = together[~np.isnan(together)]
    size = float(np.abs(together).mean())
    unit = float(2.0 ** np.round(np.log2(size))) if size > 0 else 1.0
    low = 0.0 if together.min() >= 0 else None
    values = [history.values / unit for history in histories]
    effect = None
    if histories[0].known.shape[1]:
        effect = fit_effect(values, [history.known for history in histories], bool(together.min() > 0))
    if effect is not None:
        values = [effect.remove(series, history.known) for series, history in zip(values, histories, strict=True)]
    if periods is None:
        periods = choose_periods(values, hints)
    # The same season fills gaps here and in predictions.
    periods = select_periods(sorted(periods), values)
    period = min(periods, default=1)
    past = np.concatenate([history.past for history in histories])
    centre, spread = np.zeros(past.shape[1]), np.ones(past.shape[1])
    for column in range(past.shape[1]):
        known = past[~np.isnan(past[:, column]), column]
        if len(known):
            centre[column], spread[column] = known.mean(), known.std() or 1.0
    covariates = [np.nan_to_num((history.past - centre) / spread, nan=0.0) for history in histories]
    filled = [fill_gaps(series, period) for series in values]
    pool, backtests = fit_pool(filled, horizon, periods, observed=values, covariates=covariates, families=families)
    tables, first, independent = [], [], 0.0
    for backtest, seen in zip(backtests, values, strict=True):
        scaled = (backtest.truth - backtest.combined) / backtest.scale[:, None]
        scaled = scale_back(scaled, count_missing(seen)[backtest.origins - 1])
        tables.append(scaled[int(ERRORS_AFTER * len(scaled)) :])
        first.append(scaled[:, 0])
        independent += np.count_nonzero(~np.isnan(seen[backtest.origins[0] : backtest.origins[-1] + 1])) / horizon
    errors = collect_errors(np.concatenate(tables), np.concatenate(first), independent)
    model = Model(pool, errors, unit, low, effect, centre, spread)
    return model, [_finish_backtest(model, *pair) for pair in zip(backtests, histories, strict=True)]


def _finish_backtest(model: Model, backtest: Backtest, history: History) -> Backtest:
    """Return a backtest in units of the data, with the effect of the covariates."""
    origins = backtest.origins
    return Backtest(
        origins,
        {member: model.finish(forecasts, history, origins) for member, forecasts in backtest.forecasts.items()},
        model.finish(backtest.combined, history, origins),
        later_values(history.values, origins, model.horizon),
        backtest.scale * model.unit,
    )
