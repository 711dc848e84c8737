"""Rivals for benchmarks/forecast.py: ETS of statsmodels, chosen by AICc, and ridge regression on lags."""

import warnings

import numpy as np
from numpy.typing import NDArray

__all__ = ["forecast_ets", "forecast_ridge"]

LARGEST_ETS_SEASON = 12  # above this, the season is removed by STL first, which takes seconds instead of minutes


def forecast_ets(values: NDArray[np.float64], period: int, horizon: int) -> NDArray[np.float64]:
    """Forecast with exponential smoothing: error, trend and season of the smallest AICc."""
    from statsmodels.tsa.exponential_smoothing.ets import ETSModel
    from statsmodels.tsa.seasonal import STL

    season = period if period > 1 and len(values) >= 2 * period + 2 else 1
    if season > LARGEST_ETS_SEASON:
        removed = STL(values, period=season).fit().seasonal
        later = removed[-season:][np.arange(horizon) % season]
        return forecast_ets(values - removed, 1, horizon) + later
    positive = values.min() > 0
    best, chosen = np.inf, np.full(horizon, values[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for error in ("add", "mul") if positive else ("add",):
            for trend, damped in ((None, False), ("add", False), ("add", True)):
                for seasonal in (
                    (None, "add", "mul") if season > 1 and positive else (None, "add") if season > 1 else (None,)
                ):
                    if error == "add" and seasonal == "mul":
                        continue
                    try:
                        model = ETSModel(
                            values, error=error, trend=trend, damped_trend=damped, seasonal=seasonal,
                            seasonal_periods=season if seasonal else None,
                        ).fit(disp=False, maxiter=200)  # fmt: skip
                        forecast = np.asarray(model.forecast(horizon))
                    except (ValueError, np.linalg.LinAlgError, ZeroDivisionError, FloatingPointError):
                        continue
                    criterion = model.aicc if np.isfinite(model.aicc) else model.aic
                    if np.isfinite(forecast).all() and criterion < best:
                        best, chosen = criterion, forecast
    return chosen


def forecast_ridge(values: NDArray[np.float64], period: int, horizon: int) -> NDArray[np.float64]:
    """Forecast with ridge regression on lags, one output per step ahead; the penalty by leave-one-out."""
    from sklearn.linear_model import RidgeCV

    lags = max(min(max(2 * period, 10), (len(values) - horizon) // 2), 1)
    if len(values) < lags + horizon + 2:
        return np.full(horizon, values[-1])
    rows = np.lib.stride_tricks.sliding_window_view(values, lags + horizon)
    last = rows[:, lags - 1 : lags]
    model = RidgeCV(np.logspace(-4, 4, 17)).fit((rows[:, :lags] - last) / values.std(), rows[:, lags:] - last)
    return values[-1] + model.predict((values[None, -lags:] - values[-1]) / values.std())[0]
