"""cornn reproduce"""

import importlib.util
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from cornn._extras import install_command
from cornn.cli.console import line, screen
from cornn.cli.workers import ExperimentCommand, compute_end, print_runs, stoppable
from cornn.lab.experiments import reproduce
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status


@dataclass(frozen=True)
class ReproduceCommand(ExperimentCommand):
    """Run the paper's experiments that have no record yet, and record them.

    Targets: all, or any of har2, adding, smnist, psmnist, noisy-cifar10, imdb, lorenz96; beyond the paper: memory (our
    recipe for long memory), better (improved recipes of the same size), weights (the theory's hypotheses during
    training), variants (implicit damping, trained constants), distribution (ten seeds each), ablation (a grid of gamma
    and epsilon), heuristics (the figure of single neurons and small networks, without training). The plan is printed
    first, with recorded times. The command can be stopped at any time; run it again to continue, also on another
    machine that has the records."""

    targets: tyro.conf.Positional[tuple[str, ...]] = ("all",)
    """The experiments to run."""
    seeds: int | None = None
    """Number of seeds per experiment. Default: that of each experiment."""
    budget_minutes: float | None = None
    """Time limit: no experiment is started that would exceed it, judging by recorded times. Unfinished runs are
    saved and continue next time."""
    folder: Path = Path("runs/reproduce")
    """Folder of the run folders."""

    def run(self) -> None:
        console = screen()
        ends = compute_end(None if self.budget_minutes is None else 60 * self.budget_minutes, "--budget-minutes")
        plan = reproduce.plan(self.targets, self.seeds, **self.place)
        left = [(experiment, reproduce.missing(experiment, self.results)) for experiment in plan]
        _print_plan(console, left, self.results)
        if self.dry_run:
            return
        if {"heuristics", "all"} & set(self.targets):
            _draw_heuristics(console, self.folder)
        experiments = [replace(experiment, seeds=seeds) for experiment, seeds in left if seeds]
        if not experiments:
            return

        options = {
            "finish": partial(reproduce.record_runs, results=self.results),
            "expected": partial(_estimate_seconds, results=self.results),
            "ends": ends,
        }
        with stoppable():
            statuses = self.work(console, experiments, self.folder, **options)
        for status in statuses:
            self._conclude(console, status)

    def _conclude(self, console: Console, status: Status) -> None:
        """Print the results of an experiment."""
        name, known = status.experiment.name, {run["seed"] for run in status.runs}
        print_runs(console, status)
        if skipped := [seed for seed in status.experiment.seeds if seed not in known]:
            line(console, f"{name}: seeds {skipped} left, over the time limit", style="dim")
        else:
            reproduce.check_recorded(status.experiment, self.results)


def _estimate_seconds(experiment: Experiment, results: Path) -> float:
    """Return the seconds that the runs of an experiment take, by recorded times; 0 if there are none."""
    return (reproduce.seconds_per_run(experiment, results) or 0.0) * len(experiment.seeds)


def _draw_heuristics(console: Console, folder: Path) -> None:
    if (folder / "heuristics.svg").exists():
        return
    if not importlib.util.find_spec("matplotlib"):
        line(console, f"heuristics: the figure needs matplotlib: {install_command('report')}", style="dim")
        return
    from cornn.lab.report.figures import FIGURES, save

    files = save(FIGURES["illustration"](), folder / "heuristics")
    line(console, f"heuristics: {', '.join(map(str, files))}")


def _print_plan(console: Console, left: list[tuple[Experiment, tuple[int, ...]]], results: Path) -> None:
    table = Table(box=None, header_style="bold")
    table.add_column("experiment", overflow="fold")  # whole, also in a narrow terminal
    for title in ("recorded", "to run", "minutes"):
        table.add_column(title)
    total, unknown = 0.0, 0
    for experiment, seeds in left:
        seconds = reproduce.seconds_per_run(experiment, results)
        minutes = None if seconds is None else seconds * len(seeds) / 60
        total += minutes or 0.0
        unknown += len(seeds) if minutes is None else 0
        words = "?" if minutes is None and seeds else f"{minutes or 0:.1f}"
        table.add_row(experiment.name, str(len(experiment.seeds) - len(seeds)), str(len(seeds)), words)
    console.print(table)
    runs = sum(len(seeds) for _, seeds in left)
    note = f"; the time of {unknown} is unknown" if unknown else ""
    line(console, f"{runs} runs left: {total:.0f} minutes by recorded times{note}")
