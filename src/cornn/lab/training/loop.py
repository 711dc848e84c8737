"""The training loop of one run, or of several side by side: train, evaluate, keep the best, write checkpoints."""

import copy
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cornn import theory
from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.lab.training.checkpoints import finish, restore, save
from cornn.lab.training.evaluate import metric
from cornn.lab.training.state import Best, Trainee
from cornn.lab.training.step import Group, Member, named
from cornn.lab.training.stopping import Stopped, Stopping

__all__ = ["Progress", "Watch", "train"]


@dataclass(frozen=True)
class Progress:
    """The progress of training after a step."""

    step: int
    steps: int
    epoch: int | None
    epochs: int | None
    sequences: int  # a step, of all models together
    seconds: float
    loss: float | None  # mean of the steps before the latest evaluation, and of all models
    metric: float | None  # of the latest evaluation, on the validation split; mean of all models
    evaluations: tuple[tuple[int, dict], ...]  # (seed, what was logged) of those that were just now


Watch = Callable[[Progress], None]


def train(trainees: Sequence[Trainee], fabric: Any, watch: Watch, checkpoints: Sequence[dict] = ()) -> dict[int, str]:
    """Train runs to the end, from the start or from checkpoints of the same step.

    Returns:
        {seed: reason} for the runs that failed.
    """
    members = [Member(t.model, t.task, t.training, t.config.settings, t.plan, t.random) for t in trainees]
    group = Group(members, fabric)
    for number, checkpoint in enumerate(checkpoints):
        restore(trainees[number], group, number, checkpoint)
    start = step = trainees[0].step
    spent = [trainee.seconds for trainee in trainees]
    with ExitStack() as held:
        held.enter_context(no_tf32())
        for trainee in trainees:
            if trainee.run is not None:
                held.enter_context(trainee.run.locked())
                trainee.run.forget_after(start)
        stopping = held.enter_context(Stopping(fabric))
        for number, trainee in enumerate(trainees):
            _order(trainee, group, number)
        began = saved = time.perf_counter()
        while running := [n for n, trainee in enumerate(trainees) if trainee.running]:
            if any(trainees[number].over for number in running):
                save(trainees, group, running)
                for number in running:
                    if trainees[number].over:
                        seconds = time.perf_counter() - began
                        finish(trainees[number], group, number, fabric, step - start, seconds)
                continue
            step += 1
            group.step(step)
            for number in running:
                trainees[number].step = step
            # Before the evaluation, which waits for a GPU: until then it is busy with the steps of this epoch.
            for number in running:
                if trainees[number].plan.begins_epoch(step + 1):
                    _order(trainees[number], group, number)
            evaluations = []
            due = [number for number in running if trainees[number].plan.due(step)]
            for number in _evaluate(trainees, group, due, fabric) if due else ():
                # Only now is a GPU known to have done what it was given.
                trainees[number].seconds = spent[number] + time.perf_counter() - began
                evaluations.append((trainees[number].config.seed, _log(trainees[number])))
            now = time.perf_counter()
            for number in running:
                trainees[number].seconds = spent[number] + now - began
            asked, due = stopping.asked(step, now - saved >= trainees[0].config.checkpoint_every)
            if due:
                save(trainees, group, running)
                saved = time.perf_counter()
            watch(_progress(trainees, step, now - began + spent[0], evaluations))
            if asked:
                raise Stopped(asked)
    fabric.barrier()
    return {trainee.config.seed: trainee.failure for trainee in trainees if trainee.failure is not None}


def _order(trainee: Trainee, group: Group, number: int) -> None:
    """Set the order of the sequences for the epoch of the next step."""
    group.order(number, trainee.plan.order(trainee.config.seed, trainee.plan.epoch_of(trainee.step + 1)))


def _evaluate(trainees: Sequence[Trainee], group: Group, due: Sequence[int], fabric: Any) -> list[int]:
    """Evaluate runs, keep the best weights of each, and return the runs that have not diverged."""
    weights = group.weights if group.average is None else group.average
    own = {number: named(trainees[number].model, weights[number]) for number in due}
    randoms, measured, good = {}, [], []
    for number in due:
        trainee = trainees[number]
        randoms[number] = generator(trainee.config.seed, "watching", trainee.step, device=fabric.device)
        given = randoms[number], trainee.config.settings.batch_size
        reached = metric(trainee.task, trainee.model, own[number], trainee.validation, *given)
        measured.append(torch.stack((group.loss[number].double(), reached.double())))
        group.loss[number] = 0.0
    # A GPU is waited for once, here.
    for number, (total, reached) in zip(due, torch.stack(measured).tolist(), strict=True):
        trainee = trainees[number]
        if fabric.world_size > 1:
            total = fabric.all_reduce(torch.tensor(total, device=fabric.device), reduce_op="sum").item()
            reached = fabric.broadcast(reached)
        loss = total / (trainee.step - trainee.evaluated)
        if not math.isfinite(loss):
            trainee.fail(f"the loss is {loss} at step {trainee.step}")
            continue
        good.append(number)
        trainee.evaluated, trainee.loss, trainee.metric = trainee.step, loss, reached
        if trainee.better(reached):
            trainee.best = Best(reached, trainee.step, weights[number].clone(), trainee.buffers())
        if trainee.config.theory:
            trainee.theory = _theory(trainee, own[number], randoms[number])
    return good


def _theory(trainee: Trainee, weights: Mapping[str, Tensor], random: torch.Generator) -> dict[str, float]:
    """Compute the quantities of `theory.watch` on the first sequences of the validation split."""
    model = copy.deepcopy(trainee.model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
        batch = trainee.validation.batch(torch.arange(2, device=random.device), random)
        return theory.watch(model.layer, model.encoder(batch.input))


def _log(trainee: Trainee) -> dict:
    """Write a line of metrics and return it."""
    row: dict[str, Any] = {
        "step": trainee.step,
        "loss": trainee.loss,
        "metric": trainee.metric,
        "seconds": round(trainee.seconds, 3),
    }
    if trainee.plan.epoch is not None:
        row["epoch"] = round(trainee.step / trainee.plan.epoch, 3)
    if trainee.theory is not None:
        row["theory"] = trainee.theory
    if trainee.run is not None:
        trainee.run.log(row)
    return row


def _progress(trainees: Sequence[Trainee], step: int, seconds: float, evaluations: list[tuple[int, dict]]) -> Progress:
    def mean(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    longest = max((trainee.plan for trainee in trainees), key=lambda plan: plan.steps)
    return Progress(
        step=step,
        steps=longest.steps,
        epoch=longest.epoch_of(step),
        epochs=None if longest.epoch is None else -(-longest.steps // longest.epoch),
        sequences=sum(trainee.plan.batch for trainee in trainees),
        seconds=seconds,
        loss=mean([trainee.loss for trainee in trainees]),
        metric=mean([trainee.metric for trainee in trainees]),
        evaluations=tuple(evaluations),
    )
