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

from cornn.paper import Recipe
from cornn.stacking import Stack
from cornn.tasks import Batch, Task
from cornn.tasks.task import Part
from cornn.training.batches import Pool, batch_dimension, pooled, share_of_loss, stacked
from cornn.training.schedule import Plan, rates

__all__ = ["Group", "Member", "fits_side_by_side", "named"]

EPSILON = 1e-8  # PyTorch's, of Adam and of RMSprop


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


def fits_side_by_side(models: Sequence[nn.Module], parts: Sequence[Part]) -> bool:
    """Whether the models can run as one: the engine has layers for that, and their batches are equally long."""
    own = all(isinstance(model.layer, Stack) for model in models)  # pyright: ignore[reportAttributeAccessIssue]
    return own and not any(part.ragged for part in parts)


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
        # The orders of all models below each other, each model's own, and where they begin.
        orders = [member.plan.order(0, 1).to(device) for member in members]
        self.all_orders = torch.cat(orders)
        lengths = [len(order) for order in orders]
        self.orders = list(self.all_orders.split(lengths))
        self.epochs = torch.tensor(lengths, device=device)
        self.begins = self.epochs.cumsum(0) - self.epochs
        self.pool = pooled([member.part for member in members]) if len(members) > 1 else None
        self.table = _table(members).to(device)
        shares = [
            torch.full((value.numel(),), _share_of_rate(self.recipe, name, members[0].task.length))
            for name, value in members[0].model.named_parameters()
        ]
        self.slowed = any((share != 1).any() for share in shares)
        self.rate = torch.cat(shares).to(device)
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
        """Whether a step can be captured: one process, a GPU, and batches whose shape does not change.

        Not PyTorch's own GRU and tanh RNN: once cuDNN has been called with another batch size, a smaller last batch,
        replays of its GRU give something else than the calls do (seen with PyTorch 2.11). Its LSTM does not.
        """
        alone = self.fabric.device.type == "cuda" and self.fabric.world_size == 1
        own = not any(isinstance(member.model.layer, nn.GRU | nn.RNN) for member in self.members)
        return alone and own and not any(member.part.ragged for member in self.members)

    def order(self, model: int, order: Tensor) -> None:
        """The sequences that a model sees from here on, (steps, batch)."""
        self.orders[model].copy_(order)

    def _step(self, counts: Sequence[int]) -> None:
        """One step. counts: the sequences of each model's batch that count; what comes after them only fills it up."""
        loss = self._losses(counts) if self.pool is None else self._pooled_losses(self.pool, counts)
        gradients = torch.autograd.grad(loss.sum(), self.leaves)
        with torch.no_grad():
            self.loss += loss
            self._update(torch.cat([gradient.reshape(len(loss), -1) for gradient in gradients], 1))

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
        for member, order, count in zip(self.members, self.orders, counts, strict=True):
            index = order.index_select(0, self.steps_done % len(order)).squeeze(0)
            batch, place = self._share(member.part.batch(index, member.random), member.task, count)
            batches.append(batch)
            places.append(place)
        with self.fabric.autocast():
            predictions = self.predict(stacked(batches) if len(batches) > 1 else batches[0])
            losses = [
                share_of_loss(member.task, prediction, batch.target, *place)
                for member, prediction, batch, place in zip(self.members, predictions, batches, places, strict=True)
            ]
        return torch.stack(losses)

    def _pooled_losses(self, pool: Pool, counts: Sequence[int]) -> Tensor:
        """Of each model, (models), from one batch with the sequences of all: few operations, however many models."""
        models, task = len(self.members), self.members[0].task
        index = self.all_orders.index_select(0, self.begins + self.steps_done % self.epochs)  # (models, batch)
        batch = pool.part.batch((index + pool.begins.unsqueeze(1)).flatten(), self.members[0].random)
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

    def _share(self, batch: Batch, task: Task, count: int) -> tuple[Batch, tuple[int, int]]:
        """This process's sequences of a batch; how many of them count, and how many of the whole batch do."""
        world, rank = self.fabric.world_size, self.fabric.global_rank
        if world == 1:
            return batch, (count, count)
        size = batch.input.shape[1]
        start, end = rank * size // world, (rank + 1) * size // world
        mine = Batch(
            batch.input[:, start:end],
            batch.target.narrow(batch_dimension(task), start, end - start),
            None if batch.lengths is None else batch.lengths[start:end],
        )
        return mine, (max(0, min(count, end) - start), count)

    def _update(self, gradient: Tensor) -> None:
        recipe = self.recipe
        if self.fabric.world_size > 1:
            gradient = self.fabric.all_reduce(gradient, reduce_op="sum")
        if recipe.clip:
            norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
            gradient = gradient * (recipe.clip / (norm + 1e-6)).clamp(max=1.0)
        decay, size, root = self.table.index_select(0, self.steps_done).squeeze(0).unsqueeze(-1).unbind(1)
        self.first.lerp_(gradient, 1 - recipe.beta1)
        self.second.mul_(recipe.beta2).addcmul_(gradient, gradient, value=1 - recipe.beta2)
        change = self.first / (self.second.sqrt().div_(root).add_(EPSILON))
        change.mul_(size)
        if recipe.weight_decay:
            change.addcmul_(self.weights, decay)
        if self.slowed:
            change.mul_(self.rate)
        self.weights.sub_(change)
        if self.average is not None:
            self.average.lerp_(self.weights, 1 - recipe.ema)
        self.steps_done += 1

    def _captured(self, counts: Sequence[int]) -> Callable[[], None]:
        """A full step as a CUDA graph. Its rehearsals leave no trace."""
        randoms = [member.random for member in self.members]
        changing = [self.weights, self.first, self.second, self.loss, self.steps_done]
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


