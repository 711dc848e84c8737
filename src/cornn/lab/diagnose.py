"""What `cornn check` looks at: the layer of a run, or the one that a task's recipe starts from."""

from collections.abc import Mapping
from pathlib import Path

import torch

from cornn._random import generator
from cornn.lab import training
from cornn.lab.runs import open_run
from cornn.lab.tasks import Task
from cornn.models import SequenceModel
from cornn.theory.diagnose import SEQUENCES, Subject, of_layer

__all__ = ["of_run", "of_task"]


def of_run(path: Path, number: int = 0) -> Subject:
    """The trained layer of a run folder, on sequences of its validation part; of several, the one with this number."""
    run = open_run(path)
    config = training.from_dictionary(run.config)
    task = training.load(config)
    model = training.build(config, task)
    model.load_state_dict(run.weights())
    return _subject(f"{path}: {task.name} after training", model, task, config.seed, number)


def of_task(
    name: str,
    recipe: str | None = None,
    *,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    number: int = 0,
) -> Subject:
    """The layer that a task's recipe starts from, before training."""
    config = training.from_recipe(name, recipe, options=options, seed=seed)
    task = training.load(config)
    model = training.build(config, task)
    return _subject(f"{name}, recipe {config.recipe}, before training", model, task, seed, number)


def _subject(name: str, model: SequenceModel, task: Task, seed: int, number: int) -> Subject:
    index = torch.arange(SEQUENCES)
    batch = task.validation.batch(index, generator(seed, "check"))
    with torch.no_grad():
        features = model.encoder(batch.input)
    return of_layer(name, model.layer, features, number)
