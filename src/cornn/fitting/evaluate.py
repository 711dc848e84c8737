"""What a fitted estimator reaches on sequences that it was not fitted on, beside an answer that needs no network."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.estimators.preparation import filled
from cornn.fitting.readers import Dataset

__all__ = ["Answers", "Outcome", "answers", "judge"]

Fitted = CoRNNClassifier | CoRNNRegressor | CoRNNForecaster


@dataclass(frozen=True)
class Outcome:
    metric: str
    better: str  # higher or lower
    test: float
    trivial: float
    trivial_words: str
    count: int  # what it was measured on: sequences, or forecasts
    more: dict[str, float] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # a row for each true class, a column for each that was answered
    pairs: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...] = ()  # name, truth, prediction
    ahead: tuple[tuple[float, float], ...] = ()  # of forecasts, for each step ahead: the error, and that of no change


@dataclass(frozen=True)
class Answers:
    """Predictions as a table."""

    header: tuple[str, ...]
    rows: list[tuple]


def answers(estimator: Fitted, data: Dataset, truth: bool = False) -> Answers:
    """One row a sequence; of forecasts, one row a step ahead.

    truth: whether to put the targets that the data have beside the predictions.
    """
    if isinstance(estimator, CoRNNForecaster):
        names = [data.features[number] for number in estimator.targets_]
        found = estimator.predict(data.sequences)
        rows = [
            (own, step + 1, *values.tolist())
            for own, forecast in zip(data.ids, found, strict=True)
            for step, values in enumerate(forecast)
        ]
        return Answers((data.id_name, "step", *names), rows)
    header, columns = [data.id_name], [data.ids]
    if truth and data.target is not None:
        header += _numbered("target", len(data.target[0]))
        columns += [list(column) for column in zip(*data.target, strict=True)]
    if isinstance(estimator, CoRNNClassifier):
        chances = estimator.predict_proba(data.sequences)
        header += ["prediction", *(f"chance of {name}" for name in estimator.classes_)]
        columns += [estimator.classes_[chances.argmax(1)].tolist(), *chances.T.round(6).tolist()]
    else:
        found = estimator.predict(data.sequences).reshape(len(data), -1)
        header += _numbered("prediction", found.shape[1])
        columns += found.T.tolist()
    return Answers(tuple(header), list(zip(*columns, strict=True)))


def _numbered(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name} {number + 1}" for number in range(count)]


def judge(estimator: Fitted, training: Dataset, test: Dataset, cuts: list[int] | None) -> Outcome:
    """cuts: of forecasts, the step of each sequence from which on values count that were not learned from."""
    if isinstance(estimator, CoRNNClassifier):
        return _classes(estimator, training, test)
    if isinstance(estimator, CoRNNRegressor):
        return _numbers(estimator, training, test)
    return _forecasts(estimator, test, cuts or [0] * len(test))


def _classes(estimator: CoRNNClassifier, training: Dataset, test: Dataset) -> Outcome:
    truth, found = test.labels(), estimator.predict(test.sequences)
    known = [*estimator.classes_.tolist(), *sorted(set(truth.tolist()) - set(estimator.classes_.tolist()), key=str)]
    number = {name: index for index, name in enumerate(known)}
    confusion = np.zeros((len(known), len(known)), int)
    np.add.at(confusion, ([number[name] for name in truth.tolist()], [number[name] for name in found.tolist()]), 1)
    names, counts = np.unique(training.labels(), return_counts=True)
    usual = names[counts.argmax()].item()
    present = confusion.sum(1) > 0
    recalls = confusion.diagonal()[present] / confusion.sum(1)[present]
    return Outcome(
        "accuracy",
        "higher",
        float((truth == found).mean()),
        float((truth == usual).mean()),
        f"of always answering {usual}",
        len(test),
        {"balanced accuracy": float(recalls.mean())},
        tuple(str(name) for name in known),
        tuple(tuple(int(count) for count in row) for row in confusion),
    )


def _numbers(estimator: CoRNNRegressor, training: Dataset, test: Dataset) -> Outcome:
    truth = test.numbers().reshape(len(test), -1)
    found = estimator.predict(test.sequences).reshape(len(test), -1)
    usual = training.numbers().reshape(len(training), -1).mean(0)
    error, trivial = _rms((truth - found) / estimator.target_scale_), _rms((truth - usual) / estimator.target_scale_)
    names = training.layout.target or _numbered("target", truth.shape[1])
    more: dict[str, float] = {}
    for name, own, answer in zip(names, truth.T, found.T, strict=False):
        more[f"{name}: mean absolute error"] = float(np.abs(own - answer).mean())
        more[f"{name}: root mean square error"] = _rms(own - answer)
        if own.std() > 0:
            more[f"{name}: R²"] = float(1 - ((own - answer) ** 2).sum() / ((own - own.mean()) ** 2).sum())
    return Outcome(
        "error in deviations of the target",
        "lower",
        error,
        trivial,
        "of always answering the mean",
        len(test),
        more,
        pairs=tuple((name, *_points(own, answer)) for name, own, answer in zip(names, truth.T, found.T, strict=False)),
    )


def _forecasts(estimator: CoRNNForecaster, test: Dataset, cuts: list[int]) -> Outcome:
    chosen, scale = estimator.targets_, estimator.preparation_.scale[estimator.targets_]
    errors: list[list[NDArray]] = [[] for _ in range(estimator.horizon)]
    idle: list[list[NDArray]] = [[] for _ in range(estimator.horizon)]
    first: list[tuple[NDArray, NDArray]] = []
    for series, found, cut in zip(test.sequences, estimator.forecasts(test.sequences), cuts, strict=True):
        truth = series.values[:, chosen]
        last = filled(series.values, estimator.preparation_.mean)[:, chosen]
        for ahead in range(1, estimator.horizon + 1):
            # The forecast of step t is made at step t - ahead; t is at or behind the cut.
            own = np.arange(max(cut, ahead), len(truth))
            errors[ahead - 1].append((truth[own] - found[own - ahead, ahead - 1]) / scale)
            idle[ahead - 1].append((truth[own] - last[own - ahead]) / scale)
            if ahead == 1:
                first.append((truth[own], found[own - 1, 0]))
    ours = [np.concatenate(part) for part in errors]
    theirs = [np.concatenate(part) for part in idle]
    count = int(sum((~np.isnan(part)).sum() for part in ours))
    if not count:
        raise ValueError("no values are left to test the forecasts on: give longer sequences, or a larger --test-share")
    truth, answer = (np.concatenate(part) for part in zip(*first, strict=True))
    points = [(test.features[own], *_points(truth[:, column], answer[:, column])) for column, own in enumerate(chosen)]
    pairs = tuple(pair for pair in points if pair[1])  # of some columns no value may be known there
    return Outcome(
        "error in deviations of the values",
        "lower",
        _rms(np.concatenate(ours)),
        _rms(np.concatenate(theirs)),
        "of forecasting no change",
        count,
        {f"{name}: mean absolute error, one step ahead": float(np.abs(np.subtract(own, found)).mean())
         for name, own, found in pairs},
        pairs=pairs,
        ahead=tuple((_rms(own), _rms(idle)) for own, idle in zip(ours, theirs, strict=True) if (own == own).any()),
    )  # fmt: skip


def _rms(values: Any) -> float:
    """Of what is known."""
    known = values[~np.isnan(values)]
    return float(np.sqrt((known**2).mean())) if known.size else float("nan")


def _points(truth: NDArray, found: NDArray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    known = ~np.isnan(truth)
    return tuple(truth[known].tolist()), tuple(found[known].tolist())
