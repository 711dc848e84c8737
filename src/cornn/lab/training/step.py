"""One training step: of one model or of many side by side, launched as it comes or captured in a CUDA graph.

All weights of all models are one tensor (models, numbers), and so are the optimiser's moments: a step's arithmetic on
them is a handful of operations whatever the model is made of, and each model keeps its own learning rate, its own data
and its own norm of the gradient. Everything that a step needs is on the device: nothing is copied there or read back.

A graph holds the step alone. What is done every so many steps besides, DTRIV's change of base, happens between replays,
in the memory that the graph reads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cornn._stacking import Stack
from cornn.baselines import LEM
from cornn.engine import adam
from cornn.lab.recipes import Recipe
from cornn.lab.tasks import Batch, Task
from cornn.lab.tasks.task import Part
from cornn.lab.training.batches import Pool, batch_dimension, pooled, share_of_batch, share_of_loss, stacked
from cornn.lab.training.schedule import Plan, rates, share_of_rate, table

__all__ = ["Group", "Member", "fits_side_by_side", "named"]


class Member(NamedTuple):
    """One model of a group, and what it is trained on."""

    model: nn.Module
    task: Task
    part: Part  # of training, on the device
    recipe: Recipe
    plan: Plan
    random: torch.Generator  # on the device


def named(model: nn.Module, row: Tensor) -> dict[str, Tensor]:
    """A row of numbers as the parameters that it holds, by name; views. Leading dimensions stay in front."""
    parts = row.split([parameter.numel() for parameter in model.parameters()], -1)
    return {
        name: part.unflatten(-1, parameter.shape) if parameter.dim() else part.squeeze(-1)
        for part, (name, parameter) in zip(parts, model.named_parameters(), strict=True)
    }


def fits_side_by_side(models: Sequence[nn.Module], parts: Sequence[Part], device: torch.device) -> bool:
    """Whether the models can run as one: the engine has layers for that, and their batches are equally long.

    LEM's kernels for GPUs take one model, and are faster than its steps for many.
    """
    layers = [model.layer for model in models]
    own = all(isinstance(layer, Stack) for layer in layers)
    kernels = device.type == "cuda" and any(isinstance(layer, LEM) for layer in layers)
    return own and not kernels and not any(part.ragged for part in parts)


class Group:
    """Models that take their steps together, and their optimiser: Adam or RMSprop, with the decay of AdamW.

    fabric: devices, precision and the other processes. Each process takes its share of every batch, and their
        gradients are added up, so that all of them hold the same weights.
    """

    def __init__(self, members: Sequence[Member], fabric: Any) -> None:
        self.members, self.fabric = list(members), fabric
        self.recipe = members[0].recipe
        device = fabric.device
        rows = [nn.utils.parameters_to_vector(member.model.parameters()).detach() for member in members]
        self.weights = torch.stack(rows).to(device)  # (models, numbers)
        self.first, self.second = torch.zeros_like(self.weights), torch.zeros_like(self.weights)
        self.average = self.weights.clone() if self.recipe.ema else None
        self.loss = torch.zeros(len(members), device=device)  # summed over the steps since it was last set to 0
        self.steps_done = torch.zeros(1, dtype=torch.int64, device=device)
        # The orders of all models below each other, each model's own, where they begin, and the rows of the next step.
        lengths = [member.plan.rows for member in members]
        self.all_orders = torch.empty(sum(lengths), members[0].plan.batch, dtype=torch.int64, device=device)
        self.orders = list(self.all_orders.split(lengths))
        self.epochs = torch.tensor(lengths, device=device)
        self.begins = self.epochs.cumsum(0) - self.epochs
        self.rows = self.begins.clone()
        self.pool = pooled([member.part for member in members]) if len(members) > 1 else None
        for number, member in enumerate(members):
            self.order(number, member.plan.order(0, 1))
        self.table = table(self.recipe, [rates(member.recipe, member.plan) for member in members]).to(device)
        shares = [
            torch.full((value.numel(),), share_of_rate(self.recipe, name, members[0].task.length))
            for name, value in members[0].model.named_parameters()
        ]
        self.slowed = any((share != 1).any() for share in shares)
        self.rate = torch.cat(shares).to(device)
        self.ones = torch.ones_like(self.loss)  # each model's loss counts alike
        self.books = self._books() if adam.usable(self.weights) else None
        # Of models side by side, one below the other; a model alone is called with its own.
        self.buffers: dict[str, Tensor] = {}
        self.predict, self.leaves = (_alone if len(members) == 1 else _side_by_side)(self)
        self._replay: Callable[[], None] | None = None

    def step(self, number: int) -> None:
        """Take step `number` (from 1)."""
        self._take(number)
        if self.recipe.rebase_every and number % self.recipe.rebase_every == 0:
            self._rebase()

    def _take(self, number: int) -> None:
        counts = [member.plan.count(number) for member in self.members]
        if not (self._full(counts) and self.captures()):
            self._step(counts)
            return
        if self._replay is None:
            self._replay = self._captured(counts)
        self._replay()

    def _full(self, counts: Sequence[int]) -> bool:
        """Whether every sequence of every model's batch counts."""
        return all(count == member.plan.batch for count, member in zip(counts, self.members, strict=True))

    def captures(self) -> bool:
        """Whether a step can be captured: one process, a GPU, and batches whose shape does not change."""
        alone = self.fabric.device.type == "cuda" and self.fabric.world_size == 1
        return alone and not any(member.part.ragged for member in self.members)

    def order(self, model: int, order: Tensor) -> None:
        """The sequences that a model sees from here on, (steps, batch). A GPU is not waited for."""
        if self.pool is not None:
            order = order + self.pool.begins[model]
        self.orders[model].copy_(order.pin_memory() if self.weights.is_cuda else order, non_blocking=True)

    def go_on_after(self, step: int | Tensor) -> None:
        """The next step is the one after `step`."""
        self.steps_done.copy_(torch.as_tensor(step))
        self.rows.copy_(self.begins + step % self.epochs)

    def _step(self, counts: Sequence[int]) -> None:
        """One step. counts: the sequences of each model's batch that count; what comes after them only fills it up."""
        loss = self._losses(counts) if self.pool is None else self._pooled_losses(self.pool, counts)
        gradients = torch.autograd.grad(loss, self.leaves, self.ones.to(loss.dtype))
        with torch.no_grad():
            self._update([gradient.reshape(len(loss), -1) for gradient in gradients], loss.float())

    @torch.no_grad()
    def _rebase(self) -> None:
        """Measure the matrices of DTRIV from where they are. The optimiser's moments go on, as with its author."""
        for number, member in enumerate(self.members):
            model = member.model
            for parameter, value in zip(model.parameters(), named(model, self.weights[number]).values(), strict=True):
                parameter.copy_(value)
            model.layer.rebase_()  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
            self.weights[number] = nn.utils.parameters_to_vector(model.parameters())
            if self.fabric.world_size > 1:  # all processes have to hold the same numbers, to the bit
                for buffer in model.buffers():
                    buffer.copy_(self.fabric.broadcast(buffer))
            self.take_buffers(number)

    @torch.no_grad()
    def take_buffers(self, number: int) -> None:
        """What a model has besides its weights has changed: use it as it is now."""
        for name, buffer in self.members[number].model.named_buffers():
            if name in self.buffers:
                self.buffers[name][number] = buffer

    def _losses(self, counts: Sequence[int]) -> Tensor:
        """Of each model, (models), from batches that are made one by one."""
        batches, places = [], []
        for member, row, count in zip(self.members, self.rows.split(1), counts, strict=True):
            index = self.all_orders.index_select(0, row).squeeze(0)
            batch = member.part.batch(index, member.random)
            batch, place = share_of_batch(
                batch, batch_dimension(member.task), count, self.fabric.global_rank, self.fabric.world_size
            )
            batches.append(batch)
            places.append(place)
        with self.fabric.autocast():
            predictions = self.predict(stacked(batches) if len(batches) > 1 else batches[0])
            losses = [
                share_of_loss(member.task, prediction, batch.target, *place)
                for member, prediction, batch, place in zip(self.members, predictions, batches, places, strict=True)
            ]
        return torch.stack(losses) if len(losses) > 1 else losses[0].unsqueeze(0)

    def _pooled_losses(self, pool: Pool, counts: Sequence[int]) -> Tensor:
        """Of each model, (models), from one batch with the sequences of all: few operations, however many models."""
        models, task = len(self.members), self.members[0].task
        index = self.all_orders.index_select(0, self.rows)  # (models, batch)
        batch = pool.part.batch(index.flatten(), self.members[0].random)
        target = batch.target.unflatten(batch_dimension(task), (models, -1)).movedim(batch_dimension(task), 0)
        together = Batch(
            batch.input.unflatten(1, (models, -1)),
            target,
            None if batch.lengths is None else batch.lengths.unflatten(0, (models, -1)),
        )
        with self.fabric.autocast():
            predictions = self.predict(together)
            if self._full(counts):
                return torch.vmap(task.loss)(predictions, target)
            losses = [
                share_of_loss(task, prediction, wanted, count, count)
                for prediction, wanted, count in zip(predictions, target, counts, strict=True)
            ]
        return torch.stack(losses)

    def _books(self) -> adam.Books:
        """What the kernel of the optimiser's step works on."""
        recipe = self.recipe
        gains = [1 - recipe.beta1, recipe.beta2, 1 - recipe.beta2, 1 - recipe.ema]
        return adam.Books(
            self.weights,
            self.first,
            self.second,
            self.average,
            self.loss,
            self.steps_done,
            self.rows,
            self.begins,
            self.epochs,
            self.table,
            self.rate if self.slowed else None,
            self.weights.new_tensor(gains),
            torch.zeros(1, dtype=torch.int32, device=self.weights.device),
        )

    def _update(self, gradients: Sequence[Tensor], loss: Tensor) -> None:
        """The optimiser's step, from the gradient of each leaf, (models, its numbers), and the losses, (models)."""
        recipe, scale = self.recipe, None
        if self.fabric.world_size > 1:
            gradients = [self.fabric.all_reduce(torch.cat(list(gradients), 1), reduce_op="sum")]
        if recipe.clip:
            gradients = [torch.cat(list(gradients), 1)]
            norm = torch.linalg.vector_norm(gradients[0], dim=1, keepdim=True)
            scale = (recipe.clip / (norm + 1e-6)).clamp(max=1.0)
        if self.books is not None:
            adam.step(self.books, gradients, scale, loss)
            return
        gradient = torch.cat(list(gradients), 1)
        if scale is not None:
            gradient *= scale
        decay, size, root = self.table.index_select(0, self.steps_done).squeeze(0).unsqueeze(-1).unbind(1)
        self.first.lerp_(gradient, 1 - recipe.beta1)
        self.second.mul_(recipe.beta2).addcmul_(gradient, gradient, value=1 - recipe.beta2)
        change = self.first / (self.second.sqrt().div_(root).add_(adam.EPSILON))
        change.mul_(size)
        if recipe.weight_decay:
            change.addcmul_(self.weights, decay)
        if self.slowed:
            change.mul_(self.rate)
        self.weights.sub_(change)
        if self.average is not None:
            self.average.lerp_(self.weights, 1 - recipe.ema)
        self.loss += loss
        self.go_on_after(self.steps_done + 1)

    def _captured(self, counts: Sequence[int]) -> Callable[[], None]:
        """A full step as a CUDA graph. Its rehearsals leave no trace."""
        randoms = [member.random for member in self.members]
        changing = [self.weights, self.first, self.second, self.loss, self.steps_done, self.rows]
        changing += [] if self.average is None else [self.average]
        kept, states = [tensor.clone() for tensor in changing], [random.get_state() for random in randoms]
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self.steps_done.zero_()  # the tables may be shorter than the rehearsals
                self._step(counts)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        for random, state in zip(randoms, states, strict=True):
            random.set_state(state)
            graph.register_generator_state(random)
        with torch.cuda.graph(graph):
            self._step(counts)
        with torch.no_grad():
            for tensor, before in zip(changing, kept, strict=True):
                tensor.copy_(before)
        return graph.replay


