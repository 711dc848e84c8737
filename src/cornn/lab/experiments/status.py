"""The status of an experiment, over all its workers."""

from dataclasses import asdict, dataclass
from typing import Any

from cornn.lab.experiments.spec import Experiment
from cornn.lab.tasks import Task

__all__ = ["Status", "TaskInfo", "list_changes"]


@dataclass(frozen=True)
class TaskInfo:
    """The properties of a task that are needed to judge trials and runs."""

    metric: str
    better: str  # "lower" or "higher"
    solved: float | None = None

    @classmethod
    def from_task(cls, task: Task) -> "TaskInfo":
        return cls(task.metric, task.better, task.solved)

    def as_dictionary(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Status:
    """The status of an experiment, over all its workers."""

    experiment: Experiment
    task: TaskInfo
    rows: tuple[dict[str, Any], ...]  # trials that run or have a result
    runs: tuple[dict[str, Any], ...]  # runs that have a result
    runs_under_way: int = 0

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
    def left(self) -> int:
        """Number of trials and runs without a result that can still have one."""
        trials = max(0, self.experiment.trials - self.done)
        hopeless = bool(self.experiment.space) and trials == 0 and self.best is None
        finished = {run["seed"] for run in self.runs}
        return trials + (0 if hopeless else sum(seed not in finished for seed in self.experiment.seeds))

    @property
    def seconds_left(self) -> float | None:
        """Estimate of the time until all trials are done; None if nothing is known yet."""
        seconds = [row["seconds"] for row in self.rows if row["seconds"] is not None]
        left = max(0, self.experiment.trials - self.done)
        return sum(seconds) / len(seconds) * left / max(1, self.running) if seconds else None


def list_changes(before: dict[str, Any], now: dict[str, Any], at: str = "") -> list[str]:
    """List what differs between two nested dictionaries."""
    changes = []
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            changes += list_changes(old, new, f"{at}{name}.")
        elif _as_lists(old) != _as_lists(new):
            changes.append(f"{at}{name} was {_describe_value(before, name)}, is {_describe_value(now, name)}")
    return changes


def _describe_value(values: dict[str, Any], name: str) -> str:
    """Return a value in words. Settings with default values are left out of what experiments store."""
    return repr(values[name]) if name in values else "its default"


def _as_lists(value: Any) -> Any:
    return [_as_lists(part) for part in value] if isinstance(value, list | tuple) else value
