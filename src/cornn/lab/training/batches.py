"""The training batches of one run or of several side by side, drawn on the device, and the losses of the models."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from cornn.lab.tasks import Batch
from cornn.lab.tasks.task import Split
from cornn.lab.training.adversarial import add_adversary
from cornn.lab.training.distributed import batch_dimension, share_of_batch, share_of_loss
from cornn.lab.training.side_by_side import SideBySide
from cornn.lab.training.state import RunState


class Pool(NamedTuple):
    """The training splits of several runs, concatenated."""

    split: Split
    first_rows: list[int]  # the first row of each run


def pool_splits(splits: Sequence[Split]) -> Pool | None:
    """Return one split with the rows of all, if all make their batches by the same function without random numbers."""
    first = splits[0]
    for split in splits:
        can_share = split.make is first.make and split.rows and not (split.draws or split.ragged)
        if not can_share or split.shared.keys() != first.shared.keys():
            return None
        if not all(torch.equal(value, first.shared[name]) for name, value in split.shared.items()):
            return None
    rows = {name: torch.cat([split.rows[name] for split in splits]) for name in first.rows}
    first_rows = [0, *itertools.accumulate(split.size for split in splits)]
    return Pool(replace(first, size=first_rows.pop(), rows=rows), first_rows)


class Feed:
    """The order of the sequences of each run, and the losses of the next batches.

    Everything that a step needs is on the device: nothing is copied there or read back within an epoch.
    """

    def __init__(self, states: Sequence[RunState], fabric: Any) -> None:
        self.states, self.fabric = list(states), fabric
        lengths = [state.plan.rows for state in states]
        # The concatenated orders of all runs, and the row of each run's next batch.
        shape = sum(lengths), states[0].plan.batch
        self.all_orders = torch.zeros(shape, dtype=torch.int64, device=fabric.device)
        self.orders = list(self.all_orders.split(lengths))
        self.first_rows = torch.tensor([0, *itertools.accumulate(lengths[:-1])], device=fabric.device)
        self.increments = torch.tensor([int(state.plan.epoch is not None) for state in states], device=fabric.device)
        self.rows = self.first_rows.clone()
        self.pool = pool_splits([state.training for state in states]) if len(states) > 1 else None

    def start(self, step: int) -> None:
        """Set the orders and the rows for the step after `step`."""
        for number, state in enumerate(self.states):
            self._order(number, step + 1)
            self.rows[number] += step % state.plan.rows

    def advance(self, step: int) -> None:
        """Set the orders of the epochs that begin after `step`. This does not wait for a GPU."""
        for number, state in enumerate(self.states):
            if state.plan.begins_epoch(step + 1):
                self._order(number, step + 1)

    def _order(self, number: int, step: int) -> None:
        state = self.states[number]
        # Batches of a finished run are still drawn; their order does not matter.
        if state.running:
            order = state.plan.order(state.config.seed, state.plan.epoch_of(step))
            if self.pool is not None:
                order = order + self.pool.first_rows[number]
            self.orders[number].copy_(order.pin_memory() if self.rows.is_cuda else order, non_blocking=True)
        self.rows[number : number + 1].copy_(self.first_rows[number : number + 1])

    def counts(self, step: int) -> list[int]:
        """Return the number of sequences that count in each run's batch; the others are padding."""
        return [state.plan.count(step) for state in self.states]

    def is_full(self, counts: Sequence[int]) -> bool:
        """Whether every sequence of every batch counts."""
        return all(count == state.plan.batch for count, state in zip(counts, self.states, strict=True))

    @property
    def fixed_shape(self) -> bool:
        """Whether all full batches have the same shape."""
        return not any(state.training.ragged for state in self.states)

    def losses(self, models: SideBySide, counts: Sequence[int]) -> Tensor:
        """Return the loss of each model on its next batch, (models), and move on to the batch after it."""
        loss = self._losses(models, counts) if self.pool is None else self._pooled_losses(self.pool, models, counts)
        self.rows += self.increments
        return loss

    def _losses(self, models: SideBySide, counts: Sequence[int]) -> Tensor:
        """Compute the losses from one batch per run."""
        batches, counted = [], []
        for state, row, count in zip(self.states, self.rows.split(1), counts, strict=True):
            index = self.all_orders.index_select(0, row).squeeze(0)
            batch = state.training.batch(index, state.random)
            dimension = batch_dimension(state.task)
            batch, count_and_total = share_of_batch(
                batch, dimension, count, self.fabric.global_rank, self.fabric.world_size
            )
            batches.append(batch)
            counted.append(count_and_total)

        def compute() -> Tensor:
            with self.fabric.autocast():
                predictions = models(_stack(batches) if len(batches) > 1 else batches[0])
                losses = [
                    share_of_loss(state.task, prediction, batch.target, *count_and_total)
                    for state, prediction, batch, count_and_total in zip(
                        self.states, predictions, batches, counted, strict=True
                    )
                ]
            return torch.stack(losses) if len(losses) > 1 else losses[0].unsqueeze(0)

        if not (norm := self.states[0].config.optimiser.adversarial):
            return compute()
        # `fits_side_by_side` makes sure that there is one model.
        encoder: Any = self.states[0].model.encoder
        return add_adversary(encoder, norm, compute)

    def _pooled_losses(self, pool: Pool, models: SideBySide, counts: Sequence[int]) -> Tensor:
        """Compute the losses from one batch with the sequences of all runs: few operations for any number of models."""
        task, dimension = self.states[0].task, batch_dimension(self.states[0].task)
        index = self.all_orders.index_select(0, self.rows)  # (models, batch)
        batch = pool.split.batch(index.flatten(), self.states[0].random)
        target = batch.target.unflatten(dimension, (len(counts), -1)).movedim(dimension, 0)
        stacked = Batch(
            batch.input.unflatten(1, (len(counts), -1)),
            target,
            None if batch.lengths is None else batch.lengths.unflatten(0, (len(counts), -1)),
        )
        with self.fabric.autocast():
            predictions = models(stacked)
            if self.is_full(counts):
                return torch.vmap(task.loss)(predictions, target)
            losses = [
                share_of_loss(task, prediction, expected, count, count)
                for prediction, expected, count in zip(predictions, target, counts, strict=True)
            ]
        return torch.stack(losses)


def _stack(batches: Sequence[Batch]) -> Batch:
    """Stack batches: input (time, models, batch, features), target and lengths (models, ...)."""
    lengths = None
    if batches[0].lengths is not None:
        lengths = torch.stack([batch.lengths for batch in batches])  # pyright: ignore[reportArgumentType]
    return Batch(torch.stack([batch.input for batch in batches], 1), torch.stack([b.target for b in batches]), lengths)
