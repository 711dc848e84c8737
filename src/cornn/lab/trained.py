"""Load a trained model together with the task that it was trained for, and the data of the task."""

from dataclasses import fields, replace
from pathlib import Path

from cornn import artifacts
from cornn.export.load import TaskData, TrainedBank, TrainedModel, load_model
from cornn.lab import training
from cornn.lab.config import read_run_config


def load_trained(path: Path) -> TrainedModel | TrainedBank:
    """Load a trained model as `cornn.export.load_model` does; that of a run with its task and the data of the task."""
    trained = load_model(path)
    if isinstance(trained, TrainedBank) or trained.estimator is not None:
        return trained
    config = read_run_config(artifacts.load_run(path))
    task = training.load(config)
    data = TaskData(**{field.name: getattr(task, field.name) for field in fields(TaskData)})
    return replace(trained, name=f"{task.name}, {config.model.name}", task=data)