def _share_of_rate(recipe: Recipe, name: str, length: int) -> float:
    """Of the learning rate, for the parameter of this name."""
    kinds = ("weight_ih", "bias", "weight_hh") if name.startswith("layer.") else ()
    kind = next((kind for kind in kinds if kind in name), None)
    share = recipe.recurrent_rate if kind == "weight_hh" else 1.0
    if kind is not None and recipe.rates_by_length is not None:
        V, b, W = recipe.rates_by_length
        share *= min({"weight_ih": V, "bias": b, "weight_hh": W}[kind] / length, 1.0)
    return share


def _table(members: Sequence[Member]) -> Tensor:
    """For each step and model the rate of decay, the step size, and the root that corrects Adam's second moment.

    A model that is done before the others holds its last values, which no one uses: (steps, models, 3).
    """
    recipe, most = members[0].recipe, max(member.plan.steps for member in members)
    table = torch.empty(most, len(members), 3, dtype=torch.float64)
    for number, member in enumerate(members):
        own = torch.tensor(rates(member.recipe, member.plan), dtype=torch.float64)
        own = torch.cat((own, own[-1:].expand(most - len(own))))
        step = torch.arange(1, most + 1, dtype=torch.float64)
        table[:, number, 0] = own * recipe.weight_decay
        corrected = recipe.optimiser == "adam"
        table[:, number, 1] = own / (1 - recipe.beta1**step) if corrected else own
        table[:, number, 2] = (1 - recipe.beta2**step).sqrt() if corrected else 1.0
    return table.float()


Predict = Callable[[Batch], Tensor]
"""What each model predicts, with the models in front: one from its own batch, several from a stacked one."""


def _alone(group: Group) -> tuple[Predict, list[Tensor]]:
    """One model, called as it is; its parameters become views of the group's weights."""
    model = group.members[0].model
    for parameter, view in zip(model.parameters(), named(model, group.weights[0]).values(), strict=True):
        parameter.data = view
    return lambda batch: model(batch.input, batch.lengths).unsqueeze(0), list(model.parameters())


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
