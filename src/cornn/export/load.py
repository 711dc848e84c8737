"""Load a trained model from a run folder, a fit folder or an estimator's file."""

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from cornn._random import generator
from cornn.models import SequenceModel

if TYPE_CHECKING:
    from cornn.lab.tasks import Task

__all__ = ["TrainedModel", "load_model", "wrap_model"]


@dataclass(frozen=True)
class TrainedModel:
    """A trained model on the CPU, with its task or its estimator.

    Args:
        name: A description of the model.
        model: The model.
        task: The task of a run, with its data.
        estimator: The estimator that the model belongs to, which preprocesses inputs and interprets outputs.
    """

    name: str
    model: SequenceModel
    task: "Task | None" = None
    estimator: Any = None

    def sequences(self, count: int, seed: int = 0) -> Tensor | None:
        """Return validation sequences, (time, batch, features) or words (time, batch); None without a task."""
        if self.task is None:
            return None
        part = self.task.validation
        rows = torch.arange(min(part.size, count) if part.size else count)
        return part.batch(rows, generator(seed, "export")).input


def wrap_model(given: Any) -> TrainedModel:
    """Wrap a model for export.

    Args:
        given: A `SequenceModel`, which is copied, a fitted estimator, or a `TrainedModel`.

    Returns:
        The trained model.
    """
    if isinstance(given, TrainedModel):
        return given
    if isinstance(given, SequenceModel):
        return TrainedModel("model", copy.deepcopy(given).cpu().eval())
    if isinstance(getattr(given, "model_", None), SequenceModel):
        return TrainedModel(type(given).__name__, given.model_.eval(), estimator=given)
    raise ValueError(f"cannot export a {type(given).__name__}: pass a SequenceModel or a fitted estimator")


def load_model(path: Path) -> TrainedModel:
    """Load a trained model. Nothing in its files is executed.

    Args:
        path: A folder of `cornn train` or `cornn fit`, or a file that an estimator's `save` wrote.

    Returns:
        The trained model.

    Examples:
        >>> load_model(Path("runs/adding-0001")).model
    """
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file() and not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"no model in {path}: pass a folder of `cornn train` or `cornn fit`, or a file that an estimator's `save` "
            "wrote"
        )
    if path.is_dir() and not _has_settings(file):
        return _of_run(path)
    from cornn.estimators import load

    return wrap_model(load(file))


def _has_settings(file: Path) -> bool:
    """Return whether the file has settings in its header, as an estimator's file has and a run's has not."""
    if not file.is_file():
        return False
    try:
        with safe_open(file, "pt") as weights:
            return bool(weights.metadata())
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged: {error}") from error


def _of_run(path: Path) -> TrainedModel:
    from cornn.lab import training  # not needed to export other models
    from cornn.lab.runs import open_run

    run = open_run(path)
    weights = run.weights()
    config = training.from_dictionary(run.config)
    task = training.load(config)
    model = training.build(config, task)
    model.load_state_dict(weights)
    return TrainedModel(f"{task.name}, {config.model}", model.eval(), task)
