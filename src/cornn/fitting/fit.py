"""From a file to a fitted estimator, and what it reached on a part that was kept apart."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from cornn._random import generator
from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.estimators.classifier import stratified
from cornn.estimators.sequences import Series
from cornn.fitting.evaluate import Fitted, Outcome, judge
from cornn.fitting.readers import Dataset

__all__ = ["TASKS", "Finished", "Parts", "fit", "split", "task_of"]

TASKS = {"classify": CoRNNClassifier, "regress": CoRNNRegressor, "forecast": CoRNNForecaster}


@dataclass(frozen=True, eq=False)
class Parts:
    """training: what the estimator is given. test: what it is judged on, None: nothing. cuts: of forecasts, the step
    of each test sequence from which on its values were kept apart."""

    training: Dataset
    test: Dataset | None
    cuts: list[int] | None = None
    why: str = ""  # there is no test part, where one was asked for


@dataclass(frozen=True, eq=False)
class Finished:
    task: str
    estimator: Fitted
    parts: Parts
    outcome: Outcome | None
    seconds: float


def task_of(asked: str | None, data: Dataset) -> str:
    """What is to be learned: as asked for, or by the target."""
    if asked is None:
        return data.kind()
    if asked not in TASKS:
        raise ValueError(f"unknown task {asked!r}: choose one of {', '.join(TASKS)}")
    return asked


def split(data: Dataset, task: str, test: Dataset | None, share: float, seed: int) -> Parts:
    """test: a test part that came in a file of its own. share: else, of the sequences, or of a forecast's steps."""
    if not 0 <= share < 1:
        raise ValueError(f"the share of the test part must be 0 or more and below 1, got {share}")
    if test is not None:
        _check_alike(data, test)
        return Parts(data, test)
    if task == "forecast":
        return _cut(data, share)
    count = round(share * len(data))
    if not count:
        return Parts(data, None, why="too few for a test part" if share else "")
    random = generator(seed, "test part")
    if task == "classify":
        _, target = np.unique(data.labels(), return_inverse=True)
        apart = stratified(target, count, random)
    else:
        apart = torch.randperm(len(data), generator=random)[:count]
    chosen = set(apart.tolist())
    if not chosen:
        return Parts(data, None, why="the classes have too few each for a test part")
    return Parts(data.part([row for row in range(len(data)) if row not in chosen]), data.part(sorted(chosen)))


def _check_alike(data: Dataset, test: Dataset) -> None:
    if len(test.features) != len(data.features):
        raise ValueError(f"{test.source} has {len(test.features)} features, {data.source} has {len(data.features)}")


def _cut(data: Dataset, share: float) -> Parts:
    """The last share of every sequence's steps is kept apart."""
    lengths = [len(series.values) for series in data.sequences]
    cuts = [length - math.floor(share * length) for length in lengths]
    if cuts == lengths:
        return Parts(data, None, why="too few steps for a test part" if share else "")
    pairs = zip(data.sequences, cuts, strict=True)
    shorter = [Series(own.values[:cut], None if own.times is None else own.times[:cut]) for own, cut in pairs]
    return Parts(replace(data, sequences=shorter), data, cuts)


def fit(
    task: str,
    parts: Parts,
    settings: Mapping[str, Any],
    watch: Callable[[dict[str, float]], None] | None = None,
) -> Finished:
    """settings: of the estimator. watch: called with the losses after every epoch."""
    estimator: Any = TASKS[task](**settings)
    estimator.watch = watch
    training = parts.training
    begun = time.perf_counter()
    if task == "classify":
        _check_classes(training)
        estimator.fit(training.sequences, training.labels())
    elif task == "regress":
        estimator.fit(training.sequences, training.numbers())
    else:
        estimator.fit(training.sequences)
    seconds = time.perf_counter() - begun
    outcome = None if parts.test is None else judge(estimator, training, parts.test, parts.cuts)
    return Finished(task, estimator, parts, outcome, seconds)


def _check_classes(data: Dataset) -> None:
    labels = data.labels()
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"{data.source}: all {len(labels)} sequences, from {data.places[0]} to {data.places[-1]}, are of one "
            f"class, {labels[0]}: give sequences of at least two"
        )
