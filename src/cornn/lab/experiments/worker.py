"""A worker: it takes trials and runs of experiments until all have a result, from it or from other workers."""

import math
import os
import platform
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import optuna
import torch

from cornn._device_errors import DeviceError, describe_device_error, is_out_of_memory
from cornn._machine import device_for, machine
from cornn._source import source
from cornn.lab import records, training
from cornn.lab.experiments.queue import Queue, Work, make_status, register_parameters
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status, TaskInfo
from cornn.lab.experiments.storage import Storage, exists, explain_failure, open_storage
from cornn.lab.runs import Run
from cornn.lab.tasks import Task
from cornn.lab.training import Progress

SECONDS_BETWEEN_LOOKS = 1
"""Interval at which a worker that waits for others checks the queue."""
SHARE_BEFORE_PRUNING = 0.25
"""Share of a training in which no trial is pruned, since the first epochs are not informative."""
POINTS = 50
"""Maximum number of points of a curve in the storage."""

Follow = Callable[[Status, Progress | None], None]
"""Called with the status of the current experiment of a worker, and the progress of its training."""

Finish = Callable[[Experiment, list[Run], dict[int, str]], None]
"""Called with the runs of an experiment that ended, and {seed: reason} for those that failed."""


class OutOfTime(KeyboardInterrupt):
    """The time limit was reached. The training continues when the command is run again."""


class _NoResult(Exception):
    """A trial or runs ended without a result; the reason is in the attributes."""


class Worker:
    """A process that works on experiments, in their order.

    Args:
        experiments: The experiments.
        storage: Where workers share them.
        folder: Where run folders are kept while runs are trained.
        follow: Called when the status or the progress of a training changes.
        finish: Called when runs have ended, before their result is stored.
        ends: Value of `time.time()` after which nothing is started. A trial that would end later is not started.
        expected: Function that returns the expected seconds of the runs of an experiment.
    """

    def __init__(
        self,
        experiments: Sequence[Experiment],
        storage: Storage,
        folder: Path,
        *,
        follow: Follow = lambda status, progress: None,
        finish: Finish = lambda experiment, runs, failures: None,
        ends: float = math.inf,
        expected: Callable[[Experiment], float] = lambda experiment: 0.0,
    ) -> None:
        self.experiments, self.storage, self.folder = list(experiments), storage, folder
        self.follow, self.finish, self.ends, self.expected = follow, finish, ends, expected

    def run(self) -> list[Status]:
        """Work until all experiments are done, or until the time is over, and return their status."""
        with _open(self.storage) as storage:
            queues: dict[str, Queue] = {}

            def take(experiment: Experiment) -> bool:
                if experiment.name not in queues:
                    queues[experiment.name] = self._queue(experiment, storage)
                queue = queues[experiment.name]
                return not queue.done and self._take(queue)

            with suppress(OutOfTime):
                while time.time() < self.ends:
                    if not any(map(take, self.experiments)):
                        if not any(queue.running for queue in queues.values() if not queue.done):
                            break
                        # Other workers may die and leave their work.
                        time.sleep(SECONDS_BETWEEN_LOOKS)
            return [_status(experiment, storage) for experiment in self.experiments]

    def _queue(self, experiment: Experiment, storage: Any) -> Queue:
        info = _task_info(experiment, storage)
        if info is None:
            # Errors of the configuration are raised here, before anything is stored.
            task = _load(experiment.base)
            training.build(experiment.base, task)
            info = TaskInfo(task.metric, task.better, task.solved)
        return Queue(experiment, storage, info, self.storage.grace)

    def _take(self, queue: Queue) -> bool:
        """Take one piece of work of an experiment; False if there is none, or no time for it."""
        queue.fill()
        status = queue.status()
        queue.done = not status.remaining
        self.follow(status, None)
        if time.time() + self._expected(status) > self.ends:
            return False
        return queue.take(lambda trial, work: self._do_work(queue, trial, work), (_NoResult,))

    def _expected(self, status: Status) -> float:
        if status.searched:
            return self.expected(status.experiment)
        return max((row["seconds"] or 0.0 for row in status.rows), default=0.0)

    def _do_work(self, queue: Queue, trial: Any, work: Work) -> float:
        trial.set_user_attr("worker", f"{platform.node()} {os.getpid()}")
        do = self._try if work.trial is not None else self._run
        try:
            return do(queue, trial, work)
        except (optuna.TrialPruned, _NoResult):
            raise
        except KeyboardInterrupt as stop:
            # Other workers may have ended the entry already.
            with suppress(optuna.exceptions.UpdateFinishedTrialError):
                why = "the time was over" if isinstance(stop, OutOfTime) else "it was stopped"
                trial.set_user_attr("set_aside", why)
            raise
        except Exception as error:
            # Runs use settings with which a trial succeeded, so only trials may run out of memory.
            if work.trial is not None and is_out_of_memory(error):
                reason = error.reason if isinstance(error, DeviceError) else describe_device_error(error)
                # Other workers may have filled the GPU: the budget of a model must not depend on them.
                trial.set_user_attr("failure" if queue.is_last_attempt(work) else "ended_by", reason)
                raise _NoResult from None
            trial.set_user_attr("ended_by", f"{type(error).__name__}: {error}")
            raise
        finally:
            if torch.cuda.is_available():  # other workers may need the memory before the next training
                torch.cuda.empty_cache()

    def _watch(self, queue: Queue, callback: Callable[[Progress], None] = lambda progress: None) -> training.Watch:
        """Return a callback of a training that reports the status of the experiment and checks the time limit."""
        status, last_read = queue.status(), time.monotonic()

        def watch(progress: Progress) -> None:
            nonlocal status, last_read
            if time.monotonic() - last_read > self.storage.heartbeat:
                status, last_read = queue.status(), time.monotonic()
            self.follow(status, progress)
            callback(progress)
            if time.time() > self.ends:
                raise OutOfTime

        return watch

    def _try(self, queue: Queue, trial: Any, work: Work) -> float:
        """Train a trial and return its validation."""
        experiment, evaluations = queue.experiment, 0
        register_parameters(experiment, trial)
        values = trial.user_attrs["values"]

        def report(progress: Progress) -> None:
            nonlocal evaluations
            for _, row in progress.evaluations:
                evaluations += 1
                trial.report(row["metric"], evaluations)
                may_prune = progress.step >= SHARE_BEFORE_PRUNING * progress.steps and progress.step < progress.steps
                if experiment.prune and may_prune and trial.should_prune():
                    trial.set_user_attr("steps", progress.step)
                    raise optuna.TrialPruned

        config = experiment.trial_config(values)
        result = training.validate(config, lock_test(_load(config)), self._watch(queue, report))
        trial.set_user_attr("steps", result.steps)
        trial.set_user_attr("source", source())
        if result.metric is None or not math.isfinite(result.metric):
            trial.set_user_attr("failure", result.failure or f"the validation is {result.metric}")
            raise _NoResult
        return result.metric

    def _run(self, queue: Queue, trial: Any, work: Work) -> float:
        """Train and test the runs, side by side if possible, and return the mean of their tests."""
        experiment, values = queue.experiment, trial.user_attrs["values"]
        config = experiment.run_config(values, work.seeds[0])
        began = time.perf_counter()
        runs, failures = training.train_seeds(config, work.seeds, self.folder / experiment.name, self._watch(queue))
        self.finish(experiment, runs, failures)
        seconds = round(time.perf_counter() - began, 2)
        origin = {"machine": machine(), "device": device_for(config.place.device), **source()}
        rows = [_row(run) | origin for run in runs]
        rows += [{"seed": s, "test": None, "failed": why, "seconds": seconds, **origin} for s, why in failures.items()]
        trial.set_user_attr("runs", rows)
        tests = [row["test"] for row in rows if row["test"] is not None]
        if not tests:
            trial.set_user_attr("failure", "; ".join(f"seed {seed}: {why}" for seed, why in failures.items()))
            raise _NoResult
        return sum(tests) / len(tests)


