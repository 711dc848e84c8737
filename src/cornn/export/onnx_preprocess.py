"""An estimator's own part of an ONNX graph: what it does to the values before the network, and to its output after."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from cornn.estimators import CoRNNClassifier, CoRNNForecaster, CoRNNRegressor
from cornn.estimators.preparation import Preparation
from cornn.export.graph import DOUBLE, FLOAT, Graph, Shape
from cornn.export.recurrent import Timing

__all__ = ["ANSWERS", "factors", "prepared"]


def prepared(graph: Graph, preparation: Preparation, values: str, seen: str, timing: Timing) -> tuple[str, str]:
    """From values (time, batch, values), NaN where one is missing, to features, and the last ones that were there.

    seen: (batch, values), the last known values before these, standardised: zeros at the beginning of a sequence.
    """
    # In float64, as `Preparation` does it: a mean may be large beside the deviation.
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


def factors(graph: Graph, preparation: Preparation, timing: Timing) -> Timing:
    """Times since the sample before, in the unit of the training data, as factors on dt; NaN: the usual time."""
    assert timing.spans is not None
    ratio = graph("Div", timing.spans, graph.weight(np.float32(preparation.unit or 1)))
    ratio = graph("Min", ratio, graph.weight(np.float32(preparation.longest)))
    return replace(timing, spans=graph("Where", graph("IsNaN", ratio), graph.weight(np.float32(1)), ratio))


def _probabilities(graph: Graph, estimator: CoRNNClassifier, output: str, seen: str) -> str:
    return graph("Softmax", output, axis=-1)


def _numbers(graph: Graph, estimator: CoRNNRegressor, output: str, seen: str) -> str:
    found = _scaled(graph, output, estimator.target_scale_, estimator.target_mean_)
    found = graph("Squeeze", found, graph.weight(np.array([1]))) if estimator.single_ else found
    return graph("Cast", found, to=FLOAT)


def _ahead(graph: Graph, estimator: CoRNNForecaster, output: str, seen: str) -> str:
    preparation, targets = estimator.preparation_, estimator.targets_
    shape = graph.weight(np.array([0, estimator.horizon, len(targets)]))
    change = _scaled(graph, graph("Reshape", output, shape), preparation.scale[targets], np.zeros(()))
    seen = graph("Gather", seen, graph.weight(np.asarray(targets, np.int64)), axis=1)
    last = _scaled(graph, seen, preparation.scale[targets], preparation.mean[targets])
    found = graph("Add", graph.unsqueeze(last, 1), change)
    return graph("Cast", found, to=FLOAT)


def _scaled(graph: Graph, value: str, scale: np.ndarray, mean: np.ndarray) -> str:
    """value * scale + mean, in float64."""
    double = graph("Cast", value, to=DOUBLE)
    return graph("Add", graph("Mul", double, graph.weight(scale)), graph.weight(mean))


def _shape(estimator: Any) -> Shape:
    return ["batch"] if estimator.single_ else ["batch", estimator.network_.outputs]


ANSWERS: dict[type, tuple[str, Callable[..., str], Callable[[Any], Shape]]] = {
    CoRNNClassifier: ("probabilities", _probabilities, lambda estimator: ["batch", len(estimator.classes_)]),
    CoRNNRegressor: ("prediction", _numbers, _shape),
    CoRNNForecaster: (
        "prediction",
        _ahead,
        lambda estimator: ["batch", estimator.horizon, len(estimator.targets_)],
    ),
}
"""Estimator -> the output's name, what computes it from the network's output and the last known values, its shape."""
