"""Preprocessing and output conversion of an estimator in an ONNX graph."""

from collections.abc import Callable
from typing import Any

import numpy as np

from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.estimators.preparation import Preparation
from cornn.export.graph import DOUBLE, FLOAT, Graph, Shape
from cornn.export.recurrent import Timing

__all__ = ["OUTPUTS", "add_preprocessing", "add_steps"]


def add_preprocessing(
    graph: Graph, preparation: Preparation, values: str, seen: str, timing: Timing
) -> tuple[str, str]:
    """Convert values (time, batch, values), with NaN for missing ones, to features, and return the last known values.

    Args:
        graph: The graph.
        preparation: The preprocessing of the estimator.
        values: Name of the values.
        seen: Name of the standardised last known values before these, (batch, values); zeros at the start.
        timing: Lengths and timespans.

    Returns:
        Names of the features and of the last known values.
    """
    # In float64, like `Preparation`: a mean may be large compared with the standard deviation.
    standard = graph("Sub", graph("Cast", values, to=DOUBLE), graph.weight(preparation.mean))
    standard = graph("Cast", graph("Div", standard, graph.weight(preparation.scale)), to=FLOAT)
    live = [] if timing.live is None else [timing.live]

    def step(body: Graph, states: list[str], elements: list[str]) -> tuple[list[str], list[str]]:
        missing = body("IsNaN", elements[0])
        known = body("Where", missing, states[0], elements[0])
        if live:
            known = body("Where", elements[1], known, states[0])
        marks = body("Cast", missing, to=FLOAT) if preparation.masked else None
        return [known], [known if marks is None else body("Concat", known, marks, axis=-1)]

    (last,), (features,) = graph.scan(step, [seen], [standard, *live])
    return features, last


def add_steps(graph: Graph, spans: str, unit: np.floating, longest: np.floating, *, starts: bool) -> str:
    """Convert times since the previous sample, (time, batch, 1), to steps, like `complete_spans`.

    Args:
        graph: The graph.
        spans: Name of the times.
        unit: Time of one step, of the type of the times.
        longest: Maximum number of steps, likewise.
        starts: Whether the first sample starts a sequence, so that a time of 0 before it is unknown.
    """
    steps = graph("Min", graph("Div", spans, graph.weight(unit)), graph.weight(longest))
    unknown = graph("IsNaN", spans)
    if starts:
        zero, one = graph.weight(np.int64(0)), graph.weight(np.int64(1))
        clock = graph("Range", zero, graph("Squeeze", graph("Shape", spans, start=0, end=1)), one)
        is_first = graph.unsqueeze(graph.unsqueeze(graph("Equal", clock, zero), 1), 2)
        nothing = graph("Equal", spans, graph.weight(np.zeros_like(unit)))
        unknown = graph("Or", unknown, graph("And", is_first, nothing))
    return graph("Where", unknown, graph.weight(np.ones_like(unit)), steps)


def _probabilities(graph: Graph, estimator: CoRNNClassifier, output: str, seen: str) -> str:
    return graph("Softmax", output, axis=-1)


def _numbers(graph: Graph, estimator: CoRNNRegressor, output: str, seen: str) -> str:
    numbers = _add_scaling(graph, output, estimator.target_scale_, estimator.target_mean_)
    numbers = graph("Squeeze", numbers, graph.weight(np.array([1]))) if estimator.single_ else numbers
    return graph("Cast", numbers, to=FLOAT)


def _ahead(graph: Graph, estimator: CoRNNForecaster, output: str, last_known: str) -> str:
    preparation, targets = estimator.preparation_, estimator.targets_
    shape = graph.weight(np.array([0, estimator.horizon, len(targets)]))
    change = _add_scaling(graph, graph("Reshape", output, shape), preparation.scale[targets], np.zeros(()))
    last_known = graph("Gather", last_known, graph.weight(np.asarray(targets, np.int64)), axis=1)
    last = _add_scaling(graph, last_known, preparation.scale[targets], preparation.mean[targets])
    forecast = graph("Add", graph.unsqueeze(last, 1), change)
    return graph("Cast", forecast, to=FLOAT)


def _add_scaling(graph: Graph, value: str, scale: np.ndarray, mean: np.ndarray) -> str:
    """Compute value * scale + mean in float64."""
    double = graph("Cast", value, to=DOUBLE)
    return graph("Add", graph("Mul", double, graph.weight(scale)), graph.weight(mean))


def _shape(estimator: Any) -> Shape:
    return ["batch"] if estimator.single_ else ["batch", estimator.network_.outputs]


OUTPUTS: dict[type, tuple[str, Callable[..., str], Callable[[Any], Shape]]] = {
    CoRNNClassifier: ("probabilities", _probabilities, lambda estimator: ["batch", len(estimator.classes_)]),
    CoRNNRegressor: ("prediction", _numbers, _shape),
    CoRNNForecaster: (
        "prediction",
        _ahead,
        lambda estimator: ["batch", estimator.horizon, len(estimator.targets_)],
    ),
}
"""Estimator -> name of the output, function that computes it, and its shape."""
