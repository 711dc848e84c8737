"""Evaluate a fitted estimator on test data, compared with a trivial baseline."""

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from cornn._arguments import Argument, ArgumentError
from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.estimators.preparation import mean_and_scale
from cornn.estimators.series import ValidSeries
from cornn.fitting.baselines import STATISTICS, predict_with_ridge
from cornn.fitting.readers import Dataset
from cornn.forecasting.scores import BASELINES, TRIVIAL
from cornn.forecasting.series import count_known

__all__ = ["AnyEstimator", "ClassScore", "Evaluation", "Predictions", "attribute", "evaluate", "predict"]

INTERVAL = 0.9  # level of the intervals of forecasts
DIGITS = 9  # significant digits of predicted numbers: as many as float32 has
TIME_DIGITS = 12  # significant digits of times that are sums

AnyEstimator = CoRNNClassifier | CoRNNRegressor | CoRNNForecaster


@dataclass(frozen=True)
class ClassScore:
    """How well one class is recognised."""

    name: str
    precision: float | None  # share of the predictions of this class that are right; None: it is never predicted
    recall: float | None  # share of its sequences that are recognised; None: the test split has none
    count: int  # test sequences of this class


@dataclass(frozen=True)
class Evaluation:
    """The test result of an estimator. result.json has the same names."""

    metric: str
    better: str  # "higher" or "lower"
    test: float  # value of the metric
    trivial: float  # value of the baseline
    trivial_words: str  # description of the baseline
    count: int  # number of test sequences, or of forecast values
    more: dict[str, float] = field(default_factory=dict)  # further metrics
    classes: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] = ()  # one row per true class, one column per predicted class
    pairs: tuple[tuple[str, tuple[float, ...], tuple[float, ...]], ...] = ()  # name, true values, predictions
    ahead: tuple[tuple[float, float], ...] = ()  # forecasts: error and baseline error for each step ahead
    baselines: dict[str, float] = field(default_factory=dict)  # name -> value of the metric, the trivial one first
    interval: tuple[float, float] | None = None  # accuracy: 95 % confidence interval
    table: dict[str, dict[str, float | None]] = field(default_factory=dict)  # forecasts: method -> score -> value
    offer: str = ""  # advice if the model is not better than a trivial answer
    is_rule: bool = False  # the model is a trivial rule, by choice

    def format(self, value: float | None) -> str:
        """Format a value of the metric; a share in percent."""
        return "-" if value is None else f"{100 * value:.1f} %" if self.classes else f"{value:.4g}"

    @property
    def beats_trivial(self) -> bool:
        """Whether the model is better than the trivial answer, or is a trivial rule by choice."""
        return self.is_rule or (self.test > self.trivial if self.better == "higher" else self.test < self.trivial)

    @property
    def verdict(self) -> str | None:
        """A warning if something simpler is at least as good; None if the model is better than all baselines."""
        if not self.beats_trivial:
            return (
                f"Do not use this model: it is not better than a trivial answer ({self.metric} "
                f"{self.format(self.test)}, compared with {self.format(self.trivial)} {self.trivial_words})."
                f"{self.offer and ' '}{self.offer}"
            )
        better = [
            name
            for name, value in self.baselines.items()
            if (value >= self.test if self.better == "higher" else value <= self.test)
        ]
        if better and self.is_rule:
            best = min(self.baselines, key=lambda name: self.baselines[name])
            return f"{best} is better on this test split." if self.baselines[best] < self.test else None
        if better:
            return f"Something simpler is at least as good on this test split: {better[0]}."
        return None

    def class_scores(self) -> list[ClassScore]:
        """Return precision and recall of each class."""
        table = np.array(self.confusion).reshape(len(self.classes), len(self.classes))
        predicted, present, right = table.sum(0), table.sum(1), table.diagonal()
        return [
            ClassScore(
                name,
                float(right[k] / predicted[k]) if predicted[k] else None,
                float(right[k] / present[k]) if present[k] else None,
                int(present[k]),
            )
            for k, name in enumerate(self.classes)
        ]


