"""cornn compare"""

import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from cornn.cli.console import line, screen, silence_libraries
from cornn.lab.experiments import compare
from cornn.lab.experiments.compare import Contest, Place, Row

__all__ = ["CompareCommand"]


@dataclass(frozen=True)
class CompareCommand:
    """Compare coRNN with other models at equal tuning budgets.

    Contests: all, or any of adding-500, har2, psmnist, noisy-cifar10, psmnist-short, adding-2000, adding-5000. Each
    model gets the same number of random trials of the same length, judged by validation. The best configuration is
    trained longer with other seeds and tested once. The command can be stopped at any time; run it again to continue,
    also on another machine that has a copy of the folder."""

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
    """Number of final runs per model. Default: 3."""
    workers: int = 1
    """Number of processes that share the work on one device."""
    budget_seconds: float | None = None
    """Time limit: no trial is started that would exceed it, and final runs are saved to be resumed later."""
    results: Path = Path("results")
    """Folder of the records, which are written to compare/CONTEST.json."""
    folder: Path = Path("runs/compare")
    """Working folder, with one file per trial and final run."""
    device: str = "auto"
    """Device: auto, cpu or cuda."""
    data: str | None = None
    """The data folder. Default: CORNN_DATA, or data/."""
    quiet: bool = False
    """Print the final state only."""
    dry_run: bool = False
    """Print the plan without running it."""

    def run(self) -> None:
        console = screen()
        if self.workers < 1:
            raise ValueError(f"workers must be above 0, got {self.workers}")
        changes = {"trials": self.trials, "trial": self.trial, "final": self.final, "seeds": self.seeds}
        contests = compare.select_contests(self.contests, self.models, **changes)
        if self.dry_run:
            _print_plan(console, contests, self.folder)
            return
        start, printed = time.monotonic(), 0

        def follow(rows: list[Row]) -> None:
            nonlocal printed
            left = sum(row.left for row in rows)
            if left != printed and not self.quiet:
                printed = left
                complete = [f"{row.contest.name} {row.entrant}" for row in rows if not row.left]
                last = f"; complete: {', '.join(complete)}" if complete else ""
                line(console, f"{time.monotonic() - start:.0f} s: {left} left{last}")

        place = Place(self.folder, self.device, self.data, self.workers)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            ended = compare.compare(contests, place, self.results, self.budget_seconds, silence_libraries, follow)
        except KeyboardInterrupt:
            print("cornn: stopped. Run the same command to continue", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        finally:
            signal.signal(signal.SIGTERM, before)
        _print_plan(console, contests, self.folder)
        for path, why in ended.broken:
            line(console, f"{path} crashed a worker: {why}")
        for path in ended.written:
            line(console, str(path))
        if ended.left:
            line(console, f"{ended.left} trials and final runs left: run the same command to continue")


def _print_plan(console: Console, contests: list[Contest], folder: Path) -> None:
    for contest in contests:
        line(
            console,
            (contest.name, "bold"),
            f": trials of {contest.trial:,} {contest.unit}, final runs of at most {contest.final:,}, "
            f"{contest.hidden_size} neurons",
        )
        table = Table("model", "tuned", "trials", "best", "final runs", "seconds", box=None, header_style="bold")
        for row in compare.rows(contest, folder):
            spent = sum(one["seconds"] for one in (*row.trials, *row.finals))
            table.add_row(
                row.entrant,
                ", ".join(contest.space(row.entrant)),
                f"{len(row.trials)} of {contest.trials}",
                "" if row.best is None else f"{row.best['validation']:.4g}",
                f"{len(row.finals)} of {contest.seeds}",
                f"{spent:.0f}",
            )
        console.print(table)
