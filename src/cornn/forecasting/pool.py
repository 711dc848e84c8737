"""A pool of simple forecasters, combined by their accuracy at earlier origins."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornn.forecasting.members import (
    FAMILIES,
    Member,
    SmoothingStates,
    View,
    make_views,
    simple_forecasts,
    undo_log,
)
from cornn.forecasting.readout import Readout, ReadoutSpec, Rows, build_rows, fit_readout
from cornn.forecasting.series import find_starts
from cornn.forecasting.smoothing import Smoother

__all__ = ["Backtest", "Pool", "find_limits", "fit_pool", "later_values", "select_periods"]

MAX_ORIGINS = 120  # per series, for the choice of weights
BLOCKS = 4  # times that a readout is refitted during the backtest
MIN_HISTORY = 6  # values before the first origin; half of a series, if that is less
LOG_RANGE = 1.2  # largest over smallest value from which logarithms are tried
SHARPNESS = 12.0  # weights are losses to the power of minus this
WORST_RATIO = 1.3  # a member with a loss above this multiple of the best is left out
PRIOR_LOSSES = 2.0  # origins' worth of equal losses that weights start with
MIN_SCALE = 0.05  # of a row, relative to the mean
LIMIT = 10.0  # ranges of the history by which a forecast may leave it


@dataclass(frozen=True)
class Backtest:
    """Forecasts at earlier origins of one series.

    Attributes:
        origins: Numbers of steps after which forecasts start, shape (origins,): after a known value, see `find_starts`.
        forecasts: Member -> forecasts, shape (origins, horizon).
        combined: Forecasts with the weights known at each origin, shape (origins, horizon).
        truth: Later values, shape (origins, horizon); NaN where unknown.
        scale: Scale of the series at each origin, shape (origins,).
    """

    origins: NDArray[np.int_]
    forecasts: dict[Member, NDArray[np.float64]]
    combined: NDArray[np.float64]
    truth: NDArray[np.float64]
    scale: NDArray[np.float64]


@dataclass(frozen=True)
class Pool:
    """A fitted pool. It forecasts any series that is like those it was fitted to.

    Attributes:
        horizon: Steps to forecast.
        periods: Steps per season, the shortest first; empty for none.
        log: Whether logarithms are used in addition to the values.
        families: The kinds of members.
        specs: Member -> what its readout sees.
        readouts: Member -> its readout.
        weights: Member -> its share of the combined forecast.
    """

    horizon: int
    periods: tuple[int, ...]
    log: bool
    families: tuple[str, ...]
    specs: dict[Member, ReadoutSpec]
    readouts: dict[Member, Readout]
    weights: dict[Member, float]

    @property
    def period(self) -> int:
        """Steps of the shortest season; 1 if there is none."""
        return self.periods[0] if self.periods else 1

    def forecast_at(
        self,
        values: NDArray[np.float64],
        origins: NDArray[np.int_],
        covariates: NDArray[np.float64],
        states: SmoothingStates | None = None,
    ) -> NDArray[np.float64]:
        """Forecast after each of some steps, (origins, horizon): the last value where no member with a weight can."""
        forecasts = self.member_forecasts(values, origins, covariates, states)
        weights = {member: np.full(len(origins), self.weights.get(member, 0.0)) for member in forecasts}
        return combine(forecasts, weights, values[origins - 1])

    def member_forecasts(
        self,
        values: NDArray[np.float64],
        origins: NDArray[np.int_],
        covariates: NDArray[np.float64],
        states: SmoothingStates | None = None,
        every: bool = False,
    ) -> dict[Member, NDArray[np.float64]]:
        """Forecast with every member.

        Args:
            values: The series, shape (time,), without missing values.
            origins: Numbers of known values after which to forecast.
            covariates: Covariates of about unit scale, shape (time, covariates).
            states: States of smoothing before the last value, if `origins` is the length of the series only.
            every: Whether members without a weight forecast too.

        Returns:
            Member -> forecasts, shape (origins, horizon); NaN where the history is too short for it.
        """
        views = make_views(values, self.period, self.log, covariates)
        use = [member for member, weight in self.weights.items() if every or weight > 0]
        forecasts = simple_forecasts(views, origins, self.horizon, use, states)
        for member, spec in self.specs.items():
            readout = self.readouts.get(member)
            if readout is None or member.log not in views or member not in use:
                continue
            view = views[member.log]
            answer = np.full((len(origins), self.horizon), np.nan)
            enough = (origins >= spec.need) & (origins <= len(view.values))
            rows = build_rows(view.values, view.scale, spec, view.covariates, origins[enough] - 1)
            answer[enough] = undo_log(readout(rows), member.log)
            forecasts[member] = answer
        return limit_forecasts(forecasts, values, origins)

    def advance(self, values: NDArray[np.float64], states: SmoothingStates) -> SmoothingStates:
        """Return the states of smoothing after the last value, given those before it (none: from the start)."""
        states_after: SmoothingStates = {}
        for member, weight in self.weights.items():
            if member.family not in ("smoothing", "theta") or not weight:
                continue
            key = (member.period, member.log)
            if key in states_after or (member.log and values.min() <= 0):
                continue
            smoother = Smoother(member.period)
            # The initial state is fitted to the first values, and changes until all of them are there.
            if key in states and len(values) > smoother.warmup:
                last = values[-1:]
                states_after[key] = smoother.run(np.log(last) if member.log else last, states[key]).state
            elif len(values) >= smoother.warmup:
                states_after[key] = smoother.run(np.log(values) if member.log else values).state
        return states_after


def limit_forecasts(forecasts: dict[Member, NDArray], values: NDArray, origins: NDArray) -> dict[Member, NDArray]:
    """Keep forecasts within some ranges of the history."""
    low, high = find_limits(values, origins)
    return {
        member: np.clip(values_of_member, low[:, None], high[:, None]) for member, values_of_member in forecasts.items()
    }


def find_limits(values: NDArray, origins: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the smallest and the largest possible forecast at each origin, each of shape (origins,)."""
    low, high = np.minimum.accumulate(values)[origins - 1], np.maximum.accumulate(values)[origins - 1]
    width = LIMIT * (high - low)
    return low - width, high + width


