"""Compare exported C code with PyTorch on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._arguments import Argument, ArgumentError
from cornn.export.c import host
from cornn.export.c.ir import ModelIR
from cornn.export.c.source import render
from cornn.export.c.vectors import STEPS, ReferenceVectors, make_vectors
from cornn.export.load import TrainedModel

__all__ = ["Comparison", "check"]

FLOAT32_LIMIT = 1e-5
"""Maximum deviation of float32 code from PyTorch, relative to the largest output: about a hundred roundings."""
ERROR_RATIO = 8
"""If PyTorch's float32 deviates more from its float64, this multiple of it: the order of summation differs."""
FAST_PRODUCTS, SANITIZED_PRODUCTS = 2e10, 1e9
"""Maximum number of multiplications per check: about ten seconds each."""


@dataclass(frozen=True)
class Comparison:
    """The result of a comparison with PyTorch."""

    words: str  # description of the sequences
    sanitized: int  # number of sequences that also ran under the sanitizers
    difference: float  # largest difference, relative to PyTorch's largest output
    metric: str
    pytorch: float
    c: float
    loss: float  # how much worse C is: points of a metric in percent, else percent


def check(
    folder: Path,
    trained: TrainedModel,
    model: ModelIR,
    weights: str,
    *,
    count: int | None,
    largest_loss: float,
    data: Any,
    target: Any = None,
) -> Comparison:
    """Compile and run model.h and model.c of a folder, with and without sanitizers; raise if they deviate from PyTorch.

    Args:
        folder: The folder.
        trained: The model in PyTorch.
        model: Its arrays.
        weights: "float32" or "int8".
        count: Number of sequences; None means as many as the time allows.
        largest_loss: Maximum of `Comparison.loss`, with int8 weights.
        data: Sequences to compare on, for a model without a task.
        target: Labels or numbers of `data`: the loss is then measured by them, not by agreement with PyTorch.
    """
    steps = trained.task.length if trained.task is not None else STEPS
    cost = steps * model.multiplications["weights"]
    vectors = make_vectors(trained, count or max(1, int(FAST_PRODUCTS / cost)), data, target)
    few = vectors.sequences[: max(1, int(SANITIZED_PRODUCTS / cost))]
    words = model.embedding is not None
    values = {
        "sample": "uint32_t sample" if words else "float sample[MODEL_INPUTS]",
        "address": "&" * words,
        "span": "",
    }
    program = render("check.c.in", values | {"every": int(vectors.every)})
    answers = few_answers = host.compile_and_run(folder, program, few, model.outputs, sanitized=True)
    if len(few) < len(vectors.sequences):
        answers = host.compile_and_run(folder, program, vectors.sequences, model.outputs, sanitized=False)
    checked = _compare(vectors, few_answers, answers, len(few))
    if weights == "float32":
        limit = max(FLOAT32_LIMIT, ERROR_RATIO * _share(vectors.answers, vectors.double))
        if not checked.difference <= limit:
            raise ValueError(
                f"the outputs of the C code deviate from PyTorch's by {checked.difference:.1e} of the largest, more "
                f"than {limit:.1e}: it is not written. Check that the model is trained and finite"
            )
    elif not checked.loss <= largest_loss:
        raise ArgumentError(
            f"int8 weights change {checked.metric} from {checked.pytorch:.6g} to {checked.c:.6g} on {checked.words}, "
            f"a loss of {checked.loss:.3g}, more than {largest_loss:g}: it is not written. Use ",
            *(Argument("weights", "float32"), ", calibrate on more sequences, or allow it with "),
            Argument("largest_loss"),
        )
    return checked


def _compare(vectors: ReferenceVectors, few: NDArray, answers: NDArray, sanitized: int) -> Comparison:
    pytorch, c = vectors.measure(vectors.answers), vectors.measure(answers)
    if vectors.better == "higher":
        loss = (pytorch - c) * vectors.percent
    else:
        loss = 100 * (c / pytorch - 1) if pytorch else 100 * c
    difference = float(np.maximum(_share(answers, vectors.answers), _share(few, vectors.answers[: len(few)])))
    return Comparison(vectors.words, sanitized, difference, vectors.metric, pytorch, c, loss)


def _share(answers: NDArray, expected: NDArray) -> float:
    """Return the largest difference, relative to the largest value."""
    if answers.shape != expected.shape:
        raise RuntimeError(f"the exported code returned outputs of shape {answers.shape}, expected {expected.shape}")
    largest = float(np.abs(expected).max())
    return float(np.abs(answers - expected).max()) / max(largest, float(np.finfo(np.float32).tiny))
