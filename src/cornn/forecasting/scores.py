"""Scores of forecasts next to those of simple rules, and the coverage of their intervals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornn.forecasting.model import Forecasts, Model, choose_periods, fit_model, include_forecasts
from cornn.forecasting.pool import later_values
from cornn.forecasting.series import History, fill_gaps

__all__ = [
    "BASELINES",
    "LEVELS",
    "TRIVIAL",
    "ScoreTable",
    "Scores",
    "compare_with_baselines",
    "compute_r2",
    "score_forecasts",
]

LEVELS = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
"""Levels of the quantiles that the pinball loss averages over."""
BASELINES = ("last value", "seasonal naive", "ridge on lags")
"""What forecasts are compared with."""
TRIVIAL = BASELINES[:2]
"""Those without parameters."""
MAX_ORIGINS = 200  # per series


@dataclass(frozen=True)
class Scores:
    """Mean scores over origins and steps ahead; smaller is better."""

    mae: float
    rmse: float
    mase: float  # mean absolute error over that of seasonal naive one step ahead in the training data
    pinball: float | None  # over `LEVELS`; None: there are no quantiles


@dataclass(frozen=True)
class ScoreTable:
    """The scores of one variable.

    Attributes:
        model: Scores of the model.
        baselines: Baseline -> its scores.
        ahead: Root mean square error for each step ahead: of the model, and of each baseline.
        coverage: Share of the values in the 90 % interval for each step ahead, or None without intervals.
        pooled_coverage: The same over all steps ahead.
        pairs: True values and forecasts one step ahead.
        count: Number of forecast values.
        period: Steps per season; 1 means none.
    """

    model: Scores
    baselines: dict[str, Scores]
    ahead: dict[str, tuple[float, ...]]
    coverage: tuple[float, ...] | None
    pooled_coverage: float | None
    pairs: tuple[tuple[float, ...], tuple[float, ...]]
    count: int
    period: int


def score_forecasts(
    truth: NDArray[np.float64],
    forecasts: NDArray[np.float64],
    size: NDArray[np.float64],
    quantiles: NDArray[np.float64] | None = None,
) -> Scores:
    """Score forecasts.

    Args:
        truth: True values, shape (origins, horizon); NaN where unknown.
        forecasts: Forecasts, shape (origins, horizon).
        size: Errors of seasonal naive in the training data, shape (origins,).
        quantiles: Forecasts at `LEVELS`, shape (levels, origins, horizon), or None.

    Returns:
        The scores.
    """
    error = truth - forecasts
    pinball = None
    if quantiles is not None:
        levels = np.array(LEVELS)[:, None, None]
        miss = truth - quantiles
        pinball = float(np.nanmean(np.maximum(levels * miss, (levels - 1) * miss)))
    return Scores(
        float(np.nanmean(np.abs(error))),
        float(np.sqrt(np.nanmean(np.square(error)))),
        float(np.nanmean(np.abs(error) / size[:, None])),
        pinball,
    )


def compare_with_baselines(
    training: Sequence[History],
    test: Sequence[History],
    cuts: Sequence[int],
    horizon: int,
    forecast: Callable[[int, History, NDArray[np.int_]], Forecasts],
    model: Model | None,
) -> ScoreTable | None:
    """Score forecasts of later origins next to those of simple rules that were fitted to the same training data.

    Args:
        training: The training series.
        test: The test series, with their histories.
        cuts: First test step of each of them; earlier values were used in training.
        horizon: Steps that are forecast.
        forecast: Function (number of the series, history, origins) -> forecasts.
        model: The model, for its quantiles and its seasons; None: there are no quantiles, and seasons are detected.

    Returns:
        The scores, or None if no value is known there, or if there are no training series.
    """
    if not training:
        return None
    periods = model.pool.periods if model is not None else choose_periods([history.values for history in training])
    period = min(periods, default=1)
    rules = {name: fit_model(training, horizon, periods, families=(name,))[0] for name in BASELINES}
    step = [_seasonal_error(history.values, period) for history in training]
    usual = float(np.median(step))
    truths, sizes, by_name, quantiles = [], [], {}, {}
    for number, (history, cut) in enumerate(zip(test, cuts, strict=True)):
        length = len(history.values)
        origins = np.arange(max(cut, 1), length)
        if not len(origins):
            continue
        origins = origins[np.unique(np.linspace(0, len(origins) - 1, min(MAX_ORIGINS, len(origins))).astype(int))]
        truths.append(later_values(history.values, origins, horizon))
        sizes.append(np.full(len(origins), step[number] if len(step) == len(test) else usual))
        answers: dict[str, tuple[Forecasts, Model | None]] = {"model": (forecast(number, history, origins), model)}
        answers |= {name: (rule.forecast_at(history, origins), rule) for name, rule in rules.items()}
        for name, (forecasts, with_quantiles) in answers.items():
            by_name.setdefault(name, []).append(forecasts.mean)
            if with_quantiles is not None:
                quantiles.setdefault(name, []).append(with_quantiles.quantiles(forecasts, LEVELS))
    truth = np.concatenate(truths) if truths else np.zeros((0, horizon))
    count = int((~np.isnan(truth)).sum())
    if not count:
        return None
    size = np.concatenate(sizes)
    means: Mapping[str, NDArray] = {name: np.concatenate(values) for name, values in by_name.items()}
    spreads: Mapping[str, NDArray] = {name: np.concatenate(values, 1) for name, values in quantiles.items()}
    scores = {name: score_forecasts(truth, values, size, spreads.get(name)) for name, values in means.items()}
    steps_ahead = [ahead for ahead in range(horizon) if (~np.isnan(truth[:, ahead])).any()]
    ahead = {
        name: tuple(float(np.sqrt(np.nanmean(np.square(truth[:, k] - values[:, k])))) for k in steps_ahead)
        for name, values in means.items()
    }
    coverage = pooled = None
    if "model" in spreads:
        low, high = include_forecasts(spreads["model"][[0, -1]], means["model"])
        inside = (truth >= low) & (truth <= high)
        known = ~np.isnan(truth)
        coverage = tuple(float(inside[known[:, k], k].mean()) for k in steps_ahead)
        pooled = float(inside[known].mean())
    first = ~np.isnan(truth[:, 0])
    pairs = (tuple(truth[first, 0].tolist()), tuple(means["model"][first, 0].tolist()))
    of_model = scores.pop("model")
    return ScoreTable(of_model, scores, ahead, coverage, pooled, pairs, count, period)


def compute_r2(truth: NDArray, predictions: NDArray) -> float:
    """Compute R² over all known values. Both arguments: (rows, features)."""
    known = ~np.isnan(truth) & ~np.isnan(predictions)
    if known.sum() < 2:
        raise ValueError("fewer than two known values to score: pass longer sequences")
    error = ((truth - predictions)[known] ** 2).sum()
    total = ((truth - np.nanmean(np.where(known, truth, np.nan), 0))[known] ** 2).sum()
    return float(1 - error / total) if total else float(error == 0)


def _seasonal_error(values: NDArray[np.float64], period: int) -> float:
    """Return the mean absolute error of seasonal naive one step ahead; never zero."""
    step = period if len(values) > period else 1
    # A missing value is no target; where the one of the season before is missing, it is filled as for a forecast.
    errors = np.abs(values[step:] - fill_gaps(values, period)[:-step])
    errors = errors[~np.isnan(errors)]
    size = float(errors.mean()) if len(errors) else 0.0
    return size or float(np.nanmean(np.abs(values))) or 1.0
