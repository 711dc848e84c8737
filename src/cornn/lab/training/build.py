"""From a configuration to its task, and to a model with its initial weights."""

from pathlib import Path
from typing import Any

from torch import nn

from cornn._random import generator
from cornn.engine import check_backend
from cornn.lab.config import Train
from cornn.lab.tasks import Task
from cornn.models import SequenceModel


def load(config: Train) -> Task:
    """Load the task of a configuration with its data."""
    check_backend(config.place.backend)  # before the data are read
    data = config.place.data
    return config.task.load(config.seed, None if data is None else Path(data))


def build(config: Train, task: Task) -> SequenceModel:
    """Return the model of a configuration with its initial weights."""
    spec: Any = config.model
    layer = spec.build(task, config.place.backend)
    words = None if task.words is None else nn.Embedding.from_pretrained(task.words.clone(), False, task.padding)
    model = SequenceModel(layer, task.outputs, read=task.read, encoder=words)
    model.reset_parameters(generator(config.seed, "weights"))
    spec.finish(layer, task)
    return model