@dataclass(frozen=True)
class Predictions:
    """A table of predictions."""

    header: tuple[str, ...]
    rows: list[tuple]


def predict(estimator: AnyEstimator, data: Dataset, truth: bool = False, level: float | None = None) -> Predictions:
    """Predict all sequences of a data set.

    Args:
        estimator: A fitted estimator.
        data: The sequences.
        truth: Whether to add the columns of the true targets, if the data have them.
        level: Level of the intervals of forecasts. Default: 0.9 if the forecaster has intervals.

    Returns:
        One row per sequence; for forecasts, one row per step ahead.
    """
    if isinstance(estimator, CoRNNForecaster):
        return _predict_forecasts(estimator, data, level)
    if level is not None:
        raise ArgumentError(Argument("level"), " is only for the intervals of forecasts: omit it")
    header, columns = [data.id_name], [data.ids]
    if truth and data.target is not None:
        header += _number_names("target", len(data.target[0]))
        columns += [list(column) for column in zip(*data.target, strict=True)]
    if isinstance(estimator, CoRNNClassifier):
        chances = estimator.predict_proba(data.sequences)
        header += ["prediction", *(f"chance of {name}" for name in estimator.classes_)]
        columns += [estimator.classes_[chances.argmax(1)].tolist(), *chances.T.round(6).tolist()]
    else:
        predictions = estimator.predict(data.sequences).reshape(len(data), -1)
        header += _number_names("prediction", predictions.shape[1])
        columns += [list(map(_shorten, values)) for values in predictions.T]
    return Predictions(tuple(header), list(zip(*columns, strict=True)))


def attribute(estimator: AnyEstimator, data: Dataset) -> Predictions:
    """Attribute the predictions for a data set to its values; with several targets, the predictions of the first.

    Args:
        estimator: A fitted classifier or regressor.
        data: The sequences.

    Returns:
        One row per step of a sequence.
    """
    if isinstance(estimator, CoRNNForecaster):
        raise ValueError("forecasts have no attributions: they are for classifiers and regressors")
    several = isinstance(estimator, CoRNNRegressor) and not estimator.single_
    attributions = estimator.attributions(data.sequences, **({"target": 0} if several else {}))
    rows = [
        (name, step, *contributions[step].tolist())
        for name, series, contributions in zip(data.ids, data.sequences, attributions, strict=True)
        for step in range(len(series.values))
    ]
    return Predictions((data.id_name, "step", *data.features), rows)


def _predict_forecasts(estimator: CoRNNForecaster, data: Dataset, level: float | None) -> Predictions:
    header, columns = [], []
    data = replace(data, sequences=[_cut_after_known(estimator, series) for series in data.sequences])
    predictions = estimator.predict(data.sequences)
    with_intervals = level is not None or estimator.method_ == "pool"
    ends = estimator.predict_interval(data.sequences, INTERVAL if level is None else level) if with_intervals else ()
    for column, number in enumerate(estimator.targets_):
        header += [data.features[number], *(f"{data.features[number]} {end}" for end in ("low", "high")[: len(ends)])]
        columns += [values[:, :, column] for values in (predictions, *ends)]
    dated = data.layout.time is not None and all(series.times is not None for series in data.sequences)
    names = ["step", data.layout.time] if dated else ["step"]
    rows = []
    for number, sequence in enumerate(data.ids):
        times = _list_future_times(estimator, data, number) if dated else [()] * estimator.horizon
        for step, time in enumerate(times):
            rows.append((sequence, step + 1, *time, *(_shorten(column[number, step]) for column in columns)))
    return Predictions((data.id_name, *names, *header), rows)


