"""Export an oscillator bank to ONNX: whole sequences of any number and length, one `Scan` over time."""

import json
from typing import Any

import numpy as np
import torch

from cornn.estimators.bank_inputs import CONSTANT, GAPS, LARGEST, PRIOR_STEPS, BankInputs, View
from cornn.estimators.bank_model import BankModel
from cornn.estimators.times import LONGEST
from cornn.export.bank import draw_sequences
from cornn.export.equations import step_over
from cornn.export.graph import DOUBLE, FLOAT, Graph, Port, Shape
from cornn.export.onnx_preprocess import add_steps
from cornn.functional import spectrum

__all__ = ["LIMIT", "build_bank_graph", "check_bank"]

LIMIT = 0.02
"""Largest deviation from Python, relative to the largest score: rounding may move a sample across a threshold."""
LOWEST = np.float32(-3e38)
LEVEL_STATS = 3  # share, time, run


def build_bank_graph(estimator: Any) -> tuple[bytes, dict[str, Port], dict[str, Port]]:
    """Return the file content, its inputs and its outputs, which are batch-first."""
    model: BankModel = estimator.bank_
    graph, features, unit = Graph(), model.bank.inputs.features, model.bank.inputs.unit
    inputs: dict[str, Port] = {"input": (FLOAT, ["batch", "time", features])}
    spans = None
    if unit is not None:
        inputs["timespans"] = (FLOAT, ["batch", "time"])
        spans = _add_spans(graph, unit)
    channels = _add_inputs(graph, model.bank.inputs, spans)
    scores = _add_bank(graph, model, channels, spans)
    scale, offset = estimator.output_scaling()
    scores = graph(
        "Add", graph("Mul", scores, graph.weight(scale.astype(np.float32))), graph.weight(offset.astype(np.float32))
    )
    classes = estimator.output_spec().classes
    name, shape = "probabilities", ["batch", len(scale)]
    notes = {"model": f"{type(estimator).__name__} with an oscillator bank"}
    if classes:
        scores = graph("Softmax", scores, axis=-1)
        notes["classes"] = json.dumps(classes)
    else:
        name = "prediction"
        if estimator.single_:
            scores, shape = graph("Squeeze", scores, graph.weight(np.array([1]))), ["batch"]
    graph.name_output(name, scores)
    outputs: dict[str, Port] = {name: (FLOAT, Shape(shape))}
    return graph.to_bytes(inputs, outputs, notes), inputs, outputs


def _add_spans(graph: Graph, unit: float) -> str:
    """Add the durations of the steps in units of the usual one, (time, batch, 1) in float64; an unknown one is 1."""
    spans = graph("Cast", graph("Transpose", "timespans", perm=[1, 0]), to=DOUBLE)
    return add_steps(graph, graph.unsqueeze(spans, 2), np.float64(unit), np.float64(LONGEST), starts=True)


