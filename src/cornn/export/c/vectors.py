"""What exported code is calibrated on and held against: sequences, and PyTorch's answers to them."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.export.c.ir import answer_units
from cornn.export.load import Trained
from cornn.lab.tasks import Batch, Task
from cornn.models import SequenceModel

__all__ = ["Trial", "calibration", "trial"]

AT_ONCE = 256  # sequences
STEPS = 100  # of sequences that are drawn, where there are no data


@dataclass(frozen=True)
class Trial:
    """Sequences and what PyTorch answers to them: after each, or after each step of each, one after another."""

    sequences: list[NDArray]  # (time, inputs) of float32, or words (time) of uint32; as they come to the C code
    answers: NDArray[np.float32]  # (answers, outputs)
    double: NDArray[np.float64]  # the same computed in float64
    every: bool  # whether after each step
    metric: str
    better: Literal["higher", "lower"]
    measure: Callable[[NDArray], float]  # answers -> the metric
    words: str  # where the sequences are from


def calibration(trained: Trained, count: int, data: Any = None) -> Tensor:
    """Sequences as the first layer takes them, (time, batch, inputs): of the task's training part, or of `data`."""
    if trained.task is not None:
        part = trained.task.training
        rows = torch.arange(min(part.size, count) if part.size else count)
        input = part.batch(rows, generator(0, "export", "calibration")).input
    elif data is not None:
        input = _given(trained, data, count)[1].input
    else:
        raise ValueError("int8 weights are calibrated on sequences, and there are none: give --data, or use float32")
    with torch.no_grad():
        return trained.model.encoder(input)


def trial(trained: Trained, count: int, data: Any = None) -> Trial:
    """At most `count` sequences: of the task's test part, else of `data`, else drawn at random.

    data: for an estimator what its `predict` takes; for a bare model a tensor (time, batch, inputs).
    """
    if trained.task is not None:
        return _of_task(trained, trained.task, count)
    sequences, batch = _given(trained, _drawn(trained) if data is None else data, count)
    answers, double = _answers(trained, batch)
    kind = getattr(trained.estimator, "classes_", None) is not None
    words = f"{len(sequences):,} sequences " + ("drawn at random" if data is None else "of the data")

    def measure(found: NDArray) -> float:
        if kind:
            return 100.0 * float((found.argmax(1) == answers.argmax(1)).mean())
        spread = float(np.square(answers - answers.mean(0)).sum())
        return 1 - float(np.square(found - answers).sum()) / spread if spread else float((found == answers).all())

    name = "agreement" if kind else "R² with PyTorch"
    return Trial(sequences, answers, double, trained.model.read == "every", name, "higher", measure, words)


def _of_task(trained: Trained, task: Task, count: int) -> Trial:
    part, random = task.test(), generator(0, "testing")
    every = task.read == "every"
    batches = [part.batch(index, random) for index in torch.arange(min(part.size or count, count)).split(AT_ONCE)]
    found = [_answers(trained, batch) for batch in batches]
    sequences = [sequence for batch in batches for sequence in _sequences(batch)]

    def measure(answers: NDArray) -> float:
        """In the shapes that the task's score takes."""
        scores, begin = [], 0
        for batch, (own, _) in zip(batches, found, strict=True):
            flat = torch.from_numpy(np.array(answers[begin : begin + len(own)], np.float32))
            time, size = batch.input.shape[:2]
            shaped = flat.reshape(size, time, -1).transpose(0, 1) if every else flat
            scores.append(task.score(shaped, batch.target))
            begin += len(own)
        return task.reduce(torch.cat(scores)).item()

    answers, double = (np.concatenate(parts) for parts in zip(*found, strict=True))
    words = f"{len(sequences):,} of {part.size or len(sequences):,} test sequences"
    return Trial(sequences, answers, double, every, task.metric, task.better, measure, words)


def _answers(trained: Trained, batch: Batch) -> tuple[NDArray, NDArray]:
    """In float32 and in float64, (answers, outputs)."""
    units, offset = answer_units(trained)
    found = []
    for model in (trained.model, copy.deepcopy(trained.model).double()):
        answer = _run(model, batch)
        if model.read == "every":
            answer = answer.transpose(0, 1).flatten(0, 1)
        found.append(answer.numpy() * units + offset)
    return found[0].astype(np.float32), found[1]


@torch.no_grad()
def _run(model: SequenceModel, batch: Batch) -> Tensor:
    input = batch.input
    if input.is_floating_point():
        input = input.to(model.head.weight.dtype)
    with no_tf32():
        return model(input, batch.lengths)


def _sequences(batch: Batch) -> list[NDArray]:
    """Each as it comes to the C code."""
    table = batch.input.transpose(0, 1).numpy()
    table = table.astype(np.float32 if batch.input.is_floating_point() else np.uint32)
    lengths = [len(row) for row in table] if batch.lengths is None else batch.lengths.tolist()
    return [np.ascontiguousarray(row[:length]) for row, length in zip(table, lengths, strict=True)]


def _given(trained: Trained, data: Any, count: int) -> tuple[list[NDArray], Batch]:
    """Sequences as they come to the C code, and as the model takes them."""
    nothing = torch.empty(0)
    if trained.estimator is None:
        batch = Batch(torch.as_tensor(data)[:, :count].contiguous(), nothing)
        return _sequences(batch), batch
    read = trained.estimator._again(data, None)[:count]
    # Samples come to the C code as float32: PyTorch is to see the same.
    rounded = [row.values.astype(np.float32) for row in read]
    padded = trained.estimator.preparation_(
        [row._replace(values=values.astype(np.float64)) for row, values in zip(read, rounded, strict=True)]
    )
    return rounded, Batch(padded.input, nothing, padded.lengths)


def _drawn(trained: Trained) -> Any:
    """Sequences as wide as the training data, of an estimator, or of deviation 1."""
    random, encoder = generator(0, "export", "drawn"), trained.model.encoder
    if isinstance(encoder, nn.Embedding):
        return torch.randint(encoder.num_embeddings, (STEPS, AT_ONCE), generator=random)
    size = trained.model.layer.input_size if trained.estimator is None else len(trained.estimator.preparation_.mean)
    drawn = torch.randn(STEPS, AT_ONCE, size, generator=random)
    if trained.estimator is None:
        return drawn
    preparation = trained.estimator.preparation_
    return drawn.transpose(0, 1).double().numpy() * preparation.scale + preparation.mean