def _cut_after_known(estimator: CoRNNForecaster, series: ValidSeries) -> ValidSeries:
    """Return a series without the rows at its end that have no target: they are steps to forecast.

    If features are known in advance, their rows for the steps to forecast are kept.
    """
    known = count_known(series.values[:, estimator.targets_])
    end = known + (estimator.horizon if estimator.known_future_ else 0)
    return series.take(end) if known else series


def _list_future_times(estimator: CoRNNForecaster, data: Dataset, number: int) -> list[tuple[str | float]]:
    """Return the time of each step to forecast, written as in the file."""
    times = np.asarray(data.sequences[number].times)
    unit = estimator.unit_ or 1.0
    # With features that are known in advance, the last rows are the steps to forecast.
    start = times[-1] - (estimator.horizon * unit if estimator.known_future_ else 0.0)
    ahead = (start + unit * np.arange(1, estimator.horizon + 1)).tolist()
    if data.calendar is not None:
        return [(data.calendar.format(time),) for time in ahead]
    numbers = [_shorten(time, TIME_DIGITS) for time in ahead]
    # Such as years, which have no fraction in the file either.
    return [(int(number) if number.is_integer() else number,) for number in numbers]


def _shorten(value: float, digits: int = DIGITS) -> float:
    return float(f"{value:.{digits}g}")


def _number_names(name: str, count: int) -> list[str]:
    return [name] if count == 1 else [f"{name} {number + 1}" for number in range(count)]


def evaluate(estimator: AnyEstimator, training: Dataset, test: Dataset, cuts: list[int] | None) -> Evaluation:
    """Evaluate a fitted estimator on test data.

    Args:
        estimator: The fitted estimator.
        training: The training data, from which the baseline is computed.
        test: The test data.
        cuts: For forecasts, the first test step of each sequence; earlier values were used in training.

    Returns:
        The test result and that of a baseline: the most frequent class, the mean, or no change.
    """
    if isinstance(estimator, CoRNNClassifier):
        return _evaluate_classes(estimator, training, test)
    if isinstance(estimator, CoRNNRegressor):
        return _evaluate_numbers(estimator, training, test)
    return _evaluate_forecasts(estimator, training, test, cuts)


def _evaluate_classes(estimator: CoRNNClassifier, training: Dataset, test: Dataset) -> Evaluation:
    truth, predictions = test.labels(estimator.classes_.tolist()), estimator.predict(test.sequences)
    known = [*estimator.classes_.tolist(), *sorted(set(truth.tolist()) - set(estimator.classes_.tolist()), key=str)]
    number = {name: index for index, name in enumerate(known)}
    confusion = np.zeros((len(known), len(known)), int)
    np.add.at(
        confusion, ([number[name] for name in truth.tolist()], [number[name] for name in predictions.tolist()]), 1
    )
    names, counts = np.unique(training.labels(), return_counts=True)
    usual = names[counts.argmax()].item()
    simple = predict_with_ridge("classify", training, test)
    right = int((truth == predictions).sum())
    trivial = float((truth == usual).mean())
    present = confusion.sum(1) > 0
    recalls = confusion.diagonal()[present] / confusion.sum(1)[present]
    return Evaluation(
        "accuracy",
        "higher",
        right / len(test),
        trivial,
        f"for always predicting {usual}",
        len(test),
        {"balanced accuracy": float(recalls.mean())},
        tuple(str(name) for name in known),
        tuple(tuple(int(count) for count in row) for row in confusion),
        baselines={f"always {usual}": trivial, STATISTICS: float((truth == simple).mean())},
        interval=wilson_interval(right, len(test)),
    )


def wilson_interval(right: int, count: int) -> tuple[float, float]:
    """Return the 95 % confidence interval of a share (Wilson, 1927)."""
    z = 1.959964
    middle = (right + z * z / 2) / (count + z * z)
    half = z / (count + z * z) * math.sqrt(right * (count - right) / count + z * z / 4)
    return max(0.0, middle - half), min(1.0, middle + half)


