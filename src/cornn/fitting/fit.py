"""Split a data set, fit an estimator to it, and evaluate it on the test split."""

import math
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cornn._arguments import Argument, ArgumentError, choose
from cornn._counts import format_count
from cornn._machine import resolve_device
from cornn._random import generator
from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.estimators.classifier import draw_stratified
from cornn.fitting.evaluate import AnyEstimator, Evaluation, evaluate
from cornn.fitting.readers import Dataset
from cornn.forecasting.series import count_known

__all__ = ["TASKS", "FitResult", "Splits", "check_settings", "choose_task", "find_tasks", "fit", "split"]

TASKS = {"classify": CoRNNClassifier, "regress": CoRNNRegressor, "forecast": CoRNNForecaster}
RESULTS = {"classify": "classes", "regress": "numbers", "forecast": "forecasts"}
"""Task -> what its estimator predicts."""


@dataclass(frozen=True, eq=False)
class Splits:
    """The training and test splits of a data set."""

    training: Dataset
    test: Dataset | None  # None: no test split
    cuts: list[int] | None = None  # forecasts: first test step of each sequence
    why: str = ""  # why there is no test split although one was requested


@dataclass(frozen=True, eq=False)
class FitResult:
    """A fitted estimator with its splits and its test result; the fields from `facts` on are set by `fit_file`."""

    task: str
    estimator: AnyEstimator
    splits: Splits
    evaluation: Evaluation | None  # None: no test split
    seconds: float  # of training
    interrupted: bool = False  # by Ctrl-C: the best model so far was kept
    facts: tuple[tuple[str, str], ...] = ()  # summary of the data: (name, value)
    result: dict[str, Any] = field(default_factory=dict)  # content of result.json
    folder: Path | None = None  # where it was written
    notes: tuple[str, ...] = ()  # problems and assumptions, in sentences


def choose_task(task: str | None, data: Dataset) -> str:
    """Return the given task, or infer it from the target if it is None.

    Args:
        task: "classify", "regress", "forecast" or None.
        data: The data set.

    Returns:
        "classify", "regress" or "forecast".
    """
    return data.infer_task() if task is None else choose("task", task, TASKS)


def split(
    data: Dataset, task: str, test: Dataset | None, share: float, seed: int, targets: Sequence[int] | None = None
) -> Splits:
    """Split a data set into training and test data.

    Args:
        data: The data set.
        task: "classify", "regress" or "forecast".
        test: Test data from a file of their own, or None.
        share: If `test` is None, the share of the sequences, or for forecasts of the last steps, in the test split.
        seed: Seed of the random split.
        targets: Features that are forecast. Default: all.

    Returns:
        The splits. Classes are split in proportion.
    """
    if not 0 <= share < 1:
        raise ValueError(f"the test share must be at least 0 and below 1, got {share}")
    if test is not None:
        if len(test.features) != len(data.features):
            raise ValueError(
                f"{test.source} has {len(test.features)} features, but {data.source} has {len(data.features)}"
            )
        return Splits(data, test)
    if task == "forecast":
        return _split_off_steps(data, share, targets)
    count = round(share * len(data))
    if not count:
        return Splits(data, None, why="no test split: too few sequences" if share else "")
    random = generator(seed, "test part")  # the name of the stream fixes the split
    if data.groups is not None:
        return _split_groups(data, data.groups, count, random)
    if task == "classify":
        _, target = np.unique(data.labels(), return_inverse=True)
        held_out = draw_stratified(target, count, random)
    else:
        held_out = torch.randperm(len(data), generator=random)[:count]
    chosen = set(held_out.tolist())
    if not chosen:
        return Splits(data, None, why="no test split: too few sequences per class")
    return Splits(data.select([row for row in range(len(data)) if row not in chosen]), data.select(sorted(chosen)))


def _split_groups(data: Dataset, groups: list, count: int, random: torch.Generator) -> Splits:
    """Split off whole groups, drawn at random, with about `count` sequences in all."""
    names = list(dict.fromkeys(groups))
    if len(names) < 3:
        problem = (
            f"{data.source} has {format_count(len(names), 'group')}, but needs two for training and one for the test: "
        )
        raise ArgumentError(problem, "provide at least three, or omit ", Argument("group"))
    chosen: set[Any] = set()
    for number in torch.randperm(len(names), generator=random).tolist()[:-2]:  # two are left for training
        rows = sum(group in chosen for group in groups)
        if chosen and abs(rows + groups.count(names[number]) - count) > abs(rows - count):
            break
        chosen.add(names[number])
    rest = [row for row, group in enumerate(groups) if group not in chosen]
    return Splits(data.select(rest), data.select([row for row, group in enumerate(groups) if group in chosen]))


