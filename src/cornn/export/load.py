"""What is shipped: a trained model, read from a run folder or from an estimator's file."""

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

__all__ = ["Trained", "as_trained", "open_trained"]


@dataclass(frozen=True)
class Trained:
    """A model on the CPU that is not trained further, and what is known of it.

    task: of a run, with its data.
    estimator: one of `cornn.estimators`, whose model it is; it standardises what goes in and says what comes out.
    """

    name: str
    model: SequenceModel
    task: "Task | None" = None
    estimator: Any = None

    def sequences(self, count: int, seed: int = 0) -> Tensor | None:
        """Some of the task's validation sequences, (time, batch, features) or words (time, batch); None: no task."""
        if self.task is None:
            return None
        part = self.task.validation
        rows = torch.arange(min(part.size, count) if part.size else count)
        return part.batch(rows, generator(seed, "export")).input


def as_trained(given: Any) -> Trained:
    """given: a `SequenceModel`, of which a copy is taken, a fitted estimator, or what `open_trained` gave."""
    if isinstance(given, Trained):
        return given
    if isinstance(given, SequenceModel):
        return Trained("model", copy.deepcopy(given).cpu().eval())
    if isinstance(getattr(given, "model_", None), SequenceModel):
        return Trained(type(given).__name__, given.model_.eval(), estimator=given)
    raise ValueError(f"a SequenceModel or a fitted estimator can be exported, this is a {type(given).__name__}")


def open_trained(path: Path) -> Trained:
    """The model of a folder of `cornn train` or `cornn fit`, or of the file that an estimator's `save` wrote.

    Nothing that a file holds is executed.
    """
    file = path / "model.safetensors" if path.is_dir() else path
    if not file.is_file() and not (path / "config.json").is_file():
        raise FileNotFoundError(
            f"{path} holds no model: give a folder of `cornn train` or `cornn fit`, or the file that an estimator's "
            "`save` wrote"
        )
    if path.is_dir() and not _has_settings(file):
        return _of_run(path)
    from cornn.estimators import load

    return as_trained(load(file))


def _has_settings(file: Path) -> bool:
    """An estimator's file has its settings in the header, where a run's has nothing."""
    if not file.is_file():
        return False
    try:
        with safe_open(file, "pt") as weights:
            return bool(weights.metadata())
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged: {error}") from error


def _of_run(path: Path) -> Trained:
    from cornn.lab import training  # whoever ships a model of their own needs none of it
    from cornn.lab.runs import open_run

    run = open_run(path)
    weights = run.weights()
    config = training.from_dictionary(run.config)
    task = training.load(config)
    model = training.build(config, task)
    model.load_state_dict(weights)
    return Trained(f"{task.name}, {config.model}", model.eval(), task)