def _evaluate_numbers(estimator: CoRNNRegressor, training: Dataset, test: Dataset) -> Evaluation:
    truth = test.numbers().reshape(len(test), -1)
    predictions = estimator.predict(test.sequences).reshape(len(test), -1)
    usual, scale = mean_and_scale(training.numbers().reshape(len(training), -1))
    simple = predict_with_ridge("regress", training, test)
    error, trivial, ridge = (_rms((truth - other) / scale) for other in (predictions, usual, simple))
    names = training.layout.target  # an array may have several columns, and one name or none
    if len(names) != truth.shape[1]:
        names = _number_names(names[0] if names else "target", truth.shape[1])
    more: dict[str, float] = {}
    # In standard deviations, as squares of large numbers would overflow.
    errors, spreads = (truth - predictions) / scale, (truth - mean_and_scale(truth)[0]) / scale
    for name, unit, own, spread in zip(names, scale.tolist(), errors.T, spreads.T, strict=True):
        more[f"{name}: mean absolute error"] = unit * float(np.abs(own).mean())
        more[f"{name}: root mean square error"] = unit * _rms(own)
        if spread.min() < spread.max():
            more[f"{name}: R²"] = 1 - (_rms(own) / _rms(spread)) ** 2
    return Evaluation(
        "error in standard deviations of the target",
        "lower",
        error,
        trivial,
        "for always predicting the mean",
        len(test),
        more,
        pairs=tuple(
            (name, tuple(true.tolist()), tuple(answer.tolist()))
            for name, true, answer in zip(names, truth.T, predictions.T, strict=True)
        ),
        baselines={"always the mean": trivial, STATISTICS: ridge},
    )


def _evaluate_forecasts(
    estimator: CoRNNForecaster, training: Dataset, test: Dataset, cuts: list[int] | None
) -> Evaluation:
    every = estimator.evaluate(training.sequences, test.sequences, cuts)
    named = [(test.features[target], table) for target, table in zip(estimator.targets_, every, strict=True) if table]
    if not named:
        advice = "no values are left to test the forecasts: use longer sequences, or a larger "
        raise ArgumentError(advice, Argument("test_share"))
    tables = [table for _, table in named]
    words_of = {"last value": "for repeating the last value", "seasonal naive": "for repeating the last season"}
    mean = {name: float(np.mean([table.baselines[name].mase for table in tables])) for name in BASELINES}
    rule = min(TRIVIAL, key=lambda name: mean[name])
    scores: dict[str, dict[str, float | None]] = {}
    more: dict[str, float] = {}
    for feature, table in named:
        words = "" if len(named) == 1 else f"{feature}: "
        for name, score in (("this model", table.model), *table.baselines.items()):
            scores[words + name] = {
                "MAE": score.mae,
                "RMSE": score.rmse,
                "MASE": score.mase,
                "pinball loss": score.pinball,
            }
        if table.pooled_coverage is not None:
            more[f"{words}percent of the values in the 90 % interval"] = 100 * table.pooled_coverage
    offer = f'To use that rule alone, set the candidates to "{rule}"'
    offer += "." if estimator.method_ == "pool" else ", and omit the settings of the network."
    return Evaluation(
        "mean absolute scaled error",
        "lower",
        float(np.mean([table.model.mase for table in tables])),
        mean[rule],
        words_of[rule],
        sum(table.count for table in tables),
        more,
        pairs=tuple((feature, *table.pairs) for feature, table in named if table.pairs[0]),
        ahead=tuple(zip(tables[0].ahead["model"], tables[0].ahead[rule], strict=True)),
        baselines={name: mean[name] for name in sorted(BASELINES, key=lambda name: name != rule)},
        table=scores,
        offer=offer,
        is_rule=estimator.candidates is not None and set(estimator.families()) <= set(TRIVIAL),
    )


def _rms(values: Any) -> float:
    """Compute the root mean square."""
    return float(np.sqrt((values**2).mean()))
