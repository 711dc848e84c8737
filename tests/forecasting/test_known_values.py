"""Forecasts, intervals, weights and scores of a few series, compared with those that were stored.

A change of a constant or of a formula shows here, even where forecasts stay about as good. If it is meant, run
`python tests/forecasting/test_known_values.py`, which writes the file, and look at the difference.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from cornn.estimators import CoRNNForecaster

STORED = Path(__file__).parents[1] / "fixtures" / "forecasts.json"
ROUNDING = {"rtol": 1e-6, "atol": 1e-9}


def seasonal(random, length, period, *, trend=0.01, noise=0.05):
    time = np.arange(length)
    wave = np.sin(2 * np.pi * time / period) + 0.4 * np.cos(4 * np.pi * time / period)
    return np.exp(trend * time + 0.3 * wave + noise * random.normal(size=length))


def make_cases() -> dict[str, tuple[dict, np.ndarray]]:
    """Name -> options of the forecaster, series (steps, features)."""
    random = np.random.default_rng(7)
    walk = np.cumsum(random.normal(size=90))
    sales = 20 + np.cumsum(0.1 * random.normal(size=70))
    price = random.normal(size=70).round(1)
    gaps = 5 + seasonal(random, 60, 4)
    gaps[[7, 8, 30]] = np.nan
    return {
        "months": ({"horizon": 6}, seasonal(random, 100, 12)[:, None]),
        "hours": ({"horizon": 3, "period": 24}, seasonal(random, 600, 24, trend=0.0)[:, None]),
        "walk": ({"horizon": 4}, walk[:, None]),
        "line": ({"horizon": 3}, (0.3 * np.arange(40) + 0.1 * random.normal(size=40))[:, None]),
        "few": ({"horizon": 2}, random.normal(size=9)[:, None]),
        "gaps": ({"horizon": 4, "period": 4}, gaps[:, None]),
        "covariate": ({"horizon": 2, "targets": [0]}, np.stack([sales + np.roll(price, 1), price], 1)),
        "calm, then wild": ({"horizon": 2}, (np.repeat([0.01, 4.0], 35) * np.cumsum(random.normal(size=70)))[:, None]),
        "known": ({"horizon": 2, "targets": [0], "known_future": [1]}, np.stack([sales + 2 * price, price], 1)),
    }


CASES = make_cases()


def compute(name: str) -> dict:
    options, series = CASES[name]
    horizon, known = options["horizon"], len(series) - options["horizon"]
    fitted = CoRNNForecaster(**options).fit(series[None, :known])
    model = fitted.models_[0]
    future = {"future": series[None, known:, 1:]} if "known_future" in options else {}
    found = {
        "forecast": fitted.predict(series[None, :known], **future).ravel().tolist(),
        "quantiles": fitted.predict_quantiles(series[None, :known], (0.05, 0.3, 0.9), **future).ravel().tolist(),
        "independent": model.errors.independent,
        "weights": sorted(model.pool.weights.values()),
        "periods": list(model.pool.periods),
    }
    if known > 40:
        table = fitted.evaluate(series[None, : known - 20], series[None], [known - 20])[0]
        rows = {"model": table.model, **table.baselines}
        found["scores"] = [value for row in rows.values() for value in (row.mae, row.rmse, row.mase, row.pinball)]
        found["coverage"] = [*table.coverage, table.pooled_coverage]
    assert len(found["forecast"]) == horizon
    return found


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_that_were_stored(name):
    found, stored = compute(name), json.loads(STORED.read_text(encoding="utf8"))[name]
    assert [*found] == [*stored]
    for key, value in found.items():
        np.testing.assert_allclose(value, stored[key], **ROUNDING, err_msg=key)


if __name__ == "__main__":
    STORED.write_text(json.dumps({name: compute(name) for name in CASES}, indent=1) + "\n", encoding="utf8")
