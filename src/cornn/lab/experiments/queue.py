"""The queue of an experiment: its trials and its runs as entries of Optuna studies, which workers share.

An entry is one attempt at a piece of work. Its attributes name the work: the number of a trial, or the seeds of runs.
The possible ends of an attempt are

    complete    trained to the end;
    pruned      stopped early, behind the median of the others;
    failed      diverged, or ran out of memory in the last attempt: the attribute "failure" has the reason;
    set aside   not counted: the worker was stopped, or another one has the same work ("set_aside");
    died        none of these: the worker was killed, ran out of memory, or ended with an error ("ended_by").

Every worker puts work without an attempt into the queue. A piece of work whose attempt died is thus repeated, with the
same number and the same values, up to `ATTEMPTS` times.
"""

import json
import math
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from cornn.lab.config import list_changes
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status, TaskInfo

ATTEMPTS = 3
"""Number of attempts at the same work that may die before it counts as failed."""
TRIALS_BEFORE_PRUNING = 5
"""Minimum number of trials for a median."""

LIVE = (TrialState.WAITING, TrialState.RUNNING)


@dataclass(frozen=True)
class Work:
    """The number of a trial, or the seeds and the settings of runs."""

    trial: int | None = None
    seeds: tuple[int, ...] = ()
    settings: str = ""  # of runs, as JSON: more trials may choose others


def _read_work(entry: FrozenTrial) -> Work | None:
    """Return the work of an entry; None for an entry that Optuna created by itself."""
    attributes = entry.user_attrs
    if "seeds" in attributes:
        return Work(seeds=tuple(attributes["seeds"]), settings=_as_json(attributes.get("values", {})))
    if "trial" in attributes:
        return Work(attributes["trial"])
    # Version 0.1 numbered trials by their entries, and repeated them under new numbers.
    return Work(entry.number) if "worker" in attributes and "set_aside" not in attributes else None