def _add_inputs(graph: Graph, inputs: BankInputs, spans: str | None) -> str:
    """Add the preprocessing; return the channels, (time, batch, channels) in float32."""
    samples = graph("Cast", graph("Transpose", "input", perm=[1, 0, 2]), to=DOUBLE)
    missing = graph("IsNaN", samples)
    size = graph("Concat", graph("Shape", "input", start=0, end=1), graph.weight(np.array([1])), axis=0)
    before = graph("Tile", graph.weight(inputs.mean[None]), size)

    def carry(body: Graph, states: list[str], elements: list[str]) -> tuple[list[str], list[str]]:
        known = body("Where", body("IsNaN", elements[0]), states[0], elements[0])
        return [known], [known]

    _, (filled,) = graph.scan(carry, [before], [samples])
    value = graph("Div", graph("Sub", filled, graph.weight(inputs.mean)), graph.weight(inputs.scale))
    bounds = [graph.weight(np.array([bound])) for bound in (0, 1, -1)]
    first = graph("Slice", value, bounds[0], bounds[1], bounds[0])
    earlier = graph("Concat", first, graph("Slice", value, bounds[0], bounds[2], bounds[0]), axis=0)
    change = graph("Mul", graph("Sub", value, earlier), graph.weight(inputs.scale / inputs.step))
    if spans is not None:
        zero, one = (graph.weight(np.float64(number)) for number in (0, 1))
        passes = graph("Greater", spans, zero)
        change = graph("Where", passes, graph("Div", change, graph("Where", passes, spans, one)), zero)
    steps = graph("Squeeze", graph("Shape", value, start=0, end=1))
    parts = [_add_view(graph, view, value, change, missing, steps) for view in inputs.views]
    joined = graph("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    clipped = graph("Clip", joined, graph.weight(np.float64(-LARGEST)), graph.weight(np.float64(LARGEST)))
    return graph("Cast", clipped, to=FLOAT)


def _add_view(graph: Graph, view: View, value: str, change: str, missing: str, steps: str) -> str:
    if view == GAPS:
        return graph("Cast", missing, to=DOUBLE)
    scaling, differences = view
    channel, floor = (change if differences else value), graph.weight(np.float64(CONSTANT))
    if scaling == "set":
        return channel
    if scaling == "sequence":
        centred = channel if differences else graph("Sub", channel, graph("ReduceMean", channel, axes=[0]))
        deviation = graph("Sqrt", graph("ReduceMean", graph("Mul", centred, centred), axes=[0]))
        varies = graph("Greater", deviation, floor)
        return graph("Div", centred, graph("Where", varies, deviation, graph.weight(np.float64(1))))
    one, axis = graph.weight(np.int64(1)), graph.weight(np.int64(0))
    clock = graph("Range", one, graph("Add", steps, one), one)
    total = graph("Add", graph("Cast", clock, to=DOUBLE), graph.weight(np.float64(PRIOR_STEPS)))
    total = graph("Unsqueeze", total, graph.weight(np.array([1, 2])))
    squares = graph("CumSum", graph("Mul", channel, channel), axis)
    variance = graph("Div", graph("Add", squares, graph.weight(np.float64(PRIOR_STEPS))), total)
    if not differences:
        mean = graph("Div", graph("CumSum", channel, axis), total)
        channel, variance = graph("Sub", channel, mean), graph("Sub", variance, graph("Mul", mean, mean))
    return graph("Div", channel, graph("Sqrt", graph("Max", variance, floor)))


def _add_bank(graph: Graph, model: BankModel, channels: str, spans: str | None) -> str:
    """Add the oscillators, the pooling and the readout; return the scores, (batch, outputs)."""
    bank, inputs, neurons = model.bank.bank, model.bank.inputs, model.bank.bank.neurons
    levels, outputs = bank.levels.shape[1], len(model.readout.bias)
    projection = np.zeros((len(inputs.views) * inputs.features, len(bank.first)), np.float32)
    for group, first in enumerate(bank.first):
        projection[first : first + inputs.features, group] = bank.direction[group]
    drive = graph.weight(np.repeat(projection, neurons // len(bank.first), 1) * bank.gain)
    bias, (keep, push, pull, dt) = graph.weight(bank.bias), (graph.weight(part) for part in bank.steps())
    height = graph.weight(bank.levels.transpose(1, 0, 2).reshape(levels, -1))  # (levels, y and z of all neurons)
    of = spectrum(*torch.tensor(bank.constants))
    half, one = graph.weight(np.float32(0.5)), graph.weight(np.float32(1))

    def step(body: Graph, states: list[str], elements: list[str]) -> tuple[list[str], list[str]]:
        y, z, time, share, when, run, longest, *sums = states
        force = body("Tanh", body("Add", body("MatMul", elements[0], drive), bias))
        if spans is None:
            duration = one
            z = body("Sub", body("Add", body("Mul", keep, z), body("Mul", push, force)), body("Mul", pull, y))
            y = body("Add", y, body("Mul", dt, z))
        else:
            duration = body("Cast", elements[1], to=FLOAT)
            y, z = step_over(body, of, elements[1], (y, z, force), FLOAT)
        moment = body("Mul", duration, body("Add", time, body("Mul", half, duration)))
        time = body("Add", time, duration)
        x = body("Concat", y, z, axis=1)
        over = body("Cast", body("Greater", body.unsqueeze(x, 1), height), to=FLOAT)
        weight, when_over = (body.unsqueeze(term, 1) if term is not one else term for term in (duration, moment))
        run = body("Mul", over, body("Add", run, weight))
        features = [
            body("Add", share, body("Mul", over, weight)),
            body("Add", when, body("Mul", over, when_over)),
            run,
            body("Max", longest, run),
        ]
        if sums:
            highest, total, squares = sums
            weighted = body("Mul", x, duration)
            features += [
                body("Max", highest, x),
                body("Add", total, weighted),
                body("Add", squares, body("Mul", x, weighted)),
            ]
        return [y, z, time, *features], []

    def fill(shape: list[int], value: np.float32) -> str:
        sizes = graph("Concat", graph("Shape", "input", start=0, end=1), graph.weight(np.array(shape)), axis=0)
        return graph("Expand", graph.weight(value), sizes)

    zero = np.float32(0)
    start = [fill([neurons], zero), fill([neurons], zero), fill([1], zero)]
    start += [fill([levels, 2 * neurons], zero) for _ in range(4)]
    if bank.plain:
        start += [fill([2 * neurons], LOWEST), fill([2 * neurons], zero), fill([2 * neurons], zero)]
    elements = [channels] if spans is None else [channels, spans]
    (y, z, time, share, when, _, longest, *sums), _ = graph.scan(step, start, elements)
    some = graph("Where", graph("Greater", share, graph.weight(zero)), share, one)
    each = graph.unsqueeze(time, 1)
    parts = [graph("Div", term, each) for term in (share, graph("Div", when, some), longest)]
    # Rows of the readout: variable, then threshold and statistic (or plain statistic), then neuron.
    weight = model.readout.weight.reshape(2, -1, neurons, outputs)
    scores = graph.weight(model.readout.bias.astype(np.float32))
    flat = graph.weight(np.array([0, -1]))
    for stat, part in enumerate(parts):
        term = weight[:, stat : levels * LEVEL_STATS : LEVEL_STATS].transpose(1, 0, 2, 3).reshape(-1, outputs)
        product = graph("MatMul", graph("Reshape", part, flat), graph.weight(np.ascontiguousarray(term)))
        scores = graph("Add", product, scores)
    if sums:
        highest, total, squares = sums
        plain = [
            highest,
            graph("Div", total, time),
            graph("Sqrt", graph("Div", squares, time)),
            graph("Concat", y, z, axis=1),
        ]
        for stat, part in enumerate(plain):
            term = np.ascontiguousarray(weight[:, levels * LEVEL_STATS + stat].reshape(-1, outputs))
            scores = graph("Add", graph("MatMul", part, graph.weight(term)), scores)
    return scores


def check_bank(content: bytes, estimator: Any) -> float:
    """Return the largest deviation from Python on sequences of two lengths; raise if it is above `LIMIT`."""
    from cornn.export.check import open_session

    running, inputs, worst = open_session(content), estimator.bank_.bank.inputs, 0.0
    for count, steps in ((5, 50), (1, 17)):
        sequences = draw_sequences(inputs, count, steps)
        feeds = {"input": np.stack([sequence.values for sequence in sequences]).astype(np.float32)}
        spans = None if inputs.unit is None else np.stack([np.asarray(sequence.gaps) for sequence in sequences])
        if spans is not None:
            feeds["timespans"] = spans.astype(np.float32)
        outputs = running.run(None, feeds)[0]
        answer = estimator.predict_proba if estimator.output_spec().classes else estimator.predict
        expected = answer([sequence.values for sequence in sequences], timespans=spans)
        worst = max(worst, float(np.abs(outputs - expected).max() / max(np.abs(expected).max(), 1e-30)))
    if not worst <= LIMIT:
        raise ValueError(
            f"the output in onnxruntime deviates from Python's by {worst:.1e} of its largest value, more than {LIMIT}: "
            "the file is not written. Check that the model is trained and finite"
        )
    return worst
