"""Select the layer for `cornn check`: a trained one from a run folder, or an untrained one from a task's recipe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from cornn._random import generator
from cornn.lab import training
from cornn.lab.config import read_run_config
from cornn.lab.recipes import resolve
from cornn.lab.runs import open_run
from cornn.lab.tasks import Task
from cornn.models import SequenceModel
from cornn.theory import Subject, subject_from_layer
from cornn.theory._diagnose import SEQUENCES


def subject_from_run(path: Path, index: int = 0) -> Subject:
    """Select a trained layer of a finished run, counted from 0, with validation sequences as input."""
    run = open_run(path)
    config = read_run_config(run)
    task = training.load(config)
    model = training.build(config, task)
    run.load_weights(model)
    return _subject(f"{path}: {task.name} after training", model, task, config.seed, index)


def subject_from_task(
    name: str,
    recipe: str | None = None,
    *,
    seed: int = 0,
    options: Mapping[str, Any] | None = None,
    index: int = 0,
) -> Subject:
    """Select an untrained layer of a task's recipe, counted from 0, with validation sequences as input.

    `options` are those of the task, such as {"length": 500}.
    """
    config = resolve(name, recipe, seed=seed, **(options or {}))
    task = training.load(config)
    model = training.build(config, task)
    return _subject(f"{name}, recipe {config.recipe}, before training", model, task, seed, index)


def _subject(name: str, model: SequenceModel, task: Task, seed: int, index: int) -> Subject:
    batch = task.validation.batch(torch.arange(SEQUENCES), generator(seed, "check"))
    with torch.no_grad():
        features = model.encoder(batch.input)
    return subject_from_layer(name, model.layer, features, index)
