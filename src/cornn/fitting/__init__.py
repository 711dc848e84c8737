"""From a file to a model and a report, and from a model to predictions: what `cornn fit` and `cornn predict` do."""

from cornn.fitting.folder import as_csv, check_free, open_folder, result, write, write_text
from cornn.fitting.outcome import Answers, Outcome, answers, judge
from cornn.fitting.plan import TASKS, Finished, Parts, fit, split, task_of
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
