"""The training of one run, or of several side by side: the shared loop with evaluations, checkpoints and signals."""

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from cornn import theory
from cornn._device_errors import DeviceError, describe_device_error, is_out_of_memory
from cornn._fit_loop import fit_loop
from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.artifacts import CHECKPOINT
from cornn.lab.runs import Run
from cornn.lab.training.batches import Feed
from cornn.lab.training.checkpoints import finish, restore, save
from cornn.lab.training.evaluate import metric
from cornn.lab.training.graph import CapturedStep, can_capture
from cornn.lab.training.optimiser import build_optimiser, take_step
from cornn.lab.training.side_by_side import SideBySide, name_parameters
from cornn.lab.training.state import Best, RunState
from cornn.lab.training.stopping import Stopped, Stopping


@dataclass(frozen=True)
class Progress:
    """The progress of training after a step."""

    step: int
    steps: int
    epoch: int | None
    epochs: int | None
    sequences: int  # per step, of all models together
    seconds: float
    loss: float | None  # mean of the steps before the latest evaluation, and of all models
    metric: float | None  # of the latest evaluation, on the validation split; mean of all models
    evaluations: tuple[tuple[int, dict], ...]  # (seed, logged row) of the evaluations of this step


Watch = Callable[[Progress], None]


def train(states: Sequence[RunState], fabric: Any, watch: Watch, checkpoints: Sequence[dict] = ()) -> dict[int, str]:
    """Train runs to the end, from the start or from checkpoints of the same step.

    Returns:
        {seed: reason} for the runs that failed.
    """
    models, feed = SideBySide(states, fabric.device), Feed(states, fabric)
    optimiser, schedule = build_optimiser(models, fabric)
    for state, checkpoint in zip(states, checkpoints, strict=bool(checkpoints)):
        restore(state, checkpoint)
    models.take_buffers()
    start = states[0].step
    with ExitStack() as stack:
        stack.enter_context(_explaining_device_errors(states))
        stack.enter_context(no_tf32())
        for state, checkpoint in zip(states, checkpoints or [None] * len(states), strict=True):
            if state.run is not None:
                stack.enter_context(state.run.lock())
                _check_unchanged(state.run, checkpoint)
                state.run.drop_metrics_after(start)
        session = Session(states, models, feed, fabric, watch, stack.enter_context(Stopping(fabric)))
        feed.start(start)
        session.finish()
        fit_loop(
            models,
            session.batches(),
            feed.losses,
            optimiser,
            schedule,
            [session.advance, session.evaluate, session.save, session.finish],
            first=start + 1,
            take_step=CapturedStep(models, feed) if can_capture(feed, fabric) else take_step,
        )
    fabric.barrier()
    return {state.config.seed: state.failure for state in states if state.failure is not None}


def _check_unchanged(run: Run, checkpoint: dict | None) -> None:
    """Raise RuntimeError if another process has continued the run since its checkpoint was read, before the lock."""
    present = run.checkpoint()
    if run.complete or (present and present["step"]) != (checkpoint and checkpoint["step"]):
        raise RuntimeError(f"another process has continued {run.path} in the meantime: run the command again")


@contextmanager
def _explaining_device_errors(states: Sequence[RunState]) -> Iterator[None]:
    """Raise DeviceError with what can be resumed if the device has too little memory or fails."""
    try:
        yield
    except RuntimeError as error:
        reason = describe_device_error(error)
        if reason is None:
            raise
        remedy = " Free memory on it, or train with smaller batches." if is_out_of_memory(error) else ""
        folders = [state.run.path for state in states if state.run is not None]
        if folders and all((folder / CHECKPOINT).exists() for folder in folders):
            folder = folders[0] if len(folders) == 1 else folders[0].parent
            remedy += f" `cornn resume {folder}` continues from the last checkpoint."
        raise DeviceError(f"{reason}, at step {states[0].step + 1}", remedy) from error