def _as_json(settings: Mapping[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def _failure_of(entry: FrozenTrial) -> str | None:
    return entry.user_attrs.get("failure") if entry.state == TrialState.FAIL else None


def _counts(entry: FrozenTrial) -> bool:
    """Return whether an entry has a result."""
    return entry.state in (TrialState.COMPLETE, TrialState.PRUNED) or _failure_of(entry) is not None


def _has_died(entry: FrozenTrial) -> bool:
    return entry.state == TrialState.FAIL and _failure_of(entry) is None and "set_aside" not in entry.user_attrs


class Queue:
    """The trials and runs of one experiment in an open storage."""

    def __init__(self, experiment: Experiment, storage: Any, task: TaskInfo, grace: float = math.inf) -> None:
        self.experiment, self.task = experiment, task
        self.grace = grace  # seconds after which an entry that was taken must have a worker
        self.done = False  # whether the last look found nothing left
        options = {
            "storage": storage,
            "direction": "minimize" if task.better == "lower" else "maximize",
            "load_if_exists": True,
        }
        prune = experiment.prune
        pruner = optuna.pruners.MedianPruner(TRIALS_BEFORE_PRUNING) if prune else optuna.pruners.NopPruner()
        self.trials = optuna.create_study(study_name=experiment.name, pruner=pruner, **options)
        self.runs = optuna.create_study(study_name=f"{experiment.name} runs", **options) if experiment.seeds else None
        self._compare()

    def _compare(self) -> None:
        """Reject a study that belongs to another experiment."""
        name, settings = self.experiment.name, self.experiment.shared_settings
        if "experiment" not in self.trials.user_attrs:
            self.trials.set_user_attr("experiment", settings)
            self.trials.set_user_attr("task", asdict(self.task))
        changed = list_changes(self.trials.user_attrs["experiment"], settings)
        if changed:
            raise ValueError(
                f"the study {name} belongs to another experiment ({'; '.join(changed)}): choose another name or storage"
            )

    def fill(self) -> None:
        """Put the next piece of work without an attempt into the queue, unless something is waiting there."""
        for study in self._studies:
            _fail_stale(study, self.grace)
        entries = self.trials.get_trials(deepcopy=False)
        # Trials that ended without a result come last: their cause, such as a full GPU, may be gone by then.
        died = Counter(_read_work(entry) for entry in entries if _has_died(entry))
        for number in sorted(range(self.experiment.trials), key=lambda number: died[Work(number)]):
            values = self.experiment.values(number)
            if _enqueue(self.trials, entries, Work(number), _parameters(self.experiment, values), values):
                return
        status = self.status()
        if self.runs is not None and (not self.experiment.space or (status.searched and status.best is not None)):
            entries, settings = self.runs.get_trials(deepcopy=False), _as_json(status.chosen)
            works = [
                work for entry in entries if (work := _read_work(entry)) and (entry.state in LIVE or _counts(entry))
            ]
            seeds = {seed for work in works if work.settings == settings for seed in work.seeds}
            left = tuple(seed for seed in self.experiment.seeds if seed not in seeds)
            if left:
                _enqueue(self.runs, entries, Work(seeds=left, settings=settings), {}, status.chosen)

    @property
    def _studies(self) -> list[Any]:
        return [self.trials] if self.runs is None else [self.trials, self.runs]

    def take(self, do: Callable[[Any, Work], float], caught: tuple[type[Exception], ...]) -> bool:
        """Do the next piece of work that is not taken; `caught`: exceptions that end the work but not the worker."""
        for study in self._studies:
            if any(entry.state == TrialState.WAITING for entry in study.get_trials(deepcopy=False)):
                settings = _as_json(self.status().chosen)
                _optimize_once(study, settings, do, (*caught, NotTaken))
                return True
        return False

    def is_last_attempt(self, work: Work) -> bool:
        """Return whether a trial will not be tried again if the present attempt ends without a result."""
        entries = self.trials.get_trials(deepcopy=False)
        return sum(_has_died(entry) for entry in entries if _read_work(entry) == work) + 1 >= ATTEMPTS

    @property
    def running(self) -> int:
        """Number of trials and runs that are being trained."""
        entries = [entry for study in self._studies for entry in study.get_trials(deepcopy=False)]
        return sum(entry.state == TrialState.RUNNING for entry in entries)

    def status(self) -> Status:
        runs = self.runs.get_trials(deepcopy=False) if self.runs is not None else []
        return make_status(self.experiment, self.trials.get_trials(deepcopy=False), runs, self.task)


class NotTaken(Exception):
    """The work of this entry is done, taken by another one, or no longer asked for."""


def _optimize_once(
    study: Any, settings: str, do: Callable[[Any, Work], float], caught: tuple[type[Exception], ...]
) -> None:
    """Take one entry of a study; runs only with these settings.

    Errors that are not caught end the worker; the entry's attributes describe them.
    """
    raised: BaseException | None = None

    def objective(trial: Any) -> float:
        nonlocal raised
        try:
            return do(trial, _claim(study, trial, settings))
        except BaseException as error:
            raised = error
            raise

    try:
        study.optimize(objective, n_trials=1, catch=caught)
    except ValueError as error:
        if error is raised:
            raise
        # Optuna's own error: other workers ended the entry after missed heartbeats, as after a laptop slept. Its work
        # is in the queue again.
        if isinstance(raised, KeyboardInterrupt):
            raise raised from None


def _claim(study: Any, trial: Any, settings: str) -> Work:
    """Return the work of an entry, unless an earlier entry has the same, or its runs have other settings than these."""
    entries = study.get_trials(deepcopy=False)
    entry_of_trial = next(entry for entry in entries if entry.number == trial.number)
    work = _read_work(entry_of_trial)
    others = [
        e
        for e in entries
        if e.number < entry_of_trial.number and _read_work(e) == work and (e.state in LIVE or _counts(e))
    ]
    outdated = work is not None and work.seeds and work.settings != settings
    if work is None or others or outdated:
        trial.set_user_attr("set_aside", "another trial is the best now" if outdated else "another worker has it")
        raise NotTaken
    return work


def _enqueue(
    study: Any, entries: Sequence[FrozenTrial], work: Work, parameters: dict[str, Any], values: dict[str, Any]
) -> bool:
    """Put a piece of work into the queue, unless it has an attempt. Return whether something is waiting."""
    if any(entry.state == TrialState.WAITING for entry in entries):
        return True
    attempts = [entry for entry in entries if _read_work(entry) == work]
    if any(entry.state in LIVE or _counts(entry) for entry in attempts) or sum(map(_has_died, attempts)) >= ATTEMPTS:
        return False
    name = {"seeds": list(work.seeds)} if work.trial is None else {"trial": work.trial}
    study.enqueue_trial(parameters, user_attrs={**name, "values": values})
    return True


def _parameters(experiment: Experiment, values: dict[str, Any]) -> dict[str, Any]:
    """Return the values by the names that Optuna's tools show."""
    return {
        part: number
        for name, draw in experiment.space.items()
        for (part, _), number in zip(draw.distributions(name), _as_list(values[name]), strict=True)
    }


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, tuple | list) else [value]


def register_parameters(experiment: Experiment, trial: Any) -> None:
    """Tell Optuna the parameters of a trial, for its own tools."""
    for name, draw in experiment.space.items():
        for part, distribution in draw.distributions(name):
            if isinstance(distribution, tuple):
                trial.suggest_categorical(part, distribution)
            else:
                trial.suggest_float(part, distribution.low, distribution.high, log=not distribution.uniform)


def _fail_stale(study: Any, grace: float) -> None:
    """Mark the entries of workers that have died."""
    # A worker that was killed as soon as it took an entry has sent no heartbeat, which Optuna would miss.
    for entry in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        began = entry.datetime_start
        if "worker" not in entry.user_attrs and began and (datetime.now() - began).total_seconds() > grace:
            with suppress(ValueError, optuna.exceptions.UpdateFinishedTrialError):
                study.tell(entry.number, state=TrialState.FAIL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        optuna.storages.fail_stale_trials(study)


def make_status(
    experiment: Experiment, trials: Sequence[FrozenTrial], runs: Sequence[FrozenTrial], task: TaskInfo
) -> Status:
    """Return the status of an experiment from the entries of its studies."""
    rows = []
    for number in sorted({work.trial for entry in trials if (work := _read_work(entry)) and work.trial is not None}):
        attempts = [entry for entry in trials if _read_work(entry) == Work(number)]
        attempt = next((e for e in attempts if _counts(e)), None) or next(
            (e for e in attempts if e.state in LIVE), None
        )
        if attempt is None and sum(map(_has_died, attempts)) >= ATTEMPTS:
            attempt = attempts[-1]
        if attempt is not None and attempt.state != TrialState.WAITING:
            rows.append(_row(number, attempt))
    # Runs count with the settings of the best trial. More trials may have found a better one.
    settings = _as_json(Status(experiment, task, tuple(rows), ()).chosen)
    runs = [entry for entry in runs if (work := _read_work(entry)) and work.settings == settings]
    finished = [run for entry in runs if _counts(entry) for run in entry.user_attrs.get("runs", [])]
    lost = {
        seed: _describe_loss([e for e in runs if _read_work(e) == work])
        for work in {_read_work(entry) for entry in runs}
        if work is not None and sum(_has_died(e) for e in runs if _read_work(e) == work) >= ATTEMPTS
        for seed in work.seeds
    }
    known = {run["seed"] for run in finished}
    finished += [{"seed": s, "test": None, "failed": why, "seconds": 0.0} for s, why in lost.items() if s not in known]
    ordered = tuple(sorted(finished, key=lambda run: run["seed"]))
    return Status(experiment, task, tuple(rows), ordered)


def _describe_loss(entries: Sequence[FrozenTrial]) -> str:
    last = entries[-1].user_attrs.get("ended_by", "a kill")
    return f"{ATTEMPTS} workers ended in it without a result, the last one with {last}"


def _row(number: int, entry: FrozenTrial) -> dict[str, Any]:
    def finite(value: float | None) -> float | None:
        """Return a number if it is finite, else None: JSON has no infinity or NaN."""
        return value if value is not None and math.isfinite(value) else None

    begin, end = entry.datetime_start, entry.datetime_complete
    attributes = entry.user_attrs
    return {
        "trial": number,
        "state": "failed" if entry.state == TrialState.FAIL else entry.state.name.lower(),
        "values": attributes.get("values", dict(entry.params)),
        "validation": finite(entry.value if entry.state == TrialState.COMPLETE else None),
        "steps": attributes.get("steps"),
        "seconds": None if begin is None or end is None else (end - begin).total_seconds(),
        "failure": (_failure_of(entry) or _describe_loss([entry])) if entry.state == TrialState.FAIL else None,
        "curve": [finite(value) for _, value in sorted(entry.intermediate_values.items())],
        **({"source": attributes["source"]} if "source" in attributes else {}),
    }
