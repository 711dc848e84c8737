"""The status of a search and its output files."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cornn import __version__
from cornn._machine import machine
from cornn._source import source
from cornn.lab.config import as_dictionary
from cornn.lab.experiments.search.spec import Search, configuration, hidden
from cornn.lab.runs import write_json
from cornn.lab.training import Progress

__all__ = ["Follow", "Standing", "unfollowed", "write"]


@dataclass(frozen=True)
class Standing:
    """The status of a search, over all its workers."""

    trials: int
    complete: int
    pruned: int
    failed: int
    running: int
    better: str  # "lower" or "higher" validation
    best: dict | None  # the best of `rows`
    seconds_left: float | None  # None: nothing is known yet
    rows: tuple[dict, ...]  # the trials that count, each as trials.json holds it

    @property
    def done(self) -> int:
        return self.complete + self.pruned + self.failed


Follow = Callable[[Standing, Progress | None], None]


def unfollowed(standing: Standing, progress: Progress | None) -> None:
    """Follow nothing."""


def write(plan: Search, standing: Standing, out: Path) -> tuple[Path, Path]:
    """Write best.json, for `cornn train --config`, and trials.json, and return their paths."""
    best, trials = out / "best.json", out / "trials.json"
    out.mkdir(parents=True, exist_ok=True)
    own = {"version": __version__, "machine": machine()}
    about = {"storage": hidden(plan.storage), "study": plan.study, "better": standing.better, "prune": plan.prune}
    about |= {"config": as_dictionary(plan.base), "space": dict(plan.space), **source(), **own}
    write_json(trials, {**about, "trials": list(standing.rows)})
    if standing.best is None:
        raise RuntimeError(f"{_without_best(standing)} (list: {trials})")
    found = {"study": plan.study, "trials": standing.done, "trial": standing.best["trial"]}
    found |= {"validation": standing.best["validation"], "searched": sorted(plan.space)}
    config = configuration(plan, standing.best["values"])
    write_json(best, {**as_dictionary(config), **own, "search": found})
    return best, trials


def _without_best(standing: Standing) -> str:
    reasons = [row["failure"] for row in standing.rows if row["failure"]]
    return f"none of the {standing.done} trials finished" + (f"; the last: {reasons[-1]}" if reasons else "")
