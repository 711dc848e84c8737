"""A run while it is being trained."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from cornn._random import generator
from cornn.lab.config import Train
from cornn.lab.runs import Run
from cornn.lab.tasks import Task
from cornn.lab.tasks.task import Split
from cornn.lab.training.build import build, load
from cornn.lab.training.schedule import Plan, plan
from cornn.models import SequenceModel


@dataclass(frozen=True)
class Best:
    """The best validation so far."""

    metric: float
    step: int
    weights: Tensor  # (numbers)
    buffers: dict[str, Tensor]  # of the model; DTRIV's bases change


@dataclass
class RunState:
    """A run while it is being trained."""

    config: Train
    task: Task
    model: SequenceModel
    plan: Plan
    training: Split
    validation: Split
    random: torch.Generator
    run: Run | None = None  # None in all processes but the first
    step: int = 0
    seconds: float = 0.0
    evaluated: int = 0  # the step of the latest evaluation
    loss: float | None = None
    metric: float | None = None
    best: Best | None = None
    theory: dict[str, float] | None = None  # at the latest evaluation, if it is to be recorded
    failure: str | None = None  # why it failed
    side_by_side: int = 1  # largest number of runs that it was trained with, itself included
    complete: bool = False
    tested: bool = True  # whether the test split is read at the end, and the result written
    tensors: dict[str, Tensor] = field(default_factory=dict)
    """The tensors that a step changes, by name: views of the tensors of all runs that are trained side by side."""

    @property
    def running(self) -> bool:
        return not self.complete and self.failure is None

    @property
    def over(self) -> bool:
        """Whether there is nothing left to train."""
        good = self.evaluated == self.step and self.metric is not None and self._is_good_enough(self.metric)
        return self.step >= self.plan.steps or good

    @property
    def kept_metric(self) -> float | None:
        """The validation metric of the weights that are kept."""
        return self.best.metric if self.config.budget.keep == "best" and self.best is not None else self.metric

    def _is_good_enough(self, metric: float) -> bool:
        until = self.config.budget.until
        return bool(until) and (metric <= until if self.task.better == "lower" else metric >= until)

    def better(self, metric: float) -> bool:
        if not math.isfinite(metric):
            return False
        if self.best is None:
            return True
        return metric < self.best.metric if self.task.better == "lower" else metric > self.best.metric

    @property
    def weights(self) -> Tensor:
        """The weights that are evaluated: their average, if there is one."""
        return self.tensors.get("average", self.tensors["weights"])

    def buffers(self) -> dict[str, Tensor]:
        """Return copies of the model's buffers by name."""
        return {name: buffer.detach().clone() for name, buffer in self.model.named_buffers()}


def prepare(config: Train, fabric: Any, task: Task | None = None) -> RunState:
    """Return a run before its first step: the data on the device, a model with its initial weights.

    The task of the configuration is loaded unless it is given.
    """
    # Parsed data is cached: the first process of a machine parses, the others read its cache.
    with fabric.rank_zero_first(local=True):
        task = task or load(config)
    model = build(config, task).to(fabric.device)
    training, validation = task.training.to(fabric.device), task.validation.to(fabric.device)
    random = generator(config.seed, "training", device=fabric.device)
    return RunState(config, task, model, plan(config, task), training, validation, random)