def _split_off_steps(data: Dataset, share: float, targets: Sequence[int] | None) -> Splits:
    """Split off the last share of the steps of every sequence; rows at its end without targets are not counted."""
    columns = slice(None) if targets is None else targets
    lengths = [count_known(series.values[:, columns]) or len(series.values) for series in data.sequences]
    cuts = [length - math.floor(share * length) for length in lengths]
    if cuts == lengths:
        return Splits(data, None, why="no test split: too few steps" if share else "")
    pairs = zip(data.sequences, cuts, strict=True)
    shorter = [whole.take(cut) for whole, cut in pairs]
    return Splits(replace(data, sequences=shorter), data, cuts)


def check_settings(task: str, settings: Mapping[str, Any]) -> None:
    """Check before training that the estimator has the settings, that they are valid, and that the device exists.

    Args:
        task: "classify", "regress" or "forecast".
        settings: Settings of the estimator.
    """
    for name in settings:
        tasks = find_tasks(name)
        if not tasks:
            choose(f"setting of {TASKS[task].__name__}", name, _list_settings(task))
        if task not in tasks:
            predicted = " and ".join(RESULTS[other] for other in tasks)
            remedy = (", or use ", Argument("task", tasks[0])) if len(tasks) == 1 else ()
            problem = f" is only for {predicted}, but the task is to {task}: omit it"
            raise ArgumentError(Argument(name), problem, *remedy)
    resolve_device(str(settings.get("device", "auto")))
    TASKS[task](**settings).check()


def find_tasks(setting: str) -> list[str]:
    """Return the tasks whose estimators have a setting."""
    return [task for task in TASKS if setting in _list_settings(task)]


@cache
def _list_settings(task: str) -> tuple[str, ...]:
    return tuple(TASKS[task]().get_params(deep=False))


def fit(
    task: str,
    splits: Splits,
    settings: Mapping[str, Any],
    watch: Callable[[dict[str, float]], None] | None = None,
) -> FitResult:
    """Fit an estimator to the training split and evaluate it on the test split.

    Args:
        task: "classify", "regress" or "forecast".
        splits: The splits, from `split`.
        settings: Settings of the estimator.
        watch: Function that is called with the losses after every epoch.

    Returns:
        The fitted estimator and its test result.

    Examples:
        >>> data = read(Path("waves.csv"), Layout(target=("kind",)))
        >>> result = fit("classify", split(data, "classify", None, 0.2, seed=0), {"random_state": 0})
        >>> result.evaluation.test
    """
    estimator: Any = TASKS[task](**settings)
    interruption = Interruption(estimator, watch)
    training = splits.training
    start = time.perf_counter()
    with interruption:
        if task == "classify":
            labels = training.labels()
            if len(np.unique(labels)) < 2:
                raise ValueError(
                    f"{training.source}: all {len(labels)} sequences, from {training.places[0]} to "
                    f"{training.places[-1]}, are of one class, {labels[0]}: provide sequences of at least two"
                )
            estimator.fit(training.sequences, labels, groups=training.groups)
        elif task == "regress":
            estimator.fit(training.sequences, training.numbers(), groups=training.groups)
        else:
            estimator.fit(training.sequences)
    seconds = time.perf_counter() - start
    evaluation = None if splits.test is None else evaluate(estimator, training, splits.test, splits.cuts)
    return FitResult(task, estimator, splits, evaluation, seconds, interruption.requested)


class Interruption:
    """Let Ctrl-C end the training of a network after the current epoch, so that the best model so far is kept.

    Before the first epoch has ended there is nothing to keep, and Ctrl-C stops at once; so does a second one.
    """

    def __init__(self, estimator: Any, watch: Callable[[dict[str, float]], None] | None) -> None:
        self.requested = False
        self._estimator, self._watch, self._epochs, self._before = estimator, watch, 0, None

    def _end_epoch(self, row: dict[str, float]) -> bool:
        """Pass the losses on, and return whether to end the training."""
        self._epochs += 1
        if self._watch is not None:
            self._watch(row)
        return self.requested

    def __enter__(self) -> None:
        self._estimator.watch = self._end_epoch
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(self, *_: object) -> None:
        del self._estimator.watch  # so that it can be pickled
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    def _interrupt(self, *_: object) -> None:
        if self.requested or not self._epochs:
            raise KeyboardInterrupt
        self.requested = True
