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
    """Compare coRNN with its rivals at the same budget of tuning.

    Contests: all, or any of adding-500, har2, psmnist, noisy-cifar10, psmnist-short, adding-2000, adding-5000. Each
    model has as many random trials, of the same length, judged by validation; the best is trained longer from other
    seeds and tested once. It can be stopped at any moment: the same command goes on, also on another machine that has
    the folder."""

    contests: tyro.conf.Positional[tuple[str, ...]] = ("all",)
    """What to compare on."""
    models: tuple[str, ...] = ()
    """Who takes part, such as cornn cornn-memory lstm. Default: all that the contest has."""
    trials: int | None = None
    """Of each model. Default: the contest's."""
    trial: int | None = None
    """How long a trial is, in the steps or epochs of the contest. Default: the contest's."""
    final: int | None = None
    """How long the final runs are."""
    seeds: int | None = None
    """Final runs of each model. Default: 3."""
    workers: int = 1
    """Processes that share the work, on one device."""
    budget_seconds: float | None = None
    """End within this time: no trial is begun that would not be done, and final runs are saved to go on later."""
    results: Path = Path("results")
    """Where the records go: compare/CONTEST.json."""
    folder: Path = Path("runs/compare")
    """Where all that is done lies, one file an outcome."""
    device: str = "auto"
    """auto, cpu or cuda."""
    data: str | None = None
    """The folder of the data. Default: CORNN_DATA, or data/."""
    quiet: bool = False
    """Print where it stands in the end only."""
    dry_run: bool = False
    """Print what there is to do, and do nothing."""

    def run(self) -> None:
        console = screen()
        if self.workers < 1:
            raise ValueError(f"workers must be above 0, got {self.workers}")
        changes = {"trials": self.trials, "trial": self.trial, "final": self.final, "seeds": self.seeds}
        contests = compare.between_them(self.contests, self.models, **changes)
        if self.dry_run:
            _print_plan(console, contests, self.folder)
            return
        began, said = time.monotonic(), 0

        def follow(standing: list[Row]) -> None:
            nonlocal said
            left = sum(row.left for row in standing)
            if left != said and not self.quiet:
                said = left
                whole = [f"{row.contest.name} {row.entrant}" for row in standing if not row.left]
                last = f"; whole: {', '.join(whole)}" if whole else ""
                line(console, f"{time.monotonic() - began:.0f} s: {left} to go{last}")

        place = Place(self.folder, self.device, self.data, self.workers)
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            ended = compare.compare(contests, place, self.results, self.budget_seconds, silence_libraries, follow)
        except KeyboardInterrupt:
            print("cornn: stopped. The same command goes on", file=sys.stderr)
            sys.exit(128 + signal.SIGINT)
        finally:
            signal.signal(signal.SIGTERM, before)
        _print_plan(console, contests, self.folder)
        for path, why in ended.broken:
            line(console, f"{path} ended a worker: {why}")
        for path in ended.written:
            line(console, str(path))
        if ended.left:
            line(console, f"{ended.left} trials and final runs to go: the same command goes on")


def _print_plan(console: Console, contests: list[Contest], folder: Path) -> None:
    for contest in contests:
        line(
            console,
            (contest.name, "bold"),
            f": trials of {contest.trial:,} {contest.unit}, final runs of {contest.final:,} at the most, "
            f"{contest.hidden_size} units",
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