Predict = Callable[[Batch], Any]
"""What each model predicts: a list of one, from its own batch, or a tensor with the models in front, from a stacked
one."""


def _alone(group: Group) -> tuple[Predict, list[Tensor]]:
    """One model, called as it is; its parameters become views of the group's weights."""
    model = group.members[0].model
    for parameter, view in zip(model.parameters(), named(model, group.weights[0]).values(), strict=True):
        parameter.data = view
    return lambda batch: [model(batch.input, batch.lengths)], list(model.parameters())


def _side_by_side(group: Group) -> tuple[Predict, list[Tensor]]:
    """Many models of one shape in one call, which reaches the engine as one launch."""
    models = [member.model for member in group.members]
    _, group.buffers = torch.func.stack_module_state(models)
    views = named(models[0], group.weights)
    leaves = {name: view.detach().requires_grad_() for name, view in views.items()}

    def call(weights: Mapping[str, Tensor], buffers: Mapping[str, Tensor], input: Tensor, lengths: Tensor | None):
        return torch.func.functional_call(models[0], (dict(weights), dict(buffers)), (input, lengths))

    def predict(batch: Batch) -> Tensor:
        dims = (0, 0, 1, None if batch.lengths is None else 0)
        return torch.vmap(call, in_dims=dims)(leaves, group.buffers, batch.input, batch.lengths)

    return predict, list(leaves.values())
