"""Measure CoRNNForecaster next to ETS, ridge on lags and trivial rules, all refitted at the same origins.

    python benchmarks/forecast.py --out results/forecast.json

Series: those that aeon ships (Airline, ShampooSales, PBS_dataset, Uschange, m1_yearly, Longley), and generated ones
with seeds that were not used in development. Needs aeon and statsmodels, which are not dependencies of the package.
Every method gets the history up to an origin; errors are pooled over the origins of a series. Times are processor times
of one thread: set OMP_NUM_THREADS=1.
"""

import argparse
import json
import time
import warnings
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import numpy as np
from forecast_rivals import forecast_ets, forecast_ridge
from forecast_series import KINDS, BenchmarkSeries, generate, load_public

from cornn._machine import machine
from cornn._source import source
from cornn.estimators import CoRNNForecaster
from cornn.forecasting import FAMILIES

SEEDS = range(100, 103)
ORIGINS = 8
TRAINING = 0.8  # share of a series before the first origin
LEVELS = (0.5, 0.8, 0.9, 0.95)
WITHOUT = tuple(name for name in FAMILIES if name != "oscillators")


def choose_origins(length: int, horizon: int) -> list[int]:
    first = min(int(TRAINING * length), length - horizon)
    return np.unique(np.linspace(first, length - horizon, ORIGINS).astype(int)).tolist()


def measure(series: BenchmarkSeries) -> dict:
    """Return the errors of every method on one series, the coverage, the weights and the times."""
    methods = ("pool", "pool without oscillators", "ETS", "ridge on lags", "seasonal naive", "last value")
    errors = {name: [] for name in methods}
    seconds = dict.fromkeys(methods[:4], 0.0)
    inside = {level: [] for level in LEVELS}
    weights: dict[str, float] = dict.fromkeys(FAMILIES, 0.0)
    values, horizon, period = series.values, series.horizon, series.period
    origins = choose_origins(len(values), horizon)
    for origin in origins:
        known, truth = values[:origin], values[origin : origin + horizon]
        start = time.process_time()
        forecaster = CoRNNForecaster(horizon=horizon).fit(known[None])
        forecasts = {"pool": forecaster.predict(known[None])[0]}
        seconds["pool"] += time.process_time() - start
        ends = [(1 - level) / 2 for level in LEVELS] + [(1 + level) / 2 for level in LEVELS]
        quantiles = forecaster.predict_quantiles(known[None], ends)[:, 0]
        for level, low, high in zip(LEVELS, quantiles[: len(LEVELS)], quantiles[len(LEVELS) :], strict=True):
            inside[level].append(((truth >= low) & (truth <= high)).tolist())
        for member, weight in forecaster.models_[0].pool.weights.items():
            weights[member.family] += weight / len(origins)
        start = time.process_time()
        without = CoRNNForecaster(horizon=horizon, candidates=WITHOUT).fit(known[None])
        forecasts["pool without oscillators"] = without.predict(known[None])[0]
        seconds["pool without oscillators"] += time.process_time() - start
        start = time.process_time()
        forecasts["ETS"] = forecast_ets(known, period, horizon)
        seconds["ETS"] += time.process_time() - start
        start = time.process_time()
        forecasts["ridge on lags"] = forecast_ridge(known, period, horizon)
        seconds["ridge on lags"] += time.process_time() - start
        last = known[-period:] if len(known) >= period else known[-1:]
        forecasts["seasonal naive"] = last[np.arange(horizon) % len(last)]
        forecasts["last value"] = np.full(horizon, known[-1])
        for name, forecast in forecasts.items():
            errors[name].append(forecast - truth)
    size = float(np.abs(values[period : origins[0]] - values[: origins[0] - period]).mean()) or 1.0
    return {
        "name": series.name,
        "kind": series.kind,
        "length": len(values),
        "period": period,
        "horizon": horizon,
        "origins": len(origins),
        "rmse": {name: _round(np.sqrt(np.mean(np.square(own)))) for name, own in errors.items()},
        "mase": {name: _round(np.mean(np.abs(own)) / size) for name, own in errors.items()},
        "covered": {str(level): np.sum(own, 0).tolist() for level, own in inside.items()},
        "weights": {name: _round(weight) for name, weight in weights.items()},
        "seconds": {name: _round(own / len(origins)) for name, own in seconds.items()},
    }


def measure_speed(length: int = 500) -> list[dict]:
    """Return the time of one fit of a series of 500 points, for several seasons and horizons."""
    rows = []
    for kind in ("random walk", "monthly", "daily", "hourly"):
        period, _, _, horizon = KINDS[kind]
        random = np.random.default_rng(0)
        series = 50 + 10 * np.sin(2 * np.pi * np.arange(length) / max(period, 2)) + random.normal(size=length)
        times = []
        for _ in range(3):
            start = time.process_time()
            CoRNNForecaster(horizon=horizon).fit(series[None])
            times.append(time.process_time() - start)
        rows.append({"kind": kind, "period": period, "horizon": horizon, "seconds": _round(np.median(times))})
    return rows


def _round(value: float) -> float:
    return float(f"{float(value):.5g}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("results/forecast.json"))
    parser.add_argument("--seeds", type=int, default=len(SEEDS), help="Generated series per kind.")
    parser.add_argument("--jobs", type=int, default=2, help="Series that are measured side by side.")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    cases = [generate(kind, seed) for seed in list(SEEDS)[: arguments.seeds] for kind in KINDS] + load_public()
    about = {"fits_of_500_points": measure_speed(), **source(), "machine": machine()}
    rows, start = [], time.perf_counter()
    # The long series first, so that no process ends with one alone; the rows keep the order of the cases.
    order = sorted(range(len(cases)), key=lambda number: -len(cases[number].values))
    with ProcessPoolExecutor(arguments.jobs) as executor:
        running = {executor.submit(measure, cases[number]): number for number in order}
        for future in as_completed(running):
            rows.append((running[future], future.result()))
            print(f"{len(rows)} of {len(cases)}: {rows[-1][1]['name']}", flush=True)
    about |= {"seconds": round(time.perf_counter() - start), "jobs": arguments.jobs}
    text = json.dumps(
        {**about, "series": [row for _, row in sorted(rows, key=lambda pair: pair[0])]}, separators=(",", ":")
    )
    arguments.out.write_text(text.replace('{"name"', '\n{"name"') + "\n")


if __name__ == "__main__":
    main()
