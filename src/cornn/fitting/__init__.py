"""From a file to a model and a report, and from a model to predictions: what `cornn fit` and `cornn predict` do."""

from cornn.fitting.artifact import as_csv, check_free, open_folder, result, write, write_text
from cornn.fitting.evaluate import Answers, Outcome, answers, judge
from cornn.fitting.fit import TASKS, Finished, Parts, fit, split, task_of
from cornn.fitting.summary import summary

__all__ = [
    "TASKS",
    "Answers",
    "Finished",
    "Outcome",
    "Parts",
    "answers",
    "as_csv",
    "check_free",
    "fit",
    "judge",
    "open_folder",
    "result",
    "split",
    "summary",
    "task_of",
    "write",
    "write_text",
]
