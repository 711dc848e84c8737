"""Forecasts of one variable: a pool of simple forecasters with intervals, behind `cornn.estimators.CoRNNForecaster`."""

from cornn.forecasting.members import FAMILIES, Member
from cornn.forecasting.model import Forecasts, Model, fit_model
from cornn.forecasting.pool import Backtest
from cornn.forecasting.seasons import detect_periods
from cornn.forecasting.series import History

__all__ = ["FAMILIES", "Backtest", "Forecasts", "History", "Member", "Model", "detect_periods", "fit_model"]
