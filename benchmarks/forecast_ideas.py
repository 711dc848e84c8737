"""Compare ways to combine the members of a forecaster's pool, for the choice of one.

    python benchmarks/forecast_ideas.py --out results/forecast-ideas.json

Only data for development are used: generated series with other seeds than those of benchmarks/forecast.py, and the
first 80 % of each public series. Every way combines the same forecasts of the same members. Needs aeon.
"""

import argparse
import json
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from forecast_series import KINDS, BenchmarkSeries, generate, load_public
from numpy.typing import NDArray

from cornn._source import source
from cornn.forecasting import Backtest, History, Member, fit_model
from cornn.forecasting.rules import seasonal_naive

SEEDS = (1, 2)
SLOW = ("daily and yearly", "load")  # kinds that are left out
ORIGINS = 4
SHARE = 0.8  # of a public series that is for development
MIN_HISTORY = 10

Losses = dict[Member, float]


@dataclass(frozen=True)
class Case:
    """What is known at one origin, and what came after it."""

    backtest: Backtest
    members: dict[Member, NDArray[np.float64]]  # forecasts, (horizon,)
    seasonal: NDArray[np.float64]  # seasonal naive with the season that the pool found, (horizon,)
    naive: NDArray[np.float64]  # seasonal naive with the true season, (horizon,)
    truth: NDArray[np.float64]  # (horizon,)


def losses(case: Case, power: float = 1.0, half_life: float | None = None) -> Losses:
    """Return the mean error of each member at earlier origins."""
    backtest = case.backtest
    age = backtest.origins[-1] - backtest.origins
    weight = np.ones(len(age)) if half_life is None else 0.5 ** (age / half_life)
    by_member = {}
    for member, forecasts in backtest.forecasts.items():
        error = (np.abs(forecasts - backtest.truth) / backtest.scale[:, None]) ** power
        present = ~np.isnan(error) * weight[:, None]
        if present.any():
            by_member[member] = float((np.nan_to_num(error) * present).sum() / present.sum()) ** (1 / power)
    return by_member


def combine(
    case: Case, by_member: Losses, sharpness: float = 12.0, worst: float = 1.3, prior: Callable = lambda member: 1.0
) -> NDArray[np.float64]:
    """Average the forecasts by losses to the power of minus `sharpness`, as the pool does."""
    best = max(min(by_member.values()), 1e-12)
    total, weights = np.zeros(len(case.truth)), np.zeros(len(case.truth))
    for member, loss in by_member.items():
        forecast = case.members.get(member)
        if forecast is not None and loss <= worst * best:
            weight = max(loss / best, 1.0) ** -sharpness * prior(member) * ~np.isnan(forecast)
            total, weights = total + np.nan_to_num(forecast) * weight, weights + weight
    return np.where(weights > 0, total / np.where(weights > 0, weights, 1.0), case.seasonal)


def pull(case: Case, share: float) -> NDArray[np.float64]:
    return (1 - share) * combine(case, losses(case)) + share * case.seasonal


def share_votes(case: Case) -> NDArray[np.float64]:
    by_member = losses(case)
    counts = Counter(member.family for member in by_member)
    return combine(case, by_member, prior=lambda member: 1 / counts[member.family])


def take_median(case: Case) -> NDArray[np.float64]:
    by_member = losses(case)
    best = min(by_member.values())
    chosen = [
        case.members[member] for member, loss in by_member.items() if loss <= 1.3 * best and member in case.members
    ]
    return np.nan_to_num(np.nanmedian(np.stack(chosen), 0)) if chosen else case.seasonal


def favour(factor: float, *families: str) -> Callable[[Case], NDArray[np.float64]]:
    return lambda case: combine(case, losses(case), prior=lambda member: factor if member.family in families else 1.0)


IDEAS: dict[str, Callable[[Case], NDArray[np.float64]]] = {
    "as it is": lambda case: combine(case, losses(case)),
    "flatter weights (power 6)": lambda case: combine(case, losses(case), 6.0),
    "sharper weights (power 20)": lambda case: combine(case, losses(case), 20.0),
    "weights by squared errors": lambda case: combine(case, losses(case, power=2.0)),
    "recent errors count more (half-life 24)": lambda case: combine(case, losses(case, half_life=24.0)),
    "median of the best members": take_median,
    "one vote per kind of member": share_votes,
    "theta counts three times": favour(3.0, "theta"),
    "smoothing and theta count three times": favour(3.0, "smoothing", "theta"),
    "regressions count a third": favour(1 / 3, "ridge on lags", "oscillators"),
    "10 % seasonal naive": lambda case: pull(case, 0.1),
    "20 % seasonal naive": lambda case: pull(case, 0.2),
}


def collect(series: BenchmarkSeries) -> list[Case]:
    """Fit the pool at each origin."""
    values, horizon, cases = series.values, series.horizon, []
    length = len(values)
    first = max(min(int(0.8 * length), length - horizon), MIN_HISTORY)
    for origin in np.unique(np.linspace(first, length - horizon, ORIGINS).astype(int)).tolist():
        none = np.zeros((origin, 0))
        history = History(values[:origin], none, none)
        model, backtests = fit_model([history], horizon)
        at = np.array([origin])
        members = {member: forecasts[0] for member, forecasts in model.member_forecasts(history, at).items()}
        period = max(model.pool.periods, default=1)
        naive = [seasonal_naive(values, at, horizon, cycle)[0] for cycle in (period, series.period)]
        cases.append(Case(backtests[0], members, *naive, values[origin : origin + horizon]))
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/forecast-ideas.json"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    about = source()
    cases = [generate(kind, seed) for seed in SEEDS for kind in KINDS if kind not in SLOW]
    for whole in load_public():
        values = whole.values[: int(SHARE * len(whole.values))]
        if len(values) - whole.horizon > MIN_HISTORY:
            cases.append(BenchmarkSeries(whole.name, whole.kind, values, whole.period, whole.horizon))
    rows = []
    for number, series in enumerate(cases):
        collected = collect(series)
        naive = np.sqrt(np.mean([np.square(case.naive - case.truth) for case in collected]))
        ratios = {
            name: float(f"{np.sqrt(np.mean([np.square(idea(case) - case.truth) for case in collected])) / naive:.4g}")
            for name, idea in IDEAS.items()
        }
        rows.append({"name": series.name, "kind": series.kind, "period": series.period, "ratios": ratios})
        print(f"{number + 1} of {len(cases)}: {series.name}", flush=True)
    text = json.dumps({**about, "series": rows}, separators=(",", ":"))
    arguments.out.write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
