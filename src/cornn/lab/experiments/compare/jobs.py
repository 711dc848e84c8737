"""What there is to do, and what is done: one file an outcome, under FOLDER/CONTEST/ENTRANT.

trial-003.json            of a trial
trial-003-seed-1.json     of a final run with the settings of that trial
trial-003-seed-1/         its run folder while it is trained
*.lock                    held by the worker that is at it; the lock goes with its process
*.broken                  what ended a worker: left alone until the command is started again
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cornn._extras import missing_extra
from cornn._json import read_json
from cornn.lab.experiments.compare.contests import Contest
from cornn.lab.runs import write_json

__all__ = ["Job", "Row", "check", "claimed", "expected_seconds", "open_jobs", "rows"]


@dataclass(frozen=True)
class Job:
    """A trial, or, with a seed, a final run."""

    contest: Contest
    entrant: str
    trial: int
    seed: int | None = None

    def path(self, folder: Path) -> Path:
        """Of its outcome; with other endings of what belongs to it."""
        name = f"trial-{self.trial:03}" + ("" if self.seed is None else f"-seed-{self.seed}")
        return folder / self.contest.name / self.entrant / f"{name}.json"

    def outcome(self, folder: Path) -> dict[str, Any] | None:
        path = self.path(folder)
        return read_json(path) if path.exists() else None


@dataclass(frozen=True)
class Row:
    """An entrant of a contest, as far as it has come."""

    contest: Contest
    entrant: str
    trials: tuple[dict[str, Any], ...]  # outcomes
    best: dict[str, Any] | None  # the best of them by validation; None: none came to an end
    finals: tuple[dict[str, Any], ...]  # outcomes with the settings of the best

    @property
    def left(self) -> int:
        """Trials and final runs that are still to be done."""
        trials = max(0, self.contest.trials - len(self.trials))
        doomed = trials == 0 and self.best is None
        return trials + (0 if doomed else self.contest.seeds - len(self.finals))


def rows(contest: Contest, folder: Path) -> list[Row]:
    return [_row(contest, entrant, folder) for entrant in contest.entrants]


def _row(contest: Contest, entrant: str, folder: Path) -> Row:
    paths = sorted((folder / contest.name / entrant).glob("trial-???.json"))
    trials = tuple(read_json(path) for path in paths)
    ended = [one for one in trials if one["validation"] is not None]
    best = None
    if ended:
        pick = min if ended[0]["better"] == "lower" else max
        best = pick(ended, key=lambda one: one["validation"])
    seeds = range(1, contest.seeds + 1) if best is not None else ()
    finals = [Job(contest, entrant, best["trial"], seed).outcome(folder) for seed in seeds]  # pyright: ignore
    return Row(contest, entrant, trials, best, tuple(one for one in finals if one is not None))


def open_jobs(contests: Sequence[Contest], folder: Path) -> Iterator[Job]:
    """What is to be done now, the most wanted first. Final runs wait for all trials of their model."""
    for contest in contests:
        for row in rows(contest, folder):
            known = {one["trial"] for one in row.trials}
            trials = [Job(contest, row.entrant, n) for n in range(contest.trials) if n not in known]
            if trials:
                jobs = trials
            elif row.best is not None:
                done = {one["seed"] for one in row.finals}
                seeds = [seed for seed in range(1, contest.seeds + 1) if seed not in done]
                jobs = [Job(contest, row.entrant, row.best["trial"], seed) for seed in seeds]
            else:
                jobs = []
            yield from (job for job in jobs if not job.path(folder).with_suffix(".broken").exists())


@contextmanager
def claimed(job: Job, folder: Path) -> Iterator[bool]:
    """Whether this process has the job, and it is not done; another cannot have it meanwhile."""
    try:
        from filelock import FileLock, Timeout
    except ImportError:
        raise missing_extra("lab", "a comparison needs filelock") from None

    path = job.path(folder)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path.with_suffix(".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        yield False
        return
    try:
        yield not path.exists()
    finally:
        lock.release()


def expected_seconds(job: Job, folder: Path) -> float:
    """What a trial takes: the longest of its model that are done; 0 if there are none."""
    return max((one["seconds"] for one in _row(job.contest, job.entrant, folder).trials), default=0.0)


def check(contest: Contest, folder: Path) -> None:
    """Reject a folder with the results of another comparison."""
    path = folder / contest.name / "contest.json"
    own = json.loads(json.dumps(contest.about))
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, own)
    before = read_json(path)
    changed = [f"{name} was {before.get(name)}, is {value}" for name, value in own.items() if before.get(name) != value]
    if changed:
        raise ValueError(f"{path.parent} belongs to another comparison ({'; '.join(changed)}): choose another --folder")