def combine(
    forecasts: Mapping[Member, NDArray], weights: Mapping[Member, NDArray], otherwise: NDArray
) -> NDArray[np.float64]:
    """Average forecasts (origins, horizon) by weights (origins,), leaving out NaN; `otherwise` if all are."""
    total = np.zeros((len(otherwise), next(iter(forecasts.values())).shape[1]))
    weight = np.zeros_like(total)
    for member, forecast in forecasts.items():
        is_known = ~np.isnan(forecast)
        share = weights[member][:, None] * is_known
        total += np.where(is_known, forecast, 0.0) * share
        weight += share
    return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0), otherwise[:, None])


def select_periods(periods: Sequence[int], series: Sequence[NDArray[np.float64]]) -> tuple[int, ...]:
    """Return the periods for which series of shape (time,) are usually long enough."""
    length = int(np.median([len(values) for values in series]))
    return tuple(period for period in periods if length >= 2 * period + 2)


def choose_origins(starts: NDArray[np.bool_], period: int) -> NDArray[np.int_]:
    """Return the origins of the backtest: evenly spaced over the last part of a series.

    Args:
        starts: Whether a forecast may start after each step, shape (time,).
        period: Steps per season; 1 means no season.
    """
    length = len(starts)
    first = max(min(MIN_HISTORY, length // 2), min(2 * period + 2, length // 2) if period > 1 else 0, length // 3)
    first = max(min(first, length - 1), 1)
    origins = first + np.flatnonzero(starts[first - 1 : length - 1])
    if not len(origins):
        return np.array([first])
    places = np.linspace(first, first + len(origins) - 1, min(MAX_ORIGINS, len(origins))).round().astype(int)
    return origins[np.unique(places) - first]


def later_values(values: NDArray[np.float64], origins: NDArray[np.int_], horizon: int) -> NDArray[np.float64]:
    """Return the values after each origin, shape (origins, horizon); NaN beyond the end."""
    padded = np.concatenate([values, np.full(horizon, np.nan)])
    return padded[origins[:, None] + np.arange(horizon)]


def fit_pool(
    series: Sequence[NDArray[np.float64]],
    horizon: int,
    periods: tuple[int, ...] = (),
    *,
    observed: Sequence[NDArray[np.float64]] | None = None,
    covariates: Sequence[NDArray[np.float64]] | None = None,
    families: Sequence[str] = FAMILIES,
) -> tuple[Pool, list[Backtest]]:
    """Fit a pool to series.

    Args:
        series: The series, each of shape (time,), without missing values.
        horizon: Steps to forecast.
        periods: Steps per season, from `select_periods`, the shortest first, at most two; empty for none.
        observed: The series with NaN where a value was filled in: filled values are not targets.
        covariates: Covariates of about unit scale, each of shape (time, covariates).
        families: Kinds of members, from `FAMILIES`.

    Returns:
        The fitted pool, and its backtest on each series.
    """
    observed = series if observed is None else observed
    covariates = [np.zeros((len(values), 0)) for values in series] if covariates is None else covariates
    length = int(np.median([len(values) for values in series]))
    period = periods[0] if periods else 1
    log = all(values.min() > 0 and values.max() > LOG_RANGE * values.min() for values in series)
    views = [make_views(values, period, log, extra) for values, extra in zip(series, covariates, strict=True)]
    origins = [choose_origins(find_starts(values, horizon), period) for values in observed]
    simple = list(dict.fromkeys(_simple_members(periods, log, families)))
    simple_by_series = [
        simple_forecasts(view, steps, horizon, simple) for view, steps in zip(views, origins, strict=True)
    ]
    specs = dict(_readout_members(length, horizon, periods, log, families, covariates[0].shape[1] > 0))
    readouts = {}
    for member, spec in specs.items():
        readout = _fit_member(member, spec, views, observed, origins, simple_by_series)
        if readout is not None:
            readouts[member] = readout
    backtests, totals, counts = [], {}, {}
    for values, seen, forecasts_of_series, where, view in zip(
        series, observed, simple_by_series, origins, views, strict=True
    ):
        forecasts_of_series = limit_forecasts(forecasts_of_series, values, where)
        truth = later_values(seen, where, horizon)
        scale = view[False].scale[np.maximum(where - 1, 1)]  # the scale of one value alone is unknown
        scale = np.maximum(scale, MIN_SCALE * scale.mean())
        backtests.append(_combine_backtest(forecasts_of_series, truth, where, scale, values))
        for member, forecasts in forecasts_of_series.items():
            losses = np.abs(forecasts - truth) / scale[:, None]
            known = ~np.isnan(losses)
            totals[member] = totals.get(member, 0.0) + losses[known].sum()
            counts[member] = counts.get(member, 0) + known.sum()
    losses = {member: totals[member] / counts[member] for member in totals if counts[member]}
    weights = weigh(losses) if losses else {Member("last value"): 1.0}
    return Pool(horizon, periods, log, tuple(families), specs, readouts, weights), backtests


def weigh(losses: Mapping[Member, float]) -> dict[Member, float]:
    """Turn mean losses into weights that sum to one."""
    best = max(min(losses.values()), 1e-12)
    weights = {
        member: max(loss / best, 1.0) ** -SHARPNESS if loss <= WORST_RATIO * best else 0.0
        for member, loss in losses.items()
    }
    total = sum(weights.values())
    return {member: float(weight / total) for member, weight in weights.items()}


def _simple_members(periods: Sequence[int], log: bool, families: Sequence[str]) -> Iterator[Member]:
    for family in families:
        if family in ("last value", "drift", "mean"):
            yield Member(family)
        elif family in ("seasonal naive", "seasonal naive with drift"):
            # Without a season the last value is the last season.
            yield from (Member(family, period) for period in periods)
            if not periods:
                yield Member("last value")
        elif family in ("smoothing", "theta"):
            for period in periods or (1,):
                yield from (Member(family, period, use_log) for use_log in ((False, True) if log else (False,)))


def _readout_members(
    length: int, horizon: int, periods: Sequence[int], log: bool, families: Sequence[str], covariates: bool
) -> Iterator[tuple[Member, ReadoutSpec]]:
    for family in ("ridge on lags", "oscillators"):
        if family not in families:
            continue
        for use_log in (False, True) if log else (False,):
            for seasonal in (False, True) if periods else (False,):
                for extra in (False, True) if covariates else (False,):
                    period = periods[-1] if seasonal else periods[0] if periods else 1
                    spec = ReadoutSpec.choose(
                        length,
                        horizon,
                        period,
                        seasonal=seasonal,
                        oscillators=family == "oscillators",
                        covariates=extra,
                    )
                    yield Member(family, period, use_log, seasonal, extra), spec


def _fit_member(
    member: Member,
    spec: ReadoutSpec,
    views: Sequence[dict[bool, View]],
    observed: Sequence[NDArray],
    origins: Sequence[NDArray],
    simple: Sequence[dict[Member, NDArray]],
) -> Readout | None:
    """Fit the readout of a member, and add its forecasts at the origins, each by a readout of earlier steps only."""
    horizon = spec.horizon
    tables: list[tuple[Rows, NDArray]] = []
    for view, seen in zip(views, observed, strict=True):
        scaled = view[member.log]
        rows = build_rows(scaled.values, scaled.scale, spec, scaled.covariates)
        later = later_values(np.log(seen) if member.log else seen, rows.steps + 1, horizon)
        tables.append((rows, (later - rows.anchors) / rows.scale[:, None]))

    def fit(ends: Sequence[int]) -> Readout | None:
        inputs, aligned, targets = [], [], []
        for (rows, target), end in zip(tables, ends, strict=True):
            # Rows from before the series starts to move would get huge targets.
            use = (rows.steps < end - 1) & (rows.scale > MIN_SCALE * rows.scale.mean()) if len(rows.steps) else []
            known = rows.steps[use][:, None] + np.arange(1, horizon + 1) < end
            inputs.append(rows.inputs[use])
            aligned.append(rows.aligned[use])
            targets.append(np.where(known, target[use], np.nan))
        return fit_readout(np.concatenate(inputs), np.concatenate(aligned), np.concatenate(targets))

    answers = [np.full((len(steps), horizon), np.nan) for steps in origins]
    for block in range(BLOCKS):
        firsts = [round(len(steps) * block / BLOCKS) for steps in origins]
        readout = fit([int(steps[min(first, len(steps) - 1)]) for steps, first in zip(origins, firsts, strict=True)])
        if readout is None:
            continue
        for answer, steps, first, (rows, _) in zip(answers, origins, firsts, tables, strict=True):
            where = np.arange(first, round(len(steps) * (block + 1) / BLOCKS))
            where = where[np.isin(steps[where] - 1, rows.steps)]
            at = np.searchsorted(rows.steps, steps[where] - 1)
            answer[where] = undo_log(readout(rows.take(at)), member.log)
    for answer, forecasts in zip(answers, simple, strict=True):
        forecasts[member] = answer
    return fit([len(view[member.log].values) for view in views])


def _combine_backtest(
    forecasts: dict[Member, NDArray], truth: NDArray, origins: NDArray, scale: NDArray, values: NDArray
) -> Backtest:
    """Combine with the weights that were known at each origin."""
    horizon = truth.shape[1]
    ends = origins[:, None] + np.arange(1, horizon + 1)
    members = list(forecasts)
    losses = np.abs(np.stack([forecasts[member] for member in members]) - truth) / scale[:, None]
    is_known = ~np.isnan(losses)
    losses = np.where(is_known, losses, 0.0)
    weights = np.zeros((len(members), len(origins)))
    for number, origin in enumerate(origins):
        use = is_known & (ends <= origin)
        count = use.sum((1, 2))
        mean = (losses * use).sum((1, 2)) / np.maximum(count, 1)
        usual = np.median(mean[count > 0]) if count.any() else 1.0
        prior = PRIOR_LOSSES * horizon
        mean = (mean * count + usual * prior) / (count + prior)
        by_member = weigh(dict(zip(members, mean.tolist(), strict=True)))
        weights[:, number] = [by_member[member] for member in members]
    combined = combine(forecasts, dict(zip(members, weights, strict=True)), values[origins - 1])
    return Backtest(origins, forecasts, combined, truth, scale)
