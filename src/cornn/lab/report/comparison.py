"""The records of `cornn compare`: coRNN and its rivals with equal tuning budgets."""

import statistics
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cornn._counts import format_count
from cornn._json import read_json
from cornn._machine import ran_on
from cornn.lab import intervals, records
from cornn.lab.recipes import ELSEWHERE, PUBLISHED
from cornn.lab.recipes.ranges import ENTRANTS

FIRST = tuple(f"adding-{length}{kind}" for length in (500, 2000, 5000) for kind in ("", "-beta2", "-long"))
"""Contests that are listed first, in this order."""

CONTEST_ENTRIES = ("contest", "task", "unit", "trial", "final", "hidden_size", "better", "machines", "models")
TRIAL_ENTRIES = ("trial", "values", "validation", "steps", "seconds")
FINAL_ENTRIES = ("seed", "test", "seconds")
"""Entries of a record of `cornn compare`, of its trials and of its final runs, which tables and figures read."""


def title(entrant: str) -> str:
    """Return the display name of an entrant."""
    return ENTRANTS[entrant].title


@dataclass(frozen=True)
class ModelResult:
    """The trials and final runs of one model in a contest."""

    name: str
    entry: dict[str, Any]  # its part of the record
    contest: dict[str, Any]  # the whole record

    @property
    def title(self) -> str:
        return title(self.name)

    @property
    def tested_runs(self) -> list[dict]:
        """The final runs that were tested."""
        return [run for run in self.entry["finals"] if run["test"] is not None]

    @property
    def commits(self) -> str:
        """The commits of the trials and final runs; "a or b" where it is not known which of the two."""
        rows = (*self.entry["trials"], *self.entry["finals"])
        named = [[row["commit"]] if row.get("commit") else row.get("commit_one_of", ["unknown"]) for row in rows]
        return ", ".join(" or ".join(name[:7] for name in names) for names in dict.fromkeys(map(tuple, named)))

    @property
    def mark(self) -> str:
        """A mark if a final run does not come from the commit that it names."""
        return records.mark(self.entry["finals"])

    @property
    def tests(self) -> list[float]:
        return [run["test"] for run in self.tested_runs]

    @property
    def failed(self) -> int:
        """Number of final runs that diverged."""
        return len(self.entry["finals"]) - len(self.tested_runs)

    @property
    def hidden_size(self) -> int:
        return self.entry.get("hidden_size", self.contest["hidden_size"])

    @property
    def test_summary(self) -> str:
        """Mean on the test split and its 95 % confidence interval."""
        if not self.tests:
            return f"{self.failed} diverged{self.mark}"
        failed = f" ({self.failed} diverged)" if self.failed else ""
        summary = intervals.describe(self.tests, self.contest["better"], self._number)
        return f"{summary}{self.mark}{failed}"

    def _number(self, value: float) -> str:
        return f"{value:.2f}" if self.contest["better"] == "higher" else f"{value:.4f}"

    @property
    def solved_steps(self) -> list[int] | None:
        """Training steps of the final runs that solved the task; None if the task has no threshold."""
        line = self.contest.get("solved")
        return None if line is None else [run["steps"] for run in self.tested_runs if run["test"] < line]

    @property
    def solved_count(self) -> str | None:
        """How many final runs solved the task, such as "2 of 3"; None if the task has no threshold."""
        steps = self.solved_steps
        return None if steps is None else f"{len(steps)} of {len(self.entry['finals'])}"

    @property
    def solved(self) -> str | None:
        """How many final runs solved the task, and after how many steps; None if the task has no threshold."""
        steps = self.solved_steps
        return self.solved_count if not steps else f"{self.solved_count}, {statistics.fmean(steps):,.0f} steps"

    @property
    def trials(self) -> str:
        """Number of trials, and how many of them diverged or did not train, with the reason."""
        failed = [trial for trial in self.entry["trials"] if trial["validation"] is None]
        diverged = len(failed) - len(self.not_trained)
        reasons = Counter(trial.get("failed", "no reason recorded") for trial in self.not_trained)
        notes = [f"{diverged} diverged"] if diverged else []
        notes += [f"{count} failed: {reason}" for reason, count in reasons.items()]
        return f"{len(self.entry['trials'])}" + (f" ({'; '.join(notes)})" if notes else "")

    @property
    def not_trained(self) -> list[dict]:
        """The trials that ended before they were trained, such as for lack of memory."""
        return [trial for trial in self.entry["trials"] if trial["validation"] is None and trial["steps"] is None]

    @property
    def chosen(self) -> str:
        """The chosen settings."""
        values = next(trial["values"] for trial in self.entry["trials"] if trial["trial"] == self.entry["chosen"])
        return ", ".join(f"{name.replace('_', ' ')} {_format_value(value)}" for name, value in values.items())

    @property
    def search_seconds(self) -> float:
        return sum(trial["seconds"] for trial in self.entry["trials"])

    @property
    def final_seconds(self) -> float:
        return statistics.fmean(run["seconds"] for run in self.entry["finals"])

    @property
    def published(self) -> str:
        """The best published accuracy of this model, of any size and training; empty if none is known."""
        task, known = self.contest["task"]["name"], []
        known += [(result, f"{result.units} units") for result in PUBLISHED.get(task, ())]
        known += [(result, result.source) for result in ELSEWHERE.get(task, ())]
        accuracies = [(result.value, note) for result, note in known if result.model == self.title]
        return "{:g} ({})".format(*max(accuracies)) if accuracies else ""


