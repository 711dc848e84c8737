"""Fit a model to a file of sequences, evaluate it, report on it, and predict: the library behind `cornn fit`."""

from cornn.fitting.evaluate import ClassScore, Evaluation, Predictions, evaluate, predict
from cornn.fitting.files import FitOptions, FitPlan, attribute_file, fit_file, plan_fit, predict_file
from cornn.fitting.fit import TASKS, FitResult, Splits, choose_task, fit, split
from cornn.fitting.folder import format_csv, load_fitted, write_text
from cornn.fitting.summary import summarize

__all__ = [
    "TASKS",
    "ClassScore",
    "Evaluation",
    "FitOptions",
    "FitPlan",
    "FitResult",
    "Predictions",
    "Splits",
    "attribute_file",
    "choose_task",
    "evaluate",
    "fit",
    "fit_file",
    "format_csv",
    "load_fitted",
    "plan_fit",
    "predict",
    "predict_file",
    "split",
    "summarize",
    "write_text",
]
