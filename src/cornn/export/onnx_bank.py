"""Export an oscillator bank to ONNX: whole sequences of any number and length, one `Scan` over time."""

import json
from typing import Any

import numpy as np

from cornn.estimators.bank_inputs import CONSTANT, GAPS, LARGEST, PRIOR_STEPS, BankInputs, View
from cornn.estimators.bank_model import BankModel
from cornn.export.graph import DOUBLE, FLOAT, Graph, Port, Shape

__all__ = ["LIMIT", "build_bank_graph", "check_bank"]

LIMIT = 0.02
"""Largest deviation from Python, relative to the largest score: rounding may move a sample across a threshold."""
LOWEST = np.float32(-3e38)
LEVEL_STATS = 3  # share, time, run


def build_bank_graph(estimator: Any) -> tuple[bytes, dict[str, Port], dict[str, Port]]:
    """Return the file content, its inputs and its outputs, which are batch-first."""
    model: BankModel = estimator.bank_
    if model.bank.inputs.unit is not None:
        raise ValueError(
            "the ONNX export of an oscillator bank has no times: if samples are evenly spaced, fit without times "
            "(omit --time)"
        )
    graph, features = Graph(), model.bank.inputs.features
    inputs: dict[str, Port] = {"input": (FLOAT, ["batch", "time", features])}
    channels = _add_inputs(graph, model.bank.inputs)
    scores = _add_bank(graph, model, channels)
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


def _add_inputs(graph: Graph, inputs: BankInputs) -> str:
    """Add the preprocessing; return the channels, (time, batch, channels) in float32."""
    given = graph("Cast", graph("Transpose", "input", perm=[1, 0, 2]), to=DOUBLE)
    missing = graph("IsNaN", given)
    size = graph("Concat", graph("Shape", "input", start=0, end=1), graph.weight(np.array([1])), axis=0)
    before = graph("Tile", graph.weight(inputs.mean[None]), size)

    def carry(body: Graph, states: list[str], elements: list[str]) -> tuple[list[str], list[str]]:
        known = body("Where", body("IsNaN", elements[0]), states[0], elements[0])
        return [known], [known]

    _, (filled,) = graph.scan(carry, [before], [given])
    value = graph("Div", graph("Sub", filled, graph.weight(inputs.mean)), graph.weight(inputs.scale))
    bounds = [graph.weight(np.array([bound])) for bound in (0, 1, -1)]
    first = graph("Slice", value, bounds[0], bounds[1], bounds[0])
    earlier = graph("Concat", first, graph("Slice", value, bounds[0], bounds[2], bounds[0]), axis=0)
    change = graph("Mul", graph("Sub", value, earlier), graph.weight(inputs.scale / inputs.step))
    steps = graph("Squeeze", graph("Shape", value, start=0, end=1))
    parts = [_add_view(graph, view, value, change, missing, steps) for view in inputs.views]
    joined = graph("Concat", *parts, axis=2) if len(parts) > 1 else parts[0]
    clipped = graph("Clip", joined, graph.weight(np.float64(-LARGEST)), graph.weight(np.float64(LARGEST)))
    return graph("Cast", clipped, to=FLOAT)


def _add_view(graph: Graph, view: View, value: str, change: str, missing: str, steps: str) -> str:
    if view == GAPS:
        return graph("Cast", missing, to=DOUBLE)
    scaling, differences = view
    own, floor = (change if differences else value), graph.weight(np.float64(CONSTANT))
    if scaling == "set":
        return own
    if scaling == "sequence":
        centred = own if differences else graph("Sub", own, graph("ReduceMean", own, axes=[0]))
        deviation = graph("Sqrt", graph("ReduceMean", graph("Mul", centred, centred), axes=[0]))
        varies = graph("Greater", deviation, floor)
        return graph("Div", centred, graph("Where", varies, deviation, graph.weight(np.float64(1))))
    one, axis = graph.weight(np.int64(1)), graph.weight(np.int64(0))
    clock = graph("Range", one, graph("Add", steps, one), one)
    total = graph("Add", graph("Cast", clock, to=DOUBLE), graph.weight(np.float64(PRIOR_STEPS)))
    total = graph("Unsqueeze", total, graph.weight(np.array([1, 2])))
    squares = graph("CumSum", graph("Mul", own, own), axis)
    variance = graph("Div", graph("Add", squares, graph.weight(np.float64(PRIOR_STEPS))), total)
    if not differences:
        mean = graph("Div", graph("CumSum", own, axis), total)
        own, variance = graph("Sub", own, mean), graph("Sub", variance, graph("Mul", mean, mean))
    return graph("Div", own, graph("Sqrt", graph("Max", variance, floor)))