class Session:
    """The callbacks of the laboratory around the steps of the loop, in their order."""

    def __init__(
        self, states: Sequence[RunState], models: SideBySide, feed: Feed, fabric: Any, watch: Watch, stopping: Stopping
    ) -> None:
        self.states, self.models, self.feed, self.fabric = states, models, feed, fabric
        self.watch, self.stopping = watch, stopping
        self.start = states[0].step
        self.seconds_before = [state.seconds for state in states]  # before this process
        self.started_at = self.saved_at = time.perf_counter()
        self.evaluations: list[tuple[int, dict]] = []

    @property
    def running(self) -> list[RunState]:
        return [state for state in self.states if state.running]

    def batches(self) -> Iterator[list[int]]:
        """Yield how many sequences of each run's next batch count, as long as a run is running."""
        step = self.start
        while self.running:
            step += 1
            yield self.feed.counts(step)

    def advance(self, step: int, loss: Tensor) -> None:
        """Count the step and prepare the next one."""
        rebase = self.states[0].config.optimiser.rebase_every
        if rebase and step % rebase == 0:
            self.models.rebase(self.fabric)
        for state in self.running:
            state.step = step
        # Before the evaluation, which waits for a GPU that is still busy with the steps of this epoch.
        self.feed.advance(step)

    def evaluate(self, step: int, loss: Tensor) -> None:
        """Evaluate the runs that are due, and log the results of those that have not diverged."""
        self.evaluations = []
        due = [state for state in self.running if state.plan.due(step)]
        good = _evaluate(due, self.fabric) if due else []
        # The evaluation waits for a GPU, so that only now its time counts.
        self._count_seconds()
        for state in good:
            self.evaluations.append((state.config.seed, _log(state)))

    def save(self, step: int, loss: Tensor) -> None:
        """Write checkpoints when they are due, report the progress, and stop if a signal requests it."""
        now = self._count_seconds()
        signal_number, due = self.stopping.find_request(
            step, now - self.saved_at >= self.states[0].config.place.save_every
        )
        if due and self.running:  # not if all have diverged at this step
            save(self.running)
            self.saved_at = time.perf_counter()
        self.watch(_progress(self.states, step, now - self.started_at + self.seconds_before[0], self.evaluations))
        if signal_number:
            raise Stopped(signal_number)

    def finish(self, step: int | None = None, loss: Tensor | None = None) -> None:
        """Save all runs if one is over, and test those that are."""
        over = [state for state in self.running if state.over]
        if not over:
            return
        save(self.running)
        for state in over:
            finish(state, self.fabric, state.step - self.start, time.perf_counter() - self.started_at)

    def _count_seconds(self) -> float:
        now = time.perf_counter()
        for state, seconds_before in zip(self.states, self.seconds_before, strict=True):
            if state.running:
                state.seconds = seconds_before + now - self.started_at
        return now


def _evaluate(due: Sequence[RunState], fabric: Any) -> list[RunState]:
    """Evaluate runs, keep the best weights of each, and return the runs that have not diverged."""
    randoms, measured, not_diverged = [], [], []
    for state in due:
        random = generator(state.config.seed, "watching", state.step, device=fabric.device)
        weights, batch_size = name_parameters(state.model, state.weights), state.config.budget.batch_size
        value = metric(state.task, state.model, weights, state.validation, random, batch_size)
        measured.append(torch.stack((state.tensors["loss"].double(), value.double())))
        state.tensors["loss"].zero_()
        randoms.append(random)
    # The only point at which a GPU is waited for.
    for state, random, (total, value) in zip(due, randoms, torch.stack(measured).tolist(), strict=True):
        if fabric.world_size > 1:
            total = fabric.all_reduce(torch.tensor(total, device=fabric.device), reduce_op="sum").item()
            value = fabric.broadcast(value)
        loss = total / (state.step - state.evaluated)
        if not math.isfinite(loss):
            state.failure = f"the loss is {loss} at step {state.step}"
            continue
        not_diverged.append(state)
        state.evaluated, state.loss, state.metric = state.step, loss, value
        if state.better(value):
            state.best = Best(value, state.step, state.weights.clone(), state.buffers())
        if state.config.theory:
            finite = bool(state.weights.isfinite().all())  # otherwise the next save or evaluation ends the run
            state.theory = _theory(state, name_parameters(state.model, state.weights), random) if finite else None
    return not_diverged


def _theory(state: RunState, weights: Mapping[str, Tensor], random: torch.Generator) -> dict[str, float]:
    """Compute the quantities of `theory.watch` on the first sequences of the validation split."""
    model = copy.deepcopy(state.model)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(weights[name])
        batch = state.validation.batch(torch.arange(2, device=random.device), random)
        return theory.watch(model.layer, model.encoder(batch.input))


def _log(state: RunState) -> dict:
    """Write a line of metrics and return it."""
    row: dict[str, Any] = {
        "step": state.step,
        "loss": state.loss,
        "metric": state.metric,
        "seconds": round(state.seconds, 3),
    }
    if state.plan.epoch is not None:
        row["epoch"] = round(state.step / state.plan.epoch, 3)
    if state.theory is not None:
        row["theory"] = state.theory
    if state.run is not None:
        state.run.log(row)
    return row


def _progress(states: Sequence[RunState], step: int, seconds: float, evaluations: list[tuple[int, dict]]) -> Progress:
    def mean(values: list[float | None]) -> float | None:
        available = [value for value in values if value is not None]
        return sum(available) / len(available) if available else None

    longest = max((state.plan for state in states), key=lambda plan: plan.steps)
    return Progress(
        step=step,
        steps=longest.steps,
        epoch=longest.epoch_of(step),
        epochs=None if longest.epoch is None else -(-longest.steps // longest.epoch),
        sequences=sum(state.plan.batch for state in states),
        seconds=seconds,
        loss=mean([state.loss for state in states]),
        metric=mean([state.metric for state in states]),
        evaluations=tuple(evaluations),
    )
