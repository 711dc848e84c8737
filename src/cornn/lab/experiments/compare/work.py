"""A worker: it takes one job after another, as long as there are any and there is time."""

import gc
import math
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from cornn import __version__
from cornn._machine import device_for, machine
from cornn._source import source
from cornn.lab import records, training
from cornn.lab.config import Train
from cornn.lab.experiments.compare.contests import Contest
from cornn.lab.experiments.compare.jobs import Job, claimed, expected_seconds, open_jobs
from cornn.lab.runs import Run, write_json
from cornn.lab.tasks import Task
from cornn.lab.training import Diverged

__all__ = ["Place", "work"]

SECONDS_BETWEEN_LOOKS = 0.5
"""Of a worker that waits for trials of others, without which no final run can begin."""
POINTS = 50
"""Maximum number of points of a recorded curve."""


@dataclass(frozen=True)
class Place:
    """Where a comparison is, and where it is run."""

    folder: Path
    device: str = "auto"
    data: str | None = None
    workers: int = 1


def work(
    contests: Sequence[Contest],
    place: Place,
    ends: float = math.inf,
    wanted: Callable[[], bool] = lambda: True,
) -> None:
    """Work on the jobs until all are done, by this worker and the others, or until `ends`.

    ends: of the clock time.time(). A trial that would not be done by then is not begun; a final run is, it goes on
    another time. wanted: whether to begin another one.
    """
    while wanted() and time.time() < ends:
        fitting = 0
        for job in open_jobs(contests, place.folder):
            if job.seed is None and time.time() + expected_seconds(job, place.folder) > ends:
                continue
            fitting += 1
            if _took(job, place):
                break
        else:
            if not fitting:
                return
            time.sleep(SECONDS_BETWEEN_LOOKS)


def _took(job: Job, place: Place) -> bool:
    """Do a job, unless another worker has it.

    A model that diverges has an outcome. One that finds no memory has none: others may have taken it.
    """
    with claimed(job, place.folder) as own:
        if not own:
            return False
        path = job.path(place.folder)
        try:
            outcome = _trial(job, place) if job.seed is None else _final(job, place)
        except Exception as error:
            path.with_suffix(".broken").write_text(f"{type(error).__name__}: {error}\n", encoding="utf8")
            raise
        about = {"version": __version__, **source(), "workers": place.workers}
        about |= {"machine": machine(), "device": device_for(place.device)}
        write_json(path, {"trial": job.trial, "seed": job.seed, **outcome, **about}, indent=None)
        shutil.rmtree(path.with_suffix(""), ignore_errors=True)
    # What a job leaves on a GPU goes before the next one comes.
    if torch.cuda.is_available():
        gc.collect()
        torch.cuda.empty_cache()
    return True


@lru_cache(1)
def _task(options: Any, seed: int, data: str | None) -> Task:
    return options.load(seed, None if data is None else Path(data))


def _placed(config: Train, place: Place) -> Train:
    return config.override(device=place.device, data=place.data)


def _trial(job: Job, place: Place) -> dict[str, Any]:
    values = job.contest.values(job.entrant, job.trial)
    config = _placed(job.contest.configuration(job.entrant, values), place)
    task = _task(config.task, config.seed, config.place.data)
    reached = training.validate(config, task)
    found = {"validation": _finite(reached.metric), "steps": reached.steps, "seconds": round(reached.seconds, 2)}
    about = {"metric": task.metric, "better": task.better}
    return {"values": values, **found, **about} | ({} if reached.failure is None else {"failed": reached.failure})


def _final(job: Job, place: Place) -> dict[str, Any]:
    chosen = Job(job.contest, job.entrant, job.trial).outcome(place.folder)
    if chosen is None or job.seed is None:
        raise RuntimeError(f"{job.path(place.folder)} belongs to a trial without a result")
    config = _placed(job.contest.configuration(job.entrant, chosen["values"], job.seed), place)
    here = job.path(place.folder).with_suffix("")
    began = time.perf_counter()
    try:
        run = training.fit_or_resume(config, here)
    except Diverged as error:
        failed = str(error).split(": try ")[0]
        steps = [row["step"] for row in Run(here).metrics()]
        seconds = round(time.perf_counter() - began, 2)
        return {"test": None, "steps": max(steps, default=None), "seconds": seconds, "failed": failed}
    result = run.result or {}
    same = ("test", "validation", "steps", "epochs", "seconds", "parameters", "metric", "better", "trivial", "solved")
    figures = {name: _finite(result[name]) for name in ("test", "validation")}
    return {**{name: result[name] for name in same}, **figures, "curve": _curve(run)}


def _curve(run: Run) -> dict[str, list]:
    """Where it was evaluated, and what it reached; thinned, the last point kept."""
    rows = run.metrics()
    every = max(1, math.ceil(len(rows) / POINTS))
    thin = [row for number, row in enumerate(rows, 1) if number % every == 0 or number == len(rows)]
    columns = records.columns(thin)
    at = "epoch" if "epoch" in columns else "step"
    return {at: columns[at], "validation": columns["metric"]}


def _finite(value: float | None) -> float | None:
    """To six digits; None for what JSON has no word for."""
    return float(f"{value:.6g}") if value is not None and math.isfinite(value) else None
