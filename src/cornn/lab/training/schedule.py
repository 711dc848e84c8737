"""The schedule of a run: steps, epochs, evaluations, the order of the sequences, the learning rate."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn._random import generator
from cornn.lab.recipes import Recipe
from cornn.lab.tasks import Task
from cornn.lab.training.config import Train

__all__ = ["Plan", "plan", "rates", "share_of_rate", "table"]

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
        """Number of steps after which the order of the sequences repeats."""
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
            raise ValueError(f"{task.name} draws new sequences at every step and has no epochs: give steps instead")
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


def share_of_rate(recipe: Recipe, name: str, length: int) -> float:
    """Of the learning rate, for the parameter of this name."""
    kinds = ("weight_ih", "bias", "weight_hh") if name.startswith("layer.") else ()
    kind = next((kind for kind in kinds if kind in name), None)
    share = recipe.recurrent_rate if kind == "weight_hh" else 1.0
    if kind is not None and recipe.rates_by_length is not None:
        V, b, W = recipe.rates_by_length
        share *= min({"weight_ih": V, "bias": b, "weight_hh": W}[kind] / length, 1.0)
    return share


def table(recipe: Recipe, rates: Sequence[Sequence[float]]) -> Tensor:
    """For each step and model the rate of decay, the step size, and the root that corrects Adam's second moment.

    rates: of each model, the learning rate of each step. A model that is done before the others holds its last values,
        which no one uses: (steps, models, 3).
    """
    most = max(len(own) for own in rates)
    table = torch.empty(most, len(rates), 3, dtype=torch.float64)
    for number, steps in enumerate(rates):
        own = torch.tensor(steps, dtype=torch.float64)
        own = torch.cat((own, own[-1:].expand(most - len(own))))
        step = torch.arange(1, most + 1, dtype=torch.float64)
        table[:, number, 0] = own * recipe.weight_decay
        corrected = recipe.optimiser == "adam"
        table[:, number, 1] = own / (1 - recipe.beta1**step) if corrected else own
        table[:, number, 2] = (1 - recipe.beta2**step).sqrt() if corrected else 1.0
    return table.float()