def _add_bank(graph: Graph, model: BankModel, channels: str) -> str:
    """Add the oscillators, the pooling and the readout; return the scores, (batch, outputs)."""
    bank, inputs, neurons = model.bank.bank, model.bank.inputs, model.bank.bank.neurons
    levels, outputs = bank.levels.shape[1], len(model.readout.bias)
    projection = np.zeros((len(inputs.views) * inputs.features, len(bank.first)), np.float32)
    for group, first in enumerate(bank.first):
        projection[first : first + inputs.features, group] = bank.direction[group]
    drive = graph.weight(np.repeat(projection, neurons // len(bank.first), 1) * bank.gain)
    bias, (keep, push, pull, dt) = graph.weight(bank.bias), (graph.weight(part) for part in bank.steps())
    height = graph.weight(bank.levels.transpose(1, 0, 2).reshape(levels, -1))  # (levels, y and z of all neurons)
    one = graph.weight(np.float32(1))

    def step(body: Graph, states: list[str], elements: list[str]) -> tuple[list[str], list[str]]:
        y, z, share, when, run, longest, *sums = states
        force = body("Tanh", body("Add", body("MatMul", elements[0], drive), bias))
        z = body("Sub", body("Add", body("Mul", keep, z), body("Mul", push, force)), body("Mul", pull, y))
        y = body("Add", y, body("Mul", dt, z))
        x = body("Concat", y, z, axis=1)
        over = body("Cast", body("Greater", body.unsqueeze(x, 1), height), to=FLOAT)
        run = body("Mul", over, body("Add", run, one))
        found = [
            body("Add", share, over),
            body("Add", when, body("Mul", over, elements[1])),
            run,
            body("Max", longest, run),
        ]
        if sums:
            highest, total, squares = sums
            found += [body("Max", highest, x), body("Add", total, x), body("Add", squares, body("Mul", x, x))]
        return [y, z, *found], []

    def fill(shape: list[int], value: np.float32) -> str:
        sizes = graph("Concat", graph("Shape", "input", start=0, end=1), graph.weight(np.array(shape)), axis=0)
        return graph("Expand", graph.weight(value), sizes)

    zero = np.float32(0)
    start = [fill([neurons], zero), fill([neurons], zero), *(fill([levels, 2 * neurons], zero) for _ in range(4))]
    if bank.plain:
        start += [fill([2 * neurons], LOWEST), fill([2 * neurons], zero), fill([2 * neurons], zero)]
    steps = graph("Squeeze", graph("Shape", channels, start=0, end=1))
    clock = graph("Range", graph.weight(np.int64(0)), steps, graph.weight(np.int64(1)))
    middle = graph("Add", graph("Cast", clock, to=FLOAT), graph.weight(np.float32(0.5)))
    (y, z, share, when, _, longest, *sums), _ = graph.scan(step, start, [channels, middle])
    count = graph("Cast", steps, to=FLOAT)
    parts = [
        graph("Div", share, count),
        graph("Div", graph("Div", when, graph("Max", share, one)), count),
        graph("Div", longest, count),
    ]
    # Rows of the readout: variable, then threshold and statistic (or plain statistic), then neuron.
    weight = model.readout.weight.reshape(2, -1, neurons, outputs)
    scores = graph.weight(model.readout.bias.astype(np.float32))
    flat = graph.weight(np.array([0, -1]))
    for stat, part in enumerate(parts):
        own = weight[:, stat : levels * LEVEL_STATS : LEVEL_STATS].transpose(1, 0, 2, 3).reshape(-1, outputs)
        product = graph("MatMul", graph("Reshape", part, flat), graph.weight(np.ascontiguousarray(own)))
        scores = graph("Add", product, scores)
    if sums:
        highest, total, squares = sums
        plain = [
            highest,
            graph("Div", total, count),
            graph("Sqrt", graph("Div", squares, count)),
            graph("Concat", y, z, axis=1),
        ]
        for stat, part in enumerate(plain):
            own = np.ascontiguousarray(weight[:, levels * LEVEL_STATS + stat].reshape(-1, outputs))
            scores = graph("Add", graph("MatMul", part, graph.weight(own)), scores)
    return scores


def check_bank(content: bytes, estimator: Any) -> float:
    """Return the largest deviation from Python on sequences of two lengths; raise if it is above `LIMIT`."""
    from cornn.export.check import open_session

    running, inputs = open_session(content), estimator.bank_.bank.inputs
    random, worst = np.random.default_rng(0), 0.0
    classes = estimator.output_spec().classes
    for count, steps in ((5, 50), (1, 17)):
        noise = random.normal(size=(count, steps, inputs.features))
        given = (noise * inputs.scale + inputs.mean).astype(np.float32)
        found = running.run(None, {"input": given})[0]
        expected = estimator.predict_proba(given) if classes else estimator.predict(given)
        worst = max(worst, float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30)))
    if not worst <= LIMIT:
        raise ValueError(
            f"the output in onnxruntime deviates from Python's by {worst:.1e} of its largest value, more than {LIMIT}: "
            "the file is not written. Check that the model is trained and finite"
        )
    return worst