def read_status(experiments: Sequence[Experiment], storage: Storage) -> list[Status]:
    """Return the status of experiments without working on them. A missing storage is not created."""
    if not exists(storage):
        return [Status(experiment, UNKNOWN, (), ()) for experiment in experiments]
    with _open(storage) as opened:
        return [_status(experiment, opened) for experiment in experiments]


UNKNOWN = TaskInfo("metric", "lower")
"""The task of an experiment that has not begun."""


def _status(experiment: Experiment, storage: Any) -> Status:
    studies = [_study(name, storage) for name in (experiment.name, f"{experiment.name} runs")]
    trials, runs = ([] if study is None else study.get_trials(deepcopy=False) for study in studies)
    return make_status(experiment, trials, runs, _task_info(experiment, storage) or UNKNOWN)


def _study(name: str, storage: Any) -> Any:
    """Return a study, or None if there is none of this name."""
    try:
        return optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        return None


def _task_info(experiment: Experiment, storage: Any) -> TaskInfo | None:
    study = _study(experiment.name, storage)
    return None if study is None or "task" not in study.user_attrs else TaskInfo(**study.user_attrs["task"])


@contextmanager
def _open(storage: Storage) -> Any:
    """Open a storage. Errors that it causes name it."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    opened = open_storage(storage)
    try:
        yield opened
    except Exception as error:
        failure = explain_failure(error, storage.url)
        if failure is None:
            raise
        raise failure from error
    finally:
        opened.remove_session()
        if isinstance(opened, optuna.storages.RDBStorage):
            opened.engine.dispose()


class LockedSplitError(RuntimeError):
    """A trial asked for the test split."""


def lock_test(task: Task) -> Task:
    """Return a task whose test split cannot be read."""

    def refuse() -> Any:
        raise LockedSplitError(f"a trial asked for the test split of {task.name}: only runs are tested")

    return replace(task, test=refuse)


def _load(config: Any) -> Task:
    return _load_cached(config.task, config.seed, config.place.data)


@lru_cache(1)
def _load_cached(options: Any, seed: int, data: str | None) -> Task:
    return options.load(seed, None if data is None else Path(data))


def _row(run: Run) -> dict[str, Any]:
    """Return the row of a run in the storage."""
    result = run.result or {}
    copied = ("seed", "test", "validation", "steps", "epochs", "seconds", "parameters", "side_by_side")
    figures = {name: _round_finite(result[name]) for name in ("test", "validation")}
    return {**{name: result[name] for name in copied}, **figures, "curve": _curve(run)}


def _curve(run: Run) -> dict[str, list]:
    """Return the validation metric of at most about `POINTS` evaluations, including the last."""
    rows = run.metrics()
    every = max(1, math.ceil(len(rows) / POINTS))
    thinned = [row for number, row in enumerate(rows, 1) if number % every == 0 or number == len(rows)]
    columns = records.columns(thinned)
    at = "epoch" if "epoch" in columns else "step"
    return {at: columns[at], "validation": columns["metric"]}


def _round_finite(value: float | None) -> float | None:
    """Round to six digits; None for infinity and NaN, which JSON does not have."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
