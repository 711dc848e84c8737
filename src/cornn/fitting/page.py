"""The report of a fit: one self-contained HTML page that starts with the answer."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from cornn.fitting.evaluate import Evaluation
from cornn.fitting.fit import FitResult
from cornn.fitting.forecast_pictures import draw_forecast_pictures
from cornn.plots import fitted, pages
from cornn.plots.diagnosis import draw_diagnosis
from cornn.plots.style import data_uri
from cornn.theory import Diagnosis, diagnose, subject_from_layer

__all__ = ["PICTURES", "diagnose_fit", "render_page"]

SEQUENCES = 2  # number of sequences on which the theory is checked
EXAMPLES = 6  # number of sequences to draw
MAX_TARGETS = 4  # maximum number of targets to draw
WIDE = 6.0  # inches; a wider figure takes the whole width of the page

Pictures = list[tuple[str, Any]]
"""Pairs of a caption and a figure."""


def diagnose_fit(finished: FitResult, name: str) -> Diagnosis | None:
    """Check the (first) trained layer against the theory, on its training data; None if no network was trained."""
    estimator: Any = finished.estimator
    if not estimator.history_:
        return None
    sequences = sorted(
        estimator.validate_input(finished.splits.training.sequences), key=lambda sequence: -len(sequence.values)
    )
    data = estimator.preparation_(sequences[:SEQUENCES])
    with torch.no_grad():
        return diagnose(subject_from_layer(name, estimator.model_.layer, data.input[: int(data.lengths.min())]))


def render_page(title: str, finished: FitResult, folder: Path) -> str:
    """Render the report.

    Args:
        title: The title of the page.
        finished: The result of `fit`, with the summary of the data and the content of result.json.
        folder: The folder of the model, for the examples of its use.

    Returns:
        The HTML page.
    """
    evaluation, check = finished.evaluation, diagnose_fit(finished, f"{title} after training")
    has_pictures = evaluation is not None or finished.task == "forecast"
    pictures = PICTURES[finished.task](finished) if has_pictures else []
    history = finished.estimator.history_
    return pages.render(
        Path(__file__).parent / "fitted.html.jinja",
        title=title,
        facts=finished.facts,
        result=finished.result,
        notes=finished.notes,
        task=finished.task,
        evaluation=evaluation,
        bars=[] if evaluation is None else _make_bars(evaluation),
        scores=evaluation.class_scores() if evaluation is not None and evaluation.classes else [],
        examples=_draw_examples(finished),
        usage=_describe_usage(finished, folder),
        settings=_describe_model(finished.estimator),
        check=check,
        history=history,
        losses=data_uri(fitted.draw_losses(history)) if history else None,
        pictures=[(words, data_uri(figure), figure.get_figwidth() > WIDE) for words, figure in pictures],
        theory=None if check is None else data_uri(draw_diagnosis(check.subject.network, check.trajectory)),
    )


def _make_bars(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return the model (`own`) and the baselines, the best first; widths are in percent of the longest bar."""
    rows = [
        ("this model", evaluation.test, True),
        *((name, error, False) for name, error in evaluation.baselines.items()),
    ]
    rows = [row for row in rows if np.isfinite(row[1])]
    longest = max((value for _, value, _ in rows), default=1.0) or 1.0
    rows.sort(key=lambda row: row[1], reverse=evaluation.better == "higher")
    return [
        {"name": name, "value": value, "width": 100 * max(value, 0) / longest, "own": own} for name, value, own in rows
    ]


def _draw_confusion(finished: FitResult) -> Pictures:
    assert finished.evaluation is not None
    words = "Confusion matrix: rows are true classes, columns are predicted classes"
    return [(words, fitted.draw_confusion(finished.evaluation))]


def _draw_residuals(finished: FitResult, when: str = "") -> Pictures:
    assert finished.evaluation is not None
    pictures: Pictures = []
    for name, truth, predictions in finished.evaluation.pairs[:MAX_TARGETS]:
        pictures.append(
            (f"{name}: predictions against true values{when}", fitted.draw_predictions(name, truth, predictions))
        )
        pictures.append((f"{name}: residuals{when}", fitted.draw_residuals(name, truth, predictions)))
    return pictures


PICTURES: dict[str, Callable[[FitResult], Pictures]] = {
    "classify": _draw_confusion,
    "regress": _draw_residuals,
    "forecast": draw_forecast_pictures,
}
"""Task -> function that draws the figures of the test, which come directly after the scores."""


