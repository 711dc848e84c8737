"""Sequences for the calibration and check of exported code, with PyTorch's outputs."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from cornn._arguments import Argument, ArgumentError
from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.export.c.ir import output_scaling
from cornn.export.load import Batch, TaskData, TrainedModel
from cornn.models import SequenceModel

__all__ = ["ReferenceVectors", "load_calibration", "make_vectors"]

AT_ONCE = 256  # sequences
STEPS = 100  # of random sequences, if there are no data


@dataclass(frozen=True)
class ReferenceVectors:
    """Sequences and PyTorch's outputs, after each sequence or after each step."""

    sequences: list[NDArray]  # inputs of the C code: (time, inputs) float32, or words (time,) uint32
    answers: NDArray[np.float32]  # (rows, outputs)
    double: NDArray[np.float64]  # the same, computed in float64
    every: bool  # whether there are outputs after each step
    metric: str
    better: Literal["higher", "lower"]
    measure: Callable[[NDArray], float]  # outputs -> metric
    words: str  # description of the sequences
    percent: float = 1.0  # what converts the metric to percent: 100 for R²


def load_calibration(trained: TrainedModel, count: int, data: Any = None) -> Tensor:
    """Return inputs of the first layer, (time, batch, inputs), from the task's training split or from `data`."""
    if trained.task is not None:
        split = trained.task.training
        rows = torch.arange(min(split.size, count) if split.size else count)
        input = split.batch(rows, generator(0, "export", "calibration")).input
    elif data is not None:
        input = _read_data(trained, data, count)[1].input
    else:
        words = "int8 needs sample sequences for calibration: pass "
        raise ArgumentError(words, Argument("data"), ", in the layout of the training data")
    with torch.no_grad():
        return trained.model.encoder(input)


def make_vectors(trained: TrainedModel, count: int, data: Any = None, target: Any = None) -> ReferenceVectors:
    """Make at most `count` vectors from the task's test split, else from `data`, else at random.

    Args:
        trained: The model.
        count: Maximum number of sequences.
        data: For an estimator any input of `predict`; for a bare model a tensor (time, batch, inputs).
        target: Labels or numbers of the sequences of an estimator's `data`, to measure by; else by PyTorch's answers.
    """
    if trained.task is not None:
        return _make_task_vectors(trained, trained.task, count)
    sequences, batch = _read_data(trained, _draw_sequences(trained) if data is None else data, count, target)
    answers, double = _answers(trained, batch)
    kind = trained.estimator is not None and trained.estimator.output_spec().meaning == "classes"
    words = f"{len(sequences):,} sequences " + ("drawn at random" if data is None else "of the data")

    def measure_agreement(outputs: NDArray) -> float:
        if kind:
            return 100.0 * float((outputs.argmax(1) == answers.argmax(1)).mean())
        spread = float(np.square(answers - answers.mean(0)).sum())
        return 1 - float(np.square(outputs - answers).sum()) / spread if spread else float((outputs == answers).all())

    metric: _Metric = ("agreement", measure_agreement, 1.0) if kind else ("R² with PyTorch", measure_agreement, 100.0)
    if target is not None and trained.estimator is not None:
        metric = _choose_metric(trained.estimator.output_spec(), np.asarray(target)[:count], answers.shape)
    name, measure, percent = metric
    every = trained.model.read == "every"
    return ReferenceVectors(sequences, answers, double, every, name, "higher", measure, words, percent)


_Metric = tuple[str, Callable[[NDArray], float], float]
"""The name of a metric, the function that measures outputs, and what converts the metric to percent."""


def _choose_metric(spec: Any, target: NDArray, shape: tuple[int, ...]) -> _Metric:
    """Return a metric that measures outputs of a shape by the true labels or numbers."""
    if spec.meaning == "changes":
        raise ArgumentError("the data of a forecaster contain what it forecasts: omit ", Argument("target"))
    if spec.meaning == "classes":
        labels = np.asarray(spec.classes)
        return "accuracy", lambda outputs: 100.0 * float((labels[outputs.argmax(1)] == target).mean()), 1.0
    truth = target.astype(np.float64).reshape(len(target), -1)
    if truth.shape != shape:
        raise ValueError(f"target has shape {target.shape}, but the model has {shape[1]} outputs")
    if not np.isfinite(truth).all():
        raise ValueError("target contains NaN or infinite values: leave these sequences out")
    spread = max(float(np.square(truth - truth.mean(0)).sum()), np.finfo(np.float64).tiny)
    return "R²", lambda outputs: 1 - float(np.square(outputs - truth).sum()) / spread, 100.0


