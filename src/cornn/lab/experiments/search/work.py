"""A worker: it takes trials, trains them, and tells where the search stands."""

import math
import os
import platform
import time
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import optuna
import torch
from sqlalchemy.exc import SQLAlchemyError

from cornn.lab import training
from cornn.lab.experiments.search.spec import Search, configuration, hidden
from cornn.lab.experiments.search.status import Follow, Standing
from cornn.lab.experiments.search.study import again, counts, failure, joined
from cornn.lab.tasks import Task
from cornn.lab.training import Progress

__all__ = ["work"]

SECONDS_BETWEEN_LOOKS = 1
"""Of a worker that waits for the others."""
SHARE_BEFORE_PRUNING = 0.25
"""Of a training, that no trial is pruned in: the first epochs say little."""


class _NotCounted(Exception):
    """Ends a trial that is failed or set aside; what is to be known of it is in its attributes."""


def work(plan: Search, follow: Follow) -> Standing:
    """Work on the trials until as many as are wanted are done, by this worker and the others."""
    task = training.load(plan.base)
    training.build(plan.base, task)
    try:
        with joined(plan, task) as study:
            return _take(plan, task, study, follow)
    except Exception as error:
        # Optuna stumbles itself over some errors of its storage.
        chain: BaseException | None = error
        while chain is not None and not isinstance(chain, SQLAlchemyError):
            chain = chain.__cause__ or (None if chain.__suppress_context__ else chain.__context__)
        if chain is None:
            raise
        reason = str(getattr(chain, "orig", None) or chain).strip().split("\n")[0]
        name = hidden(plan.storage)
        raise OSError(f"the storage {name} failed ({reason}): fix it, then run the same command to continue") from error


def _take(plan: Search, task: Task, study: Any, follow: Follow) -> Standing:
    while True:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            optuna.storages.fail_stale_trials(study)
        standing = _standing(plan, task, study)
        follow(standing, None)
        if standing.done + standing.running < plan.trials:
            # What a trial leaves on a GPU goes before the next one comes.
            clean = torch.cuda.is_available()
            trying = partial(_try, plan, task, follow)
            study.optimize(trying, n_trials=1, catch=(_NotCounted,), gc_after_trial=clean)
        elif standing.running:
            # The others may die of theirs.
            time.sleep(SECONDS_BETWEEN_LOOKS)
        else:
            return standing


def _try(plan: Search, task: Task, follow: Follow, trial: Any) -> float:
    """One trial; what is reported to the study is the validation."""
    study, number = trial.study, trial.number
    # Between the look at the study and the trial another worker may have taken the last one. Numbers are given out one
    # by one, so that all workers agree on which is too many.
    if sum(counts(other) for other in study.get_trials(deepcopy=False) if other.number < number) >= plan.trials:
        trial.set_user_attr("set_aside", "as many as are wanted were under way")
        raise _NotCounted
    trial.set_user_attr("worker", f"{platform.node()} {os.getpid()}")
    values = {name: trial.suggest_float(name, *ends, log=True) for name, ends in plan.space.items()}
    standing, looked, evaluations = _standing(plan, task, study), time.monotonic(), 0

    def watch(progress: Progress) -> None:
        nonlocal standing, looked, evaluations
        if time.monotonic() - looked > plan.heartbeat:
            standing, looked = _standing(plan, task, study), time.monotonic()
        follow(standing, progress)
        for _, row in progress.evaluations:
            evaluations += 1
            trial.report(row["metric"], evaluations)
            late = progress.step >= SHARE_BEFORE_PRUNING * progress.steps and progress.step < progress.steps
            if plan.prune and late and trial.should_prune():
                trial.set_user_attr("steps", progress.step)
                raise optuna.TrialPruned

    try:
        # The theory at every evaluation is for runs that leave a record.
        reached = training.validate(replace(configuration(plan, values), theory=False), task, watch)
    except optuna.TrialPruned:
        raise
    except torch.OutOfMemoryError as error:
        trial.set_user_attr("failure", str(error).split(". ")[0])
        raise _NotCounted from None
    except KeyboardInterrupt:
        trial.set_user_attr("set_aside", "its worker was stopped")
        again(study, trial)
        raise
    except Exception as error:
        trial.set_user_attr("ended_by", f"{type(error).__name__}: {error}")
        again(study, trial, died=1)
        raise
    trial.set_user_attr("steps", reached.steps)
    if reached.metric is None or not math.isfinite(reached.metric):
        trial.set_user_attr("failure", reached.failure or f"the validation is {reached.metric}")
        raise _NotCounted
    return reached.metric


def _standing(plan: Search, task: Task, study: Any) -> Standing:
    trials = [trial for trial in study.get_trials(deepcopy=False) if counts(trial)]
    rows = [_row(trial) for trial in trials if trial.state.name != "WAITING"]
    count = {state: sum(row["state"] == state for row in rows) for state in ("complete", "pruned", "failed", "running")}
    sign = 1 if task.better == "lower" else -1
    best = min(
        (row for row in rows if row["state"] == "complete"), key=lambda row: sign * row["validation"], default=None
    )
    seconds = [row["seconds"] for row in rows if row["seconds"] is not None]
    left = max(0, plan.trials - len(rows) + count["running"])
    guess = sum(seconds) / len(seconds) * left / max(1, count["running"]) if seconds else None
    return Standing(plan.trials, **count, better=task.better, best=best, seconds_left=guess, rows=tuple(rows))


def _row(trial: Any) -> dict[str, Any]:
    def number(value: float | None) -> float | None:
        """JSON has no others."""
        return value if value is not None and math.isfinite(value) else None

    began, ended = trial.datetime_start, trial.datetime_complete
    return {
        "trial": trial.number,
        "state": {"FAIL": "failed"}.get(trial.state.name, trial.state.name.lower()),
        "values": dict(trial.params),
        "validation": number(trial.value),
        "steps": trial.user_attrs.get("steps"),
        "seconds": None if began is None or ended is None else (ended - began).total_seconds(),
        "failure": failure(trial),
        "curve": [number(value) for _, value in sorted(trial.intermediate_values.items())],
    }
