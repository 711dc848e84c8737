"""The study that the workers share, in its storage."""

import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from sqlalchemy.engine import make_url
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from cornn._random import derive_seed
from cornn.lab.config import as_dictionary, differences, from_dictionary
from cornn.lab.experiments.search.spec import Search, hidden
from cornn.lab.tasks import Task

__all__ = ["Numbered", "again", "counts", "failure", "joined"]

SILENCES = 4
"""Signs of life that a worker may miss before its trial is given to another."""
ATTEMPTS = 3
"""Workers that may die of a trial before it counts as failed."""
TRIALS_BEFORE_PRUNING = 5
"""Minimum number of trials for a median."""


class Numbered(optuna.samplers.RandomSampler):
    """Random numbers that depend on the trial's number: workers with the same seed try different things."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def sample_independent(self, study: Any, trial: Any, param_name: str, param_distribution: Any) -> Any:
        own = optuna.samplers.RandomSampler(derive_seed(self.seed, "search", trial.number, param_name) % 2**32)
        return own.sample_independent(study, trial, param_name, param_distribution)


@contextmanager
def joined(plan: Search, task: Task) -> Iterator[Any]:
    """The study, which the first worker makes."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    storage = _open(plan)
    try:
        study = optuna.create_study(
            storage=storage,
            study_name=plan.study,
            direction="minimize" if task.better == "lower" else "maximize",
            sampler=Numbered(plan.base.seed),
            pruner=optuna.pruners.MedianPruner(TRIALS_BEFORE_PRUNING) if plan.prune else optuna.pruners.NopPruner(),
            load_if_exists=True,
        )
        _compare(plan, study)
        yield study
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _compare(plan: Search, study: Any) -> None:
    """Reject a study whose trials have different settings."""
    ranges = {name: list(ends) for name, ends in plan.space.items()}
    own = {**as_dictionary(plan.base), "space": ranges, "prune": plan.prune}
    if "search" not in study.user_attrs:
        study.set_user_attr("search", own)
    before = study.user_attrs["search"]
    changed = differences(from_dictionary(before), plan.base)
    for name in ("space", "prune"):
        changed += [] if before[name] == own[name] else [f"{name} was {before[name]}, is {own[name]}"]
    if changed:
        raise ValueError(
            f"the study {plan.study} belongs to another search ({'; '.join(changed)}): choose another name with --study"
        )


def _open(plan: Search) -> Any:
    name, url = hidden(plan.storage), make_url(plan.storage)
    kind = url.get_backend_name()
    # Workers that share a file wait for each other; a server that does not answer is not waited for.
    patience = {"sqlite": {"timeout": 60}, "postgresql": {"connect_timeout": 10}}.get(kind, {})
    attempts_left = 5
    while True:
        try:
            if kind == "sqlite" and url.database:
                Path(url.database).parent.mkdir(parents=True, exist_ok=True)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                return optuna.storages.RDBStorage(
                    plan.storage,
                    engine_kwargs={"connect_args": patience},
                    heartbeat_interval=plan.heartbeat,
                    grace_period=SILENCES * plan.heartbeat,
                    heartbeat_stale_trial_callback=lambda study, trial: again(study, trial, died=1),
                )
        except ImportError as error:
            package = getattr(error.__cause__, "name", None) or "of its driver"
            wanted = {"psycopg": '"psycopg[binary]"', "MySQLdb": "mysqlclient"}.get(package, package)
            raise ImportError(f"the storage {name} needs the package {package}: pip install {wanted}") from None
        except (SQLAlchemyError, OSError) as error:
            attempts_left -= 1
            reason = str(getattr(error, "orig", None) or error).strip().split("\n")[0]
            # Another worker that starts at the same time is making the tables.
            made = isinstance(error, IntegrityError) or "already exists" in reason
            if not (made and attempts_left):
                raise OSError(f"cannot open the storage {name} ({reason}): fix it or choose another") from None
            time.sleep(0.5)


def again(study: Any, trial: Any, died: int = 0) -> None:
    """Let the values of a trial wait for the next worker. died: workers, of this trial."""
    before = trial.user_attrs.get("died", 0)
    if before + died < ATTEMPTS:
        study.enqueue_trial(trial.params, user_attrs={"died": before + died, "instead_of": trial.number})


def counts(trial: Any) -> bool:
    return trial.state.name != "FAIL" or failure(trial) is not None


def failure(trial: Any) -> str | None:
    """Why a trial failed. A worker that was killed could not leave a reason."""
    if trial.state.name != "FAIL" or "set_aside" in trial.user_attrs:
        return None
    if "failure" not in trial.user_attrs and trial.user_attrs.get("died", 0) + 1 >= ATTEMPTS:
        last = trial.user_attrs.get("ended_by", "a kill")
        return f"{ATTEMPTS} workers ended in it without a result, the last one with {last}"
    return trial.user_attrs.get("failure")