def _draw_examples(finished: FitResult) -> list[dict[str, Any]]:
    """Draw a few test sequences: for classes wrong and right ones, for numbers the largest and smallest errors."""
    test, estimator = finished.splits.test, finished.estimator
    if test is None or finished.task == "forecast":
        return []
    if finished.task == "classify":
        truth = test.labels(estimator.classes_.tolist())  # pyright: ignore[reportAttributeAccessIssue]
        chances = estimator.predict_proba(test.sequences)  # pyright: ignore[reportAttributeAccessIssue]
        predicted = estimator.classes_[chances.argmax(1)]  # pyright: ignore[reportAttributeAccessIssue]
        surest = np.argsort(-chances.max(1), kind="stable")
        wrong = [row for row in surest if predicted[row] != truth[row]][: EXAMPLES // 2]
        right = _alternate_classes([row for row in surest if predicted[row] == truth[row]], truth)
        rows = [*wrong, *right[: EXAMPLES - len(wrong)]]
        titles = [
            f"true {truth[row]}, predicted {predicted[row]} ({100 * chances[row].max():.0f}\u00a0%)" for row in rows
        ]
        marks = [bool(predicted[row] == truth[row]) for row in rows]
    else:
        truth = test.numbers().reshape(len(test), -1)
        predicted = np.asarray(estimator.predict(test.sequences)).reshape(len(test), -1)
        order = np.argsort(-np.abs(truth - predicted).sum(1), kind="stable").tolist()
        rows = list(dict.fromkeys([*order[: EXAMPLES // 2], *order[-(EXAMPLES // 2) :]]))
        texts = [
            [", ".join(f"{value:.4g}" for value in numbers[row][:3]) for numbers in (truth, predicted)] for row in rows
        ]
        titles, marks = [f"true {true}, predicted {other}" for true, other in texts], [None] * len(rows)
    several = finished.task == "regress" and truth.shape[1] > 1
    attributions = estimator.attributions(  # pyright: ignore[reportAttributeAccessIssue]
        [test.sequences[row] for row in rows], **({"target": 0} if several else {})
    )
    return [
        {
            "title": f"{test.id_name} {test.ids[row]}: {title}",
            "right": mark,  # None: a number, which is never exactly right
            "picture": data_uri(fitted.draw_sequence(test.sequences[row], test.features, attribution)),
        }
        for row, title, mark, attribution in zip(rows, titles, marks, attributions, strict=True)
    ]


def _alternate_classes(rows: list, classes: Any) -> list:
    """Order rows so that every class comes once before any comes twice."""
    counts: dict[Any, int] = {}
    numbered = []
    for row in rows:
        counts[classes[row]] = counts.get(classes[row], 0) + 1
        numbered.append((counts[classes[row]], row))
    return [row for _, row in sorted(numbered, key=lambda pair: pair[0])]


def _describe_usage(finished: FitResult, folder: Path) -> Mapping[str, str]:
    """Return how to use the model, in the shell and in Python."""
    place = str(folder)
    method = "predict_proba" if finished.task == "classify" else "predict"
    imported, shape = "load", "(sequences, time, features)"
    if finished.splits.training.sequences[0].times is not None:
        imported, shape = "Series, load", "[Series(values, times), ...]; values: (time, features), times: (time,)"
    python = [
        f"from cornn.estimators import {imported}",
        "",
        f"model = load({f'{place}/model.safetensors'!r})",
        f"model.{method}(X)  # X: {shape}",
    ]
    quoted = shlex.quote(place)
    commands = {f"cornn predict {quoted} new.csv": "one row per sequence"}
    if finished.task == "forecast" and not finished.estimator.history_:
        commands = {f"cornn predict {quoted} new.csv --level 0.9": "one row per step, with intervals"}
        python += [
            "low, high = model.predict_interval(X, level=0.9)",
            "stream = model.stream()  # one sample at a time",
        ]
    else:
        commands[f"cornn export {quoted} --to onnx"] = "servers, phones, browsers"
        if _can_export_to_c(finished.estimator):
            commands[f"cornn export {quoted} --to c"] = "microcontrollers"
    width = max(map(len, commands))
    shell = [f"{command:{width}}  # {words}" for command, words in commands.items()]
    return {"Shell": "\n".join(shell), "Python": "\n".join(python)}


def _can_export_to_c(estimator: Any) -> bool:
    """Return whether a model can be exported to C: causal banks can, and networks without missing values and times."""
    if not estimator.history_:
        return estimator.bank_.bank.causal
    return not estimator.preparation_.masked and estimator.preparation_.unit is None


def _describe_model(estimator: Any) -> list[tuple[str, str]]:
    """Return a description of the model, and the settings of the estimator that differ from the defaults."""
    rows = [("estimator", type(estimator).__name__), *estimator.describe()]
    defaults = type(estimator)().get_params(deep=False)
    for name, value in estimator.get_params(deep=False).items():
        if repr(value) != repr(defaults[name]):
            rows.append((name, str(value)))
    return rows
