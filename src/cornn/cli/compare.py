"""cornn compare"""

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from cornn._counts import format_count
from cornn.cli.console import line, progress_lines, screen
from cornn.cli.workers import ExperimentCommand, compute_end, stoppable
from cornn.lab.experiments import compare
from cornn.lab.experiments.compare import Contest
from cornn.lab.experiments.run import read_status
from cornn.lab.experiments.status import Status
from cornn.lab.training import Progress


@dataclass(frozen=True)
class CompareCommand(ExperimentCommand):
    """Compare coRNN with other models at equal tuning budgets.

    Contests: all, or names such as adding-500 and psmnist; `cornn compare --dry-run` lists them. Each model gets the
    same number of random trials of the same length, judged by validation. The best configuration is trained longer with
    other seeds and tested once. The command can be stopped at any time; run it again to continue, and several times at
    once, or on several machines with one --storage, to share the work."""

    contests: tyro.conf.Positional[tuple[str, ...]] = ("all",)
    """The contests to run."""
    models: tuple[str, ...] = ()
    """Models to compare, such as cornn cornn-memory lstm. Default: all models of the contest."""
    trials: int | None = None
    """Number of trials per model. Default: the contest's."""
    trial: int | None = None
    """Length of a trial, in the contest's steps or epochs. Default: the contest's."""
    final: int | None = None
    """Length of the final runs. Default: the contest's."""
    seeds: int | None = None
    """Number of final runs per model. Default: the contest's, mostly 3."""
    budget_seconds: float | None = None
    """Time limit: no trial is started that would exceed it, and final runs are saved to be resumed later."""
    folder: Path = Path("runs/compare")
    """Working folder, with the database of the trials and the run folders of unfinished runs."""

    def run(self) -> None:
        console, ends = screen(), compute_end(self.budget_seconds, "--budget-seconds")
        changes = {"trials": self.trials, "trial": self.trial, "final": self.final, "seeds": self.seeds}
        contests = compare.select_contests(self.contests, self.models, **changes)
        experiments = [experiment for contest in contests for experiment in contest.experiments(**self.place).values()]
        storage = self.sharing.open_storage(self.folder)
        if self.dry_run:
            _print_plan(console, contests, read_status(experiments, storage))
            return
        for contest in contests:
            compare.check_record(contest, self.results)
        compare.check_trials(read_status(experiments, storage))
        start, write = time.monotonic(), progress_lines()
        remaining_before = {experiment.name: experiment.trials + len(experiment.seeds) for experiment in experiments}

        def follow(status: Status, progress: Progress | None) -> None:
            if not self.quiet and progress is not None:
                write(f"{status.experiment.name}: step {progress.step:,} of {progress.steps:,}")
            if not self.quiet and status.remaining != remaining_before[status.experiment.name]:
                remaining_before[status.experiment.name] = status.remaining
                done = "complete" if not status.remaining else f"{status.remaining} left"
                line(console, f"{time.monotonic() - start:.0f} s: {status.experiment.name} {done}")

        with stoppable():
            try:
                statuses = self.sharing.run(experiments, self.folder, follow=follow, ends=ends)
            except KeyboardInterrupt:
                self._write(contests, read_status(experiments, storage))
                raise
        _print_plan(console, contests, statuses)
        for path in self._write(contests, statuses):
            line(console, str(path))
        for status in statuses:
            if not status.remaining:
                shutil.rmtree(self.folder / status.experiment.name, ignore_errors=True)
        if left := sum(status.remaining for status in statuses):
            line(console, f"{left} trials and final runs left: run the same command to continue")

    def _write(self, contests: list[Contest], statuses: list[Status]) -> list[Path]:
        """Write the records of all contests."""
        paths = (
            compare.write_record(contest, _select_statuses(contest, statuses), self.results, self.sharing.workers)
            for contest in contests
        )
        return [path for path in paths if path is not None]


def _select_statuses(contest: Contest, statuses: list[Status]) -> dict[str, Status]:
    """Return the status of each model of a contest."""
    by_name = {status.experiment.name: status for status in statuses}
    return {entrant: by_name[contest.experiment(entrant).name] for entrant in contest.entrants}


def _print_plan(console: Console, contests: list[Contest], statuses: list[Status]) -> None:
    for contest in contests:
        line(
            console,
            (contest.name, "bold"),
            f": trials of {format_count(contest.trial, contest.unit.removesuffix('s'))}, "
            f"final runs of at most {contest.final:,}, {contest.size}",
        )
        table = Table("model", "tuned", "trials", "best", "final runs", "seconds", box=None, header_style="bold")
        for entrant, status in _select_statuses(contest, statuses).items():
            spent = sum(finished["seconds"] or 0.0 for finished in (*status.rows, *status.runs))
            table.add_row(
                entrant,
                ", ".join(status.experiment.space),
                f"{status.done} of {contest.trials}",
                "" if status.best is None else f"{status.best['validation']:.4g}",
                f"{len(status.runs)} of {contest.seeds}",
                f"{spent:.0f}",
            )
            for row in (*status.rows, *status.runs):
                if reason := row.get("failure") or row.get("failed"):
                    what = f"trial {row['trial']}" if "trial" in row else f"seed {row['seed']}"
                    line(console, f"{entrant}, {what}: {reason}", style="dim")
        console.print(table)
