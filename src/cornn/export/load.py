"""Load a trained model from a run folder, a fit folder or an estimator's file."""

import copy
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from cornn._random import generator
from cornn._torch_private import compute_hooked_weights
from cornn.artifacts import RunArtifact, load
from cornn.models import SequenceModel

__all__ = ["Batch", "Split", "TaskData", "TrainedBank", "TrainedModel", "load_model", "wrap_model"]


class Batch(NamedTuple):
    """Sequences for a model."""

    input: Tensor  # (time, batch, features), or words (time, batch)
    target: Tensor
    lengths: Tensor | None = None  # (batch); None: all steps


class Split(Protocol):
    """Sequences for training, validation or test."""

    @property
    def size(self) -> int:
        """Number of sequences; 0 if there is no end of them."""
        ...

    def batch(self, index: Tensor, random: torch.Generator, /) -> Any:
        """Return the sequences with these indices as input, target and lengths, like `Batch`."""
        ...


@dataclass(frozen=True)
class TaskData:
    """The data and the metric that a model was trained for, on which an export is checked."""

    length: int  # maximum number of steps
    training: Split
    validation: Split
    test: Callable[[], Split]
    score: Callable[[Tensor, Tensor], Tensor]  # (prediction, target) -> the metric of each sequence
    reduce: Callable[[Tensor], Tensor]  # scores of all sequences -> the metric
    metric: str
    better: Literal["lower", "higher"]
    read: Literal["last", "every", "mean"]


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on the CPU, with its task or its estimator.

    Args:
        name: A description of the model.
        model: The model.
        task: The task of a run, with its data, if the export is to be checked on them.
        estimator: The estimator that the model belongs to, which preprocesses inputs and interprets outputs.
    """

    name: str
    model: SequenceModel
    task: TaskData | None = None
    estimator: Any = None

    def sequences(self, count: int) -> Tensor | None:
        """Return validation sequences, (time, batch, features) or words (time, batch); None without a task."""
        if self.task is None:
            return None
        split = self.task.validation
        rows = torch.arange(min(split.size, count) if split.size else count)
        return split.batch(rows, generator(0, "export")).input


@dataclass(frozen=True)
class TrainedBank:
    """A fitted classifier or regressor with an oscillator bank.

    Args:
        name: A description of the model.
        estimator: The estimator, which has the bank.
    """

    name: str
    estimator: Any


def wrap_model(model: Any) -> TrainedModel | TrainedBank:
    """Wrap a model for export.

    Args:
        model: A `SequenceModel` or a fitted estimator, of which the network is copied, or what this function returned.

    Returns:
        The trained model, or the trained bank.
    """
    if isinstance(model, TrainedModel | TrainedBank):
        return model
    if isinstance(model, SequenceModel):
        return TrainedModel("model", _copy(model))
    from cornn.estimators.base import Estimator
    from cornn.estimators.methods import SequenceEstimator

    if isinstance(model, Estimator) and model.is_fitted():
        if isinstance(model, SequenceEstimator) and model.method_ == "bank":
            return TrainedBank(type(model).__name__, model)
        model.output_spec()  # raises an error if the estimator has no network
        return TrainedModel(type(model).__name__, _copy(model.model_), estimator=model)
    raise ValueError(f"cannot export a {type(model).__name__}: pass a SequenceModel or a fitted estimator")


@torch.no_grad()
def _copy(model: SequenceModel) -> SequenceModel:
    for part in model.modules():
        compute_hooked_weights(part)  # those of a call with gradients cannot be copied
    return copy.deepcopy(model).cpu().eval()


def load_model(path: Path | str) -> TrainedModel | TrainedBank:
    """Load a trained model, without the data that it was trained on. Nothing in its files is executed.

    Args:
        path: A folder of `cornn train` or `cornn fit`, or a file that an estimator's `save` wrote.

    Returns:
        The trained model, or the trained bank.

    Examples:
        >>> load_model("runs/adding-0001").model
    """
    artifact = load(path)
    if isinstance(artifact, RunArtifact):
        return TrainedModel(artifact.path.name, artifact.model())
    return wrap_model(artifact.estimator())
