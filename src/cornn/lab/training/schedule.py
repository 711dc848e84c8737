"""The schedule of a run: steps, epochs, evaluations, the order of the sequences, the learning rate."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from cornn._random import generator
from cornn.lab.config import Optimiser, Train
from cornn.lab.tasks import Task
from cornn.models import SequenceModel

# For tasks without epochs.
STEPS_BETWEEN_EVALUATIONS = 100


@dataclass(frozen=True)
class Plan:
    """The steps of a run. Steps and epochs are counted from 1."""

    size: int  # training sequences; 0: drawn without end
    batch: int  # sequences per step
    steps: int  # all of them
    epoch: int | None  # steps in an epoch; None: there are none
    evaluate_every: int
    unit: int = 1  # steps per unit of the length of training: of an epoch, or 1

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
        """Return the number of sequences of a step: the last batch of an epoch may be smaller."""
        if self.epoch is None or step % self.epoch:
            return self.batch
        return self.size - (self.epoch - 1) * self.batch

    def order(self, seed: int, epoch: int | None) -> Tensor:
        """Return the sequences of each step of an epoch, (steps, batch). The last batch is padded with sequence 0."""
        if self.epoch is None:
            return torch.arange(self.batch).unsqueeze(0)
        index = torch.zeros(self.epoch * self.batch, dtype=torch.int64)
        index[: self.size] = torch.randperm(self.size, generator=generator(seed, "order", epoch or 1))
        return index.view(self.epoch, self.batch)


def plan(config: Train, task: Task) -> Plan:
    budget, size = config.budget, task.training.size
    if size == 0:
        assert budget.steps is not None  # `Train.check` ensures it
        return Plan(0, budget.batch_size, budget.steps, None, budget.evaluate_every or STEPS_BETWEEN_EVALUATIONS)
    batch = min(budget.batch_size, size)
    epoch = -(-size // batch)
    steps = budget.steps if budget.epochs is None else budget.epochs * epoch
    assert steps is not None  # `Budget.check` ensures it
    return Plan(size, batch, steps, epoch, budget.evaluate_every or epoch, epoch if budget.epochs is not None else 1)


def learning_rate(optimiser: Optimiser, plan: Plan, step: int) -> float:
    """Return the learning rate of a step. A run that has ended keeps its last one."""
    step = min(step, plan.steps)
    if step <= optimiser.warm_up:
        return optimiser.learning_rate * step / optimiser.warm_up
    if optimiser.schedule == "cosine":
        done = (step - optimiser.warm_up) / (plan.steps - optimiser.warm_up)
        return optimiser.learning_rate * (0.5 + 0.5 * math.cos(math.pi * done))
    drop = optimiser.drop_after * plan.unit
    return optimiser.learning_rate * (optimiser.drop_to if optimiser.schedule == "drop" and step > drop else 1.0)


def shares_of_rate(optimiser: Optimiser, model: SequenceModel, length: int) -> dict[str, float]:
    """Return the share of the learning rate of each parameter, by name, for sequences of this length."""
    layer: Any = model.layer
    shares: dict[Tensor, float] = {}
    for cell in () if isinstance(layer, nn.RNNBase) else layer.cells.values():
        shares |= {getattr(cell, name): optimiser.recurrent_rate for name in cell.recurrent_weights}
        if optimiser.rates_by_length is not None:
            for weight, rate in zip(
                (cell.weight_ih, cell.bias, cell.weight_hh), optimiser.rates_by_length, strict=True
            ):
                shares[weight] = shares.get(weight, 1.0) * min(rate / length, 1.0)
    if isinstance(layer, nn.RNNBase):
        shares = {weights[1]: optimiser.recurrent_rate for weights in layer.all_weights}
    return {name: shares.get(parameter, 1.0) for name, parameter in model.named_parameters()}
