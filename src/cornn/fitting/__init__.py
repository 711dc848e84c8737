"""Fit a model to a file of sequences, evaluate it, report on it, and predict: the library behind `cornn fit`."""

from cornn.fitting.evaluate import ClassScore, Evaluation, Predictions, evaluate, predict
from cornn.fitting.files import FitOptions, FitPlan, attribute_file, fit_file, plan_fit, predict_file
from cornn.fitting.fit import FitResult, Splits, fit, split

__all__ = [
    "ClassScore",
    "Evaluation",
    "FitOptions",
    "FitPlan",
    "FitResult",
    "Predictions",
    "Splits",
    "attribute_file",
    "evaluate",
    "fit",
    "fit_file",
    "plan_fit",
    "predict",
    "predict_file",
    "split",
]
