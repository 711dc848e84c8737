"""The report of a fit: one HTML page that needs no other file and no network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from cornn._extras import missing_extra
from cornn.fitting.evaluate import Outcome
from cornn.fitting.fit import Finished
from cornn.plots import fitted
from cornn.plots.diagnosis import draw_diagnosis
from cornn.plots.style import data_uri
from cornn.theory.diagnose import Diagnosis, diagnose, subject_from_layer

__all__ = ["check", "check_packages", "page"]

SEQUENCES = 2  # of the theory's check


def check_packages() -> None:
    """Say what the page needs before a training, not after it."""
    try:
        import jinja2  # noqa: F401
        import matplotlib  # noqa: F401
    except ImportError:
        raise missing_extra(
            "report", "the report needs Jinja2 and matplotlib", "or leave it out with --no-report"
        ) from None


def check(finished: Finished, name: str) -> Diagnosis:
    """The trained layer, its first where there are several, held against the theory on its own data."""
    estimator = finished.estimator
    sequences = sorted(estimator._again(finished.parts.training.sequences, None), key=lambda own: -len(own.values))
    data = estimator.preparation_(sequences[:SEQUENCES])
    with torch.no_grad():
        return diagnose(subject_from_layer(name, estimator.model_.layer, data.input[: int(data.lengths.min())]))


def page(
    title: str, facts: Sequence[tuple[str, str]], finished: Finished, reached: Mapping[str, Any], found: Diagnosis
) -> str:
    """facts: the summary of the data. reached: what result.json holds."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["number"] = lambda value: f"{value:.4g}"
    outcome = finished.outcome
    return environment.get_template("fitted.html.jinja").render(
        title=title,
        facts=facts,
        reached=reached,
        outcome=outcome,
        estimator=finished.estimator,
        settings=finished.estimator.get_params(),
        check=found,
        losses=data_uri(fitted.losses(finished.estimator.history_)),
        pictures=[] if outcome is None else _pictures(outcome),
        theory=data_uri(draw_diagnosis(found.subject.network, found.trajectory)),
    )


def _pictures(outcome: Outcome) -> list[tuple[str, str]]:
    """(what it shows, the picture)."""
    drawn = []
    if outcome.confusion:
        drawn.append(("Confusion matrix: true classes are rows, predicted ones are columns", fitted.confusion(outcome)))
    if outcome.ahead:
        drawn.append(("Error by steps ahead, beside that of forecasting no change", fitted.forecast_errors(outcome)))
    if outcome.pairs:
        what = "One step ahead: predictions" if outcome.ahead else "Predictions"
        drawn.append((f"{what} against the truth, and the residuals", fitted.residuals(outcome)))
    return [(words, data_uri(figure)) for words, figure in drawn]
