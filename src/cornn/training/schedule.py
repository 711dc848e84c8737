"""When what happens: steps and epochs, evaluations, the order of the sequences, the learning rate."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.paper import Recipe
from cornn.seeds import generator
from cornn.tasks import Task
from cornn.training.config import Train

__all__ = ["Plan", "plan", "rates"]

# Where there are no epochs.
STEPS_BETWEEN_EVALUATIONS = 100


@dataclass(frozen=True)
class Plan:
    """The steps of a run. Steps and epochs are counted from 1."""

    size: int  # training sequences; 0: drawn without end
    batch: int  # sequences a step
    steps: int  # all of them
    epoch: int | None  # steps in an epoch; None: there are none
    evaluate_every: int

    @property
    def rows(self) -> int:
        """Steps after which the order of the sequences starts anew."""
        return self.epoch or 1

    def due(self, step: int) -> bool:
        return step % self.evaluate_every == 0 or step == self.steps

    def epoch_of(self, step: int) -> int | None:
        return None if self.epoch is None else (step - 1) // self.epoch + 1

    def begins_epoch(self, step: int) -> bool:
        return self.epoch is not None and (step - 1) % self.epoch == 0

    def count(self, step: int) -> int:
        """Sequences of a step: an epoch's last batch may be smaller."""
        if self.epoch is None or step % self.epoch:
            return self.batch
        return self.size - (self.epoch - 1) * self.batch

    def order(self, seed: int, epoch: int | None) -> Tensor:
        """The sequences of each step of an epoch, (steps, batch). The last batch is filled up with sequence 0."""
        if self.epoch is None:
            return torch.arange(self.batch).unsqueeze(0)
        index = torch.zeros(self.epoch * self.batch, dtype=torch.int64)
        index[: self.size] = torch.randperm(self.size, generator=generator(seed, "order", epoch or 1))
        return index.view(self.epoch, self.batch)


def plan(config: Train, task: Task) -> Plan:
    recipe, size = config.settings, task.training.size
    if size == 0:
        if recipe.steps is None:
            raise ValueError(f"{task.name} draws its sequences without end and has no epochs: give steps instead")
        return Plan(0, recipe.batch_size, recipe.steps, None, config.evaluate_every or STEPS_BETWEEN_EVALUATIONS)
    batch = min(recipe.batch_size, size)
    epoch = -(-size // batch)
    steps = recipe.steps if recipe.epochs is None else recipe.epochs * epoch
    assert steps is not None  # `check` has seen to it
    return Plan(size, batch, steps, epoch, config.evaluate_every or epoch)


def rates(recipe: Recipe, plan: Plan) -> list[float]:
    """The learning rate of each step."""
    drop = recipe.drop_after * (plan.epoch or 1 if recipe.epochs is not None else 1)

    def share(step: int) -> float:
        if step <= recipe.warm_up:
            return step / recipe.warm_up
        if recipe.schedule == "cosine":
            return 0.5 + 0.5 * math.cos(math.pi * (step - recipe.warm_up) / (plan.steps - recipe.warm_up))
        if recipe.schedule == "drop" and step > drop:
            return recipe.drop_to
        return 1.0

    return [recipe.learning_rate * share(step) for step in range(1, plan.steps + 1)]
