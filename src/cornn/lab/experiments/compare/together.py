"""The workers of a comparison: started, stopped in time, replaced when one dies; and the records gathered meanwhile."""

import math
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cornn.lab.experiments.compare.contests import Contest
from cornn.lab.experiments.compare.jobs import Row, check, open_jobs, rows
from cornn.lab.experiments.compare.work import Place, work
from cornn.lab.recipes.ranges import ENTRANTS
from cornn.lab.runs import write_json

__all__ = ["Ended", "compare"]

SECONDS_BETWEEN_LOOKS = 0.2
SECONDS_BETWEEN_RECORDS = 10
SECONDS_TO_LEAVE = 8
"""Before the end of the budget workers are asked to stop: a final run saves, a trial is lost."""
SPARES = 3
"""Workers that may take the place of one that died, for each that is asked for."""


@dataclass(frozen=True)
class Ended:
    """How a comparison ended."""

    written: tuple[Path, ...]  # records
    left: int  # trials and final runs that are still to be done
    broken: tuple[tuple[Path, str], ...]  # what ended a worker, and how


def _nothing() -> None:
    """Prepare nothing."""


def compare(
    contests: Sequence[Contest],
    place: Place,
    results: Path,
    budget_seconds: float | None = None,
    prepare: Callable[[], None] = _nothing,
    follow: Callable[[list[Row]], None] = lambda rows: None,
) -> Ended:
    """Do what is not done yet, and write a record for each contest under results/compare.

    prepare: is called first in each worker; follow: is shown where all stand, now and then.
    """
    began, ends = time.time(), math.inf if budget_seconds is None else time.time() + budget_seconds
    for contest in contests:
        check(contest, place.folder)
        for path in (place.folder / contest.name).rglob("*.broken"):
            path.unlink()
    started = multiprocessing.get_context("spawn")
    workers: list[Any] = []
    spares, gathered = place.workers * SPARES, began
    leave = ends - min(SECONDS_TO_LEAVE, (ends - began) / 10) if math.isfinite(ends) else ends
    try:
        count = min(place.workers, sum(row.left for row in _all(contests, place))) if time.time() < leave else 0
        for _ in range(count):
            workers.append(_started(started, contests, place, leave, prepare))
        while any(worker.is_alive() for worker in workers) and time.time() < leave:
            time.sleep(SECONDS_BETWEEN_LOOKS)
            for number, worker in enumerate(workers):
                if worker.exitcode and spares > 0 and next(open_jobs(contests, place.folder), None) is not None:
                    spares -= 1
                    workers[number] = _started(started, contests, place, leave, prepare)
            if time.time() - gathered > SECONDS_BETWEEN_RECORDS:
                gathered = time.time()
                _gather(contests, place, results)
                follow(_all(contests, place))
    finally:
        _stop(workers, ends)
        written = _gather(contests, place, results)
    standing = _all(contests, place)
    follow(standing)
    found = [path for contest in contests for path in sorted((place.folder / contest.name).rglob("*.broken"))]
    broken = tuple((path, path.read_text(encoding="utf8").strip()) for path in found)
    return Ended(tuple(written), sum(row.left for row in standing), broken)


def _started(context: Any, contests: Sequence[Contest], place: Place, ends: float, prepare: Callable[[], None]) -> Any:
    worker = context.Process(target=_work, args=(tuple(contests), place, ends, prepare))
    worker.start()
    return worker


def _work(contests: Sequence[Contest], place: Place, ends: float, prepare: Callable[[], None]) -> None:
    # Lasting, since a training puts back what was there before it, and a signal must not find nothing.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    prepare()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    torch.set_num_threads(max(1, min(torch.get_num_threads(), cores // place.workers)))
    parent = multiprocessing.parent_process()
    try:
        work(contests, place, ends, wanted=lambda: parent is None or parent.is_alive())
    except KeyboardInterrupt:
        # It was asked to stop; its job is saved or will be repeated.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)


def _stop(workers: Sequence[Any], ends: float) -> None:
    """Ask them to stop; those which do not are ended."""
    for worker in workers:
        if worker.is_alive():
            worker.terminate()
    last = min(ends, time.time() + SECONDS_TO_LEAVE)
    for worker in workers:
        worker.join(max(0.0, last - time.time()))
        if worker.is_alive():
            worker.kill()
            worker.join()


def _all(contests: Sequence[Contest], place: Place) -> list[Row]:
    return [row for contest in contests for row in rows(contest, place.folder)]


def _gather(contests: Sequence[Contest], place: Place, results: Path) -> list[Path]:
    return [path for contest in contests if (path := _record(contest, place.folder, results)) is not None]


def _record(contest: Contest, folder: Path, results: Path) -> Path | None:
    """What is known of a contest in one file; of all entrants that the folder has, whoever takes part this time."""
    known = tuple(name for name in ENTRANTS if (folder / contest.name / name).is_dir())
    found = [row for row in rows(replace(contest, entrants=known), folder) if row.trials]
    if not found:
        return None
    outcomes = [one for row in found for one in (*row.trials, *row.finals)]
    about = ("machine", "device", "commit", "version", "workers")
    where = {(str(one["machine"]), one["device"], one["commit"], one["workers"]): one for one in outcomes}
    content = {
        "contest": contest.name,
        **contest.about,
        "metric": outcomes[0]["metric"],
        "better": outcomes[0]["better"],
        "solved": next((one["solved"] for one in outcomes if "solved" in one), None),
        "machines": [{name: one[name] for name in about} for one in where.values()],
        "models": {row.entrant: _entry(row) for row in found},
    }
    path = results / "compare" / f"{contest.name}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content, indent=None)
    return path


def _entry(row: Row) -> dict[str, Any]:
    trial = ("trial", "values", "validation", "steps", "seconds", "failed")
    final = ("seed", "test", "validation", "steps", "epochs", "seconds", "failed", "curve")
    sizes = [one["parameters"] for one in row.finals if "parameters" in one]
    return {
        "space": row.contest.space(row.entrant),
        "parameters": sizes[0] if sizes else None,
        "chosen": None if row.best is None else row.best["trial"],
        "trials": [{name: one[name] for name in trial if name in one} for one in row.trials],
        "finals": [{name: one[name] for name in final if name in one} for one in row.finals],
    }