def _make_task_vectors(trained: TrainedModel, task: TaskData, count: int) -> ReferenceVectors:
    split, random = task.test(), generator(0, "testing")
    every = task.read == "every"
    batches = [split.batch(index, random) for index in torch.arange(min(split.size or count, count)).split(AT_ONCE)]
    results = [_answers(trained, batch) for batch in batches]
    sequences = [sequence for batch in batches for sequence in _sequences(batch)]

    def measure(answers: NDArray) -> float:
        """Compute the task's metric."""
        scores, begin = [], 0
        for batch, (rows, _) in zip(batches, results, strict=True):
            flat = torch.from_numpy(np.array(answers[begin : begin + len(rows)], np.float32))
            time, size = batch.input.shape[:2]
            shaped = flat.reshape(size, time, -1).transpose(0, 1) if every else flat
            scores.append(task.score(shaped, batch.target))
            begin += len(rows)
        return task.reduce(torch.cat(scores)).item()

    answers, double = (np.concatenate(parts) for parts in zip(*results, strict=True))
    words = f"{len(sequences):,} of {split.size or len(sequences):,} test sequences"
    return ReferenceVectors(sequences, answers, double, every, task.metric, task.better, measure, words)


def _answers(trained: TrainedModel, batch: Batch) -> tuple[NDArray, NDArray]:
    """Return the outputs in float32 and in float64, (rows, outputs)."""
    units, offset = output_scaling(trained)
    results = []
    for model in (trained.model, copy.deepcopy(trained.model).double()):
        answer = _run(model, batch)
        if model.read == "every":
            answer = answer.transpose(0, 1).flatten(0, 1)
        results.append(answer.numpy() * units + offset)
    return results[0].astype(np.float32), results[1]


@torch.no_grad()
def _run(model: SequenceModel, batch: Batch) -> Tensor:
    input = batch.input
    if input.is_floating_point():
        input = input.to(model.head.weight.dtype)
    with no_tf32():
        return model(input, batch.lengths)


def _sequences(batch: Batch) -> list[NDArray]:
    """Return each sequence as input of the C code."""
    table = batch.input.transpose(0, 1).numpy()
    table = table.astype(np.float32 if batch.input.is_floating_point() else np.uint32)
    lengths = [len(row) for row in table] if batch.lengths is None else batch.lengths.tolist()
    return [np.ascontiguousarray(row[:length]) for row, length in zip(table, lengths, strict=True)]


def _read_data(trained: TrainedModel, data: Any, count: int, target: Any = None) -> tuple[list[NDArray], Batch]:
    """Return the sequences as inputs of the C code and as inputs of the model; check the length of `target`."""
    empty = torch.empty(0)
    if trained.estimator is None:
        batch = Batch(_check_data(trained.model, torch.as_tensor(data))[:, :count].contiguous(), empty)
        return _sequences(batch), batch
    read = trained.estimator.validate_input(data)
    if target is not None and len(target) != len(read):
        raise ValueError(f"data has {len(read)} sequences and target {len(target)} entries: pass one per sequence")
    read = read[:count]
    # The C code gets float32 samples; PyTorch must get the same values.
    rounded = [row.values.astype(np.float32) for row in read]
    padded = trained.estimator.preparation_(
        [row._replace(values=values.astype(np.float64)) for row, values in zip(read, rounded, strict=True)]
    )
    return rounded, Batch(padded.input, empty, padded.lengths)


def _check_data(model: SequenceModel, data: Tensor) -> Tensor:
    """Return the sequences of a model without an estimator, as integers or in float32, after checking them."""
    if isinstance(model.encoder, nn.Embedding):
        shape, kind = "(time, batch)", f"whole numbers below {model.encoder.num_embeddings}"
        fits = data.dim() == 2 and not data.is_floating_point()
        known = fits and bool(((data >= 0) & (data < model.encoder.num_embeddings)).all())
    else:
        shape, kind = f"(time, batch, {model.layer.input_size})", "finite numbers"
        fits = data.dim() == 3 and data.shape[2] == model.layer.input_size
        data = data.float()  # as the C code gets it
        known = bool(data.isfinite().all())
    if not fits or 0 in data.shape or not known:
        raise ValueError(f"data must be {kind} of shape {shape}, got {data.dtype} of shape {tuple(data.shape)}")
    return data


def _draw_sequences(trained: TrainedModel) -> Any:
    """Draw sequences with the scale of the training data of an estimator, or with standard deviation 1."""
    random, encoder = generator(0, "export", "drawn"), trained.model.encoder
    if isinstance(encoder, nn.Embedding):
        return torch.randint(encoder.num_embeddings, (STEPS, AT_ONCE), generator=random)
    size = trained.model.layer.input_size if trained.estimator is None else len(trained.estimator.preparation_.mean)
    samples = torch.randn(STEPS, AT_ONCE, size, generator=random)
    if trained.estimator is None:
        return samples
    preparation = trained.estimator.preparation_
    return samples.transpose(0, 1).double().numpy() * preparation.scale + preparation.mean
