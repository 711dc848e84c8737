"""The status of an experiment, over all its workers."""

from dataclasses import dataclass
from typing import Any

from cornn.lab.experiments.spec import Experiment


@dataclass(frozen=True)
class TaskInfo:
    """The properties of a task that are needed to judge trials and runs."""

    metric: str
    better: str  # "lower" or "higher"
    solved: float | None = None


@dataclass(frozen=True)
class Status:
    """The status of an experiment, over all its workers."""

    experiment: Experiment
    task: TaskInfo
    rows: tuple[dict[str, Any], ...]  # trials that run or have a result
    runs: tuple[dict[str, Any], ...]  # runs that have a result

    def _count(self, state: str) -> int:
        return sum(row["state"] == state for row in self.rows)

    @property
    def complete(self) -> int:
        return self._count("complete")

    @property
    def pruned(self) -> int:
        return self._count("pruned")

    @property
    def failed(self) -> int:
        return self._count("failed")

    @property
    def running(self) -> int:
        return self._count("running")

    @property
    def done(self) -> int:
        """Number of trials with a result."""
        return self.complete + self.pruned + self.failed

    @property
    def searched(self) -> bool:
        """Whether all trials have a result."""
        return self.done >= self.experiment.trials

    @property
    def ranked(self) -> list[dict[str, Any]]:
        """The complete trials, best first."""
        sign = 1 if self.task.better == "lower" else -1
        complete = [row for row in self.rows if row["state"] == "complete"]
        return sorted(complete, key=lambda row: sign * row["validation"])

    @property
    def best(self) -> dict[str, Any] | None:
        return next(iter(self.ranked), None)

    @property
    def chosen(self) -> dict[str, Any]:
        """The settings of the runs: those of the best trial."""
        return {} if self.best is None else self.best["values"]

    @property
    def remaining(self) -> int:
        """Number of trials and runs without a result that can still have one."""
        trials = max(0, self.experiment.trials - self.done)
        hopeless = bool(self.experiment.space) and trials == 0 and self.best is None
        finished = {run["seed"] for run in self.runs}
        return trials + (0 if hopeless else sum(seed not in finished for seed in self.experiment.seeds))

    @property
    def seconds_remaining(self) -> float | None:
        """Estimate of the time until all trials are done; None if nothing is known yet."""
        seconds = [row["seconds"] for row in self.rows if row["seconds"] is not None]
        trials = max(0, self.experiment.trials - self.done)
        return sum(seconds) / len(seconds) * trials / max(1, self.running) if seconds else None
