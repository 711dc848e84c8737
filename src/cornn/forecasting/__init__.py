"""Forecasts of one variable: a pool of simple forecasters with intervals, behind `cornn.estimators.CoRNNForecaster`."""

from cornn.forecasting.model import Forecasts, Model, fit_model
from cornn.forecasting.pool import FAMILIES, RULES, Backtest, Member
from cornn.forecasting.seasons import detect_periods
from cornn.forecasting.series import History

__all__ = ["FAMILIES", "RULES", "Backtest", "Forecasts", "History", "Member", "Model", "detect_periods", "fit_model"]
