"""Exported code held against PyTorch, on this machine."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.export.c import host
from cornn.export.c.ir import Plain
from cornn.export.c.source import render
from cornn.export.c.vectors import STEPS, Trial, trial
from cornn.export.load import Trained

__all__ = ["Checked", "check"]

FLOAT32_LIMIT = 1e-5
"""How far float32 code may be from PyTorch, as a share of the largest answer: some hundred roundings."""
OWN_ERROR = 8
"""Where PyTorch's own float32 is far from its float64, so many times that: another order of the same sums."""
FAST_PRODUCTS, SANITIZED_PRODUCTS = 2e10, 1e9
"""Multiplications with weights that a check does at most: some ten seconds each."""


@dataclass(frozen=True)
class Checked:
    """What the comparison found."""

    words: str  # on which sequences
    sanitized: int  # how many of them ran under the sanitizers too
    difference: float  # the largest, as a share of PyTorch's largest answer
    metric: str
    pytorch: float
    c: float
    loss: float  # points of a metric in percent, or percent of another one, that C is worse


def check(
    folder: Path, trained: Trained, model: Plain, weights: str, *, count: int | None, largest_loss: float, data: Any
) -> Checked:
    """Compile and run the code of a folder, with the sanitizers and without; raise if it is not what PyTorch is.

    count: sequences; None: as many as the time allows. largest_loss: of `Checked.loss`, with int8 weights.
    """
    steps = trained.task.length if trained.task is not None else STEPS
    cost = steps * model.multiplications["weights"]
    tried = trial(trained, count or max(1, int(FAST_PRODUCTS / cost)), data)
    few = tried.sequences[: max(1, int(SANITIZED_PRODUCTS / cost))]
    words = model.embedding is not None
    values = {"sample": "uint32_t sample" if words else "float sample[MODEL_INPUTS]", "address": "&" * words}
    program = render("check.c.in", values | {"every": int(tried.every)})
    found = []
    for name, part in (("sanitized", few), ("fast", tried.sequences)):
        if len(found) == 1 and len(few) == len(tried.sequences):
            break
        (folder / f"{name}.c").write_text(program, encoding="ascii")
        host.build(folder, folder / name, sanitized=name == "sanitized")
        found.append(host.answers(folder / name, part, model.outputs))
    checked = _compared(tried, found[0], found[-1], len(few))
    if weights == "float32":
        limit = max(FLOAT32_LIMIT, OWN_ERROR * _share(tried.answers, tried.double))
        if not checked.difference <= limit:
            raise ValueError(
                f"the C code's answers are {checked.difference:.1e} of the largest one away from PyTorch's, more than "
                f"{limit:.1e}: it is not written. Is the model trained and finite?"
            )
    elif not checked.loss <= largest_loss:
        raise ValueError(
            f"int8 weights take {checked.metric} from {checked.pytorch:.6g} to {checked.c:.6g} on {checked.words}, "
            f"a loss of {checked.loss:.3g}, more than {largest_loss:g}: it is not written. Use --weights float32, "
            "calibrate on more sequences, or allow it with --largest-loss"
        )
    return checked


def _compared(tried: Trial, few: NDArray, answers: NDArray, sanitized: int) -> Checked:
    pytorch, c = tried.measure(tried.answers), tried.measure(answers)
    if tried.better == "higher":
        # A share of 1 is counted in percent, like an accuracy.
        loss = (pytorch - c) * (100 if tried.metric.startswith("R²") else 1)
    else:
        loss = 100 * (c / pytorch - 1) if pytorch else 100 * c
    difference = float(np.maximum(_share(answers, tried.answers), _share(few, tried.answers[: len(few)])))
    return Checked(tried.words, sanitized, difference, tried.metric, pytorch, c, loss)


def _share(found: NDArray, wanted: NDArray) -> float:
    """The largest difference, as a share of the largest value."""
    if found.shape != wanted.shape:
        raise RuntimeError(f"the exported code gave {found.shape} answers, {wanted.shape} were expected")
    largest = float(np.abs(wanted).max())
    return float(np.abs(found - wanted).max()) / max(largest, float(np.finfo(np.float32).tiny))
