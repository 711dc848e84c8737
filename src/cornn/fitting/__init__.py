"""Fit a model to a file of sequences, evaluate it, report on it, and predict: the library behind `cornn fit`."""

from cornn.fitting.artifact import build_result, check_output_folder, format_csv, load_folder, write_folder, write_text
from cornn.fitting.evaluate import Evaluation, Predictions, evaluate, predict
from cornn.fitting.fit import TASKS, FitResult, Splits, check_settings, choose_task, fit, split
from cornn.fitting.summary import summarize

__all__ = [
    "TASKS",
    "Evaluation",
    "FitResult",
    "Predictions",
    "Splits",
    "build_result",
    "check_output_folder",
    "check_settings",
    "choose_task",
    "evaluate",
    "fit",
    "format_csv",
    "load_folder",
    "predict",
    "split",
    "summarize",
    "write_folder",
    "write_text",
]
