"""From a file to a fitted model, its report and its predictions: the functions of `cornn fit` and `cornn predict`."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from cornn._arguments import Argument, ArgumentError, to_names
from cornn._atomic import release_folder, reserve_folder, reserve_new_folder
from cornn._counts import format_count
from cornn.fitting.evaluate import AnyEstimator, Predictions, attribute, predict
from cornn.fitting.fit import FitResult, Splits, check_settings, choose_task, find_tasks, fit, split
from cornn.fitting.folder import build_result, load_fitted, remove_leftovers, write_folder
from cornn.fitting.readers import Dataset, Layout, names_its_target, read
from cornn.fitting.summary import summarise

__all__ = ["FitOptions", "FitPlan", "attribute_file", "fit_file", "plan_fit", "predict_file"]


ARGUMENTS = {
    "id_column": Argument("id"),
    "time_column": Argument("time"),
    "value_columns": Argument("values"),
    "layout": Argument("layout"),
    "targets": Argument("target"),
}
"""Setting of an estimator that says how X is read -> the argument of `fit_file` instead."""


@dataclass(frozen=True, eq=False)
class FitPlan:
    """The task, data, splits and settings of a fit, read and checked before training."""

    task: str
    data: Dataset
    test: Dataset | None
    splits: Splits
    settings: Mapping[str, Any]
    facts: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class FitOptions:
    """How a file is read and split, and what is fitted: arguments of `fit_file`, which describes them."""

    target: str | Sequence[str] = ()
    id: str | None = None
    time: str | None = None
    values: str | Sequence[str] = ()
    ignore: str | Sequence[str] = ()
    group: str | None = None
    form: str | None = None
    layout: str = "ntc"
    task: str | None = None
    horizon: int | None = None
    test: Path | str | None = None
    test_share: float = 0.2
    seed: int = 0
    settings: Mapping[str, Any] | None = None

    @property
    def targets(self) -> tuple[str, ...]:
        """The targets as a tuple."""
        return to_names(self.target)

    @property
    def columns(self) -> Layout:
        """The columns or arrays of the file."""
        values, ignore = to_names(self.values), to_names(self.ignore)
        return Layout(self.form, self.id, self.time, values, self.targets, ignore, self.group, self.layout)


def plan_fit(path: Path | str, options: FitOptions) -> FitPlan:
    """Read a file, split it and check all settings, without training."""
    path, task = Path(path), options.task
    for name in options.settings or ():
        if name in ARGUMENTS:
            raise ArgumentError(f"{name} is not a setting of fit_file, which reads the file: use ", ARGUMENTS[name])
    chosen: dict[str, Any] = {"random_state": options.seed, **(options.settings or {})}
    if options.horizon is not None:
        chosen["horizon"] = options.horizon
    if task is None and any(find_tasks(name) == ["forecast"] for name in chosen):
        task = "forecast"
    if options.test is not None and Path(options.test).resolve() == path.resolve():
        problem = " names the training data, on which a test says nothing: omit it, and a share of the data is held out"
        raise ArgumentError(Argument("test"), problem)
    data = read(path, _resolve_layout(path, task, options.columns))
    task = choose_task(task, data)
    other = data.companion if options.test is None else read(Path(options.test), data.layout)
    if task == "forecast":
        chosen.setdefault("horizon", 1)
        if options.targets:
            chosen["targets"] = [_find_feature(data, name) for name in options.targets]
        if chosen.get("known_future"):
            chosen["known_future"] = [_find_feature(data, name) for name in to_names(chosen["known_future"])]
    check_settings(task, chosen)
    targets = None
    if task == "forecast":
        inputs = set(chosen.get("known_future") or ())
        targets = chosen.get("targets") or [feature for feature in range(len(data.features)) if feature not in inputs]
    splits = split(data, task, other, options.test_share, options.seed, targets)
    facts = summarise(data, splits, task, options.targets, chosen.get("horizon", 1))
    return FitPlan(task, data, other, splits, chosen, tuple(facts))


def _resolve_layout(path: Path, task: str | None, layout: Layout) -> Layout:
    if task != "forecast":
        if not names_its_target(path) and not layout.target:
            raise ArgumentError(
                "nothing to learn: choose the column with ",
                Argument("target"),
                ", or use ",
                Argument("task", "forecast"),
                " to predict the next values",
            )
        return layout
    if layout.group is not None:
        problem = " keeps the sequences of a group out of the test split, but forecasts are tested on the last steps: "
        raise ArgumentError(Argument("group"), problem, "use ", Argument("ignore", [layout.group]), " instead")
    # Without ids, a table for forecasting is one series, unless the form is given. What is forecast is also an input.
    form = layout.form or ("series" if layout.id is None else None)
    values = (*layout.values, *(name for name in layout.target if layout.values and name not in layout.values))
    return replace(layout, form=form, values=values, target=())


def _find_feature(data: Dataset, name: str) -> int:
    if name not in data.features:
        raise ValueError(f"{data.source} has no values {name!r} to forecast: the values are {', '.join(data.features)}")
    return data.features.index(name)


def fit_file(
    path: Path | str,
    *,
    target: str | Sequence[str] = (),
    id: str | None = None,
    time: str | None = None,
    values: str | Sequence[str] = (),
    ignore: str | Sequence[str] = (),
    group: str | None = None,
    form: str | None = None,
    layout: str = "ntc",
    task: str | None = None,
    horizon: int | None = None,
    test: Path | str | None = None,
    test_share: float = 0.2,
    seed: int = 0,
    settings: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    report: bool = True,
    introduce: Callable[[FitPlan], None] | None = None,
    watch: Callable[[dict[str, float]], None] | None = None,
    announce: Callable[[FitResult], None] | None = None,
) -> FitResult:
    """Fit a model to a file of sequences, test it, and write it with a report to a folder.

    Args:
        path: The data file.
        target: The column or columns to predict; for arrays the name of the array. With `task="forecast"` the values
            to forecast.
        id: The column that identifies the sequence of a row, if each row is a sample.
        time: The column with the time of a sample.
        values: The column or columns of features. Default: all columns that are not named elsewhere.
        ignore: Column or columns to ignore.
        group: The column of the group, such as a person, whose sequences are never split between training and test.
        form: "wide", "long" or "series"; inferred by default.
        layout: Order of the axes of three-dimensional arrays, "ntc" or "nct".
        task: "classify", "regress" or "forecast". Default: "forecast" with `horizon` or another argument of
            forecasts, otherwise inferred from the target.
        horizon: Number of steps to forecast, 1 by default.
        test: A file with test data. Default: a share of the data.
        test_share: Share of the sequences, or for forecasts of the last steps, in the test split; 0 disables it.
        seed: Seed of the test split and of the estimator.
        settings: Arguments of the estimator, such as `{"method": "network"}`, except those about columns and axes.
        out: The folder to write, which must not exist yet. Default: a new folder under runs/.
        report: Whether to write report.html, if the packages for it are installed.
        introduce: Called with the plan before training.
        watch: Called with the losses after every epoch of a trained network.
        announce: Called with the result before the report is drawn and the folder is written.

    Returns:
        The fitted estimator, its test result and the folder.

    Raises:
        ValueError: If the file or a setting is wrong; the message names the row and the remedy.
        FileExistsError: If `out` exists.

    Examples:
        >>> result = fit_file("waves.csv", target="kind", out="waves")
        >>> result.evaluation.test, result.estimator, result.folder
    """
    options = FitOptions(
        target=target,
        id=id,
        time=time,
        values=values,
        ignore=ignore,
        group=group,
        form=form,
        layout=layout,
        task=task,
        horizon=horizon,
        test=test,
        test_share=test_share,
        seed=seed,
        settings=settings,
    )
    plan = plan_fit(path, options)
    if introduce is not None:
        introduce(plan)
    if out is None:
        folder = reserve_new_folder(Path("runs"), Path(path).stem)
    else:
        reserve_folder(folder := Path(out))
    remove_leftovers(folder.parent)
    try:
        finished = fit(plan.task, plan.splits, plan.settings, watch)
        words = plan.test.source if plan.test is not None else f"a held-out split of {plan.data.source}"
        notes = [*plan.data.notes]
        if plan.splits.why:
            notes.append(f"nothing is known about the performance on new data, as there is {plan.splits.why}")
        if finished.interrupted:
            epochs = format_count(finished.estimator.n_iter_, "epoch")
            notes.append(f"stopped by Ctrl-C after {epochs}: the best model so far is kept")
        finished = replace(finished, facts=plan.facts, result=build_result(finished, words), notes=tuple(notes))
        if announce is not None:
            announce(finished)
        finished, page = _write_page(finished, Path(path).name, folder) if report else (finished, None)
        place, note = write_folder(folder, plan.data, finished, finished.result, page)
        if place != folder:
            release_folder(folder)
    except BaseException:
        release_folder(folder)
        raise
    return replace(finished, folder=place, notes=(*finished.notes, *([] if note is None else [note])))


def _write_page(finished: FitResult, title: str, folder: Path) -> tuple[FitResult, str | None]:
    """Return the page, or a note why there is none: a failing report must not lose the trained model."""
    from cornn.fitting import page
    from cornn.plots.pages import check_packages

    try:
        check_packages("the report")
        return finished, page.render_page(title, finished, folder)
    except ImportError as error:
        note = f"no report.html: {error}"
    except Exception as error:
        note = f"the report failed ({type(error).__name__}: {error}): the model is written without it"
    return replace(finished, notes=(*finished.notes, note)), None


def predict_file(model: Path | str, path: Path | str, level: float | None = None) -> Predictions:
    """Predict the sequences of a file with a saved model.

    Args:
        model: A folder of `fit_file`, or a file that an estimator's `save` wrote.
        path: The data file, in the layout of the training data; it needs no target.
        level: Level of the intervals of forecasts. Default: 0.9 if the forecaster has intervals.

    Returns:
        A table with one row per sequence; for forecasts one row per step ahead.

    Examples:
        >>> predict_file("waves", "new.csv").rows
    """
    estimator, data = _read_new(model, path)
    predictions = predict(estimator, data, level=level)
    empty = np.all([np.isnan(series.values).all(0) for series in data.sequences], 0)
    if empty.any():
        names = ", ".join(name for name, missing in zip(data.features, empty, strict=True) if missing)
        warnings.warn(f"{path}: all values of {names} are missing: the predictions do without them", stacklevel=2)
    return predictions


def attribute_file(model: Path | str, path: Path | str) -> Predictions:
    """Compute how much each value of a file contributed to the predictions of a saved classifier or regressor.

    Args:
        model: A folder of `fit_file`, or a file that an estimator's `save` wrote.
        path: The data file, as for `predict_file`.

    Returns:
        A table with one row per step of a sequence, and the attributions in the columns of the features.

    Examples:
        >>> attribute_file("waves", "new.csv").rows
    """
    return attribute(*_read_new(model, path))


def _read_new(model: Path | str, path: Path | str) -> tuple[AnyEstimator, Dataset]:
    """Read a model, and data in the layout of its training data."""
    estimator, layout, features = load_fitted(Path(model))
    data = read(Path(path), layout, require_target=False)
    if features is not None and len(data.features) != len(features):
        raise ValueError(
            f"{path} has {len(data.features)} features, but the model was fitted with {len(features)}: "
            f"{', '.join(features)}"
        )
    return estimator, data