@dataclass(frozen=True)
class ContestResult:
    """A contest and the models that have final runs."""

    name: str
    record: dict[str, Any]
    rows: tuple[ModelResult, ...]
    begun: tuple[str, ...]  # models without a final run yet

    def find_row(self, model: str, *, tested: bool = False) -> ModelResult:
        """Return the row of a model; with `tested` it needs a test result.

        Raises:
            ValueError: If there is none.
        """
        row = next((row for row in self.rows if row.name == model and (row.tests or not tested)), None)
        if row is None:
            lacking = "test result" if tested else "final run"
            raise ValueError(
                f"the record of the contest {self.name} has no {lacking} of {model}, which the report needs: complete "
                f"it with `cornn compare {self.name}`"
            )
        return row

    @property
    def budget(self) -> str:
        """The budget of every model, as text."""
        record, unit = self.record, self.record["unit"]
        limit = ("at most " if unit == "steps" else "") + f"{record['final']:,} {unit}"
        devices = {ran_on(machine) for machine in record["machines"]}
        workers = sorted({machine["workers"] for machine in record["machines"]})
        worker_range = f"{workers[0]} to {workers[-1]}" if len(workers) > 1 else str(workers[0])
        concurrency = "one after another" if workers == [1] else f"{worker_range} at once"
        shared = f", batches of {record['batch_size']}" if "batch_size" in record else ""
        shared += f", beta2 {record['beta2']:g}" if "beta2" in record else ""
        units = "the paper's numbers of" if record["hidden_size"] is None else record["hidden_size"]
        return (
            f"{units} units{shared}; trials of {format_count(record['trial'], unit[:-1])}, final runs of {limit}; "
            f"on {' and '.join(sorted(devices))}, {concurrency}"
        )


def read(results: records.Results) -> list[ContestResult]:
    """Read the records in results/compare."""
    paths = {
        path.stem: path for folder in records.list_folders(results) for path in (folder / "compare").glob("*.json")
    }
    last = len(FIRST)
    names = sorted(paths, key=lambda name: (FIRST.index(name) if name in FIRST else last, name))
    return [_read_contest(paths[name]) for name in names]


def _read_contest(path: Path) -> ContestResult:
    record = read_json(path)
    records.check_entries(record, CONTEST_ENTRIES, str(path))
    for name, entry in record["models"].items():
        where = f"{path}: {name}"
        records.check_entries(entry, ("trials", "finals", "chosen"), where)
        for kind, entries in (("trials", TRIAL_ENTRIES), ("finals", FINAL_ENTRIES)):
            for row in entry[kind]:
                records.check_entries(row, entries, f"{where}, {kind}")
    models = [ModelResult(name, entry, record) for name, entry in record["models"].items()]
    rows = tuple(model for model in models if model.entry["finals"])
    return ContestResult(
        record["contest"], record, rows, tuple(model.title for model in models if not model.entry["finals"])
    )


def _format_value(value: Any) -> str:
    if isinstance(value, list):
        return " to ".join(_format_value(part) for part in value)
    return f"{value:.2g}" if isinstance(value, float) else str(value)
