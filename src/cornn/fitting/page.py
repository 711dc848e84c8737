"""The report of a fit: one self-contained HTML page."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cornn._extras import missing_extra
from cornn.fitting.evaluate import Evaluation
from cornn.fitting.fit import FitResult
from cornn.plots import fitted
from cornn.plots.diagnosis import draw_diagnosis
from cornn.plots.style import data_uri
from cornn.theory.diagnose import Diagnosis, diagnose, subject_from_layer

__all__ = ["check_packages", "diagnose_fit", "render_page"]

SEQUENCES = 2  # that the theory is checked on


def check_packages() -> None:
    """Check before training that the packages for the page are installed."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError:
        raise missing_extra("report", "the report needs Jinja2 and matplotlib") from None


def diagnose_fit(finished: FitResult, name: str) -> Diagnosis:
    """Check the (first) trained layer against the theory, on its training data."""
    estimator = finished.estimator
    sequences = sorted(
        estimator._validate_input(finished.splits.training.sequences, None), key=lambda own: -len(own.values)
    )
    data = estimator.preparation_(sequences[:SEQUENCES])
    with torch.no_grad():
        return diagnose(subject_from_layer(name, estimator.model_.layer, data.input[: int(data.lengths.min())]))


def render_page(
    title: str, facts: Sequence[tuple[str, str]], finished: FitResult, result: Mapping[str, Any], check: Diagnosis
) -> str:
    """Render the report.

    Args:
        title: The title of the page.
        facts: The summary of the data, from `summarize`.
        finished: The result of `fit`.
        result: The content of result.json.
        check: The diagnosis of the layer, from `diagnose_fit`.

    Returns:
        The HTML page.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["number"] = lambda value: f"{value:.4g}"
    evaluation = finished.evaluation
    return environment.get_template("fitted.html.jinja").render(
        title=title,
        facts=facts,
        result=result,
        evaluation=evaluation,
        estimator=finished.estimator,
        settings=finished.estimator.get_params(),
        check=check,
        losses=data_uri(fitted.losses(finished.estimator.history_)),
        pictures=[] if evaluation is None else _pictures(evaluation),
        theory=data_uri(draw_diagnosis(check.subject.network, check.trajectory)),
    )


def _pictures(evaluation: Evaluation) -> list[tuple[str, str]]:
    """Return (caption, image) pairs."""
    drawn = []
    if evaluation.confusion:
        drawn.append(
            ("Confusion matrix: rows are true classes, columns are predicted classes", fitted.confusion(evaluation))
        )
    if evaluation.ahead:
        drawn.append(("Error by steps ahead, compared with the best trivial rule", fitted.forecast_errors(evaluation)))
    if evaluation.pairs:
        what = "Predictions one step ahead" if evaluation.ahead else "Predictions"
        drawn.append((f"{what} against true values, and residuals", fitted.residuals(evaluation)))
    return [(words, data_uri(figure)) for words, figure in drawn]
