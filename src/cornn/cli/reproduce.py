"""cornn reproduce"""

import importlib.util
import time
from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console
from rich.table import Table

from cornn._extras import install_command
from cornn._json import read_json
from cornn.cli.console import line, screen
from cornn.cli.progress import OutputOptions, run_with_progress
from cornn.lab.experiments import reproduce

__all__ = ["ReproduceCommand"]


@dataclass(frozen=True)
class ReproduceCommand:
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
    """Number of seeds per experiment, in place of its own."""
    budget_minutes: float | None = None
    """Time limit: no run is started that would exceed it, judging by recorded times."""
    results: Path = Path("results")
    """Folder of the records, which are read and written."""
    folder: Path = Path("runs/reproduce")
    """Folder of the run folders."""
    device: str | None = None
    """Device: auto, cpu or cuda."""
    data: str | None = None
    """The data folder. Default: CORNN_DATA, or data/."""
    quiet: bool = False
    """Print the plan and the results only."""
    dry_run: bool = False
    """Print the plan without running it."""

    def run(self) -> None:
        console = screen()
        planned = reproduce.plan(self.targets, self.seeds, device=self.device, data=self.data)
        left = [(one, reproduce.missing(one, self.results)) for one in planned]
        _print_plan(console, left, self.results)
        if self.dry_run:
            return
        if {"heuristics", "all"} & set(self.targets):
            _draw_heuristics(console, self.folder)
        began = time.monotonic()
        for one, seeds in left:
            if not seeds:
                continue
            needed = (reproduce.seconds_a_run(one, self.results) or 0.0) * len(seeds)
            spent = time.monotonic() - began
            if self.budget_minutes is not None and spent + needed > 60 * self.budget_minutes:
                line(console, f"{one.config.task.name} {one.name}: skipped, over the time limit", style="dim")
                continue
            line(console, (one.config.task.name, "bold"), f" {one.name}, seeds {seeds}")

            def work(watch, one=one):
                return reproduce.complete(one, self.results, self.folder, watch)

            for path in run_with_progress(console, OutputOptions(quiet=self.quiet), self.folder, work):
                result = read_json(path)["result"]
                text = f"{result['metric']} {result['test']:.4f}" if "test" in result else f"failed: {result['failed']}"
                line(console, f"  {path}: {text}")


def _draw_heuristics(console: Console, folder: Path) -> None:
    if (folder / "heuristics.svg").exists():
        return
    if not importlib.util.find_spec("matplotlib"):
        line(console, f"heuristics: the figure needs matplotlib: {install_command('report')}", style="dim")
        return
    from cornn.lab.report.figures import FIGURES, save

    written = save(FIGURES["illustration"](), folder / "heuristics")
    line(console, f"heuristics: {', '.join(map(str, written))}")


def _print_plan(console: Console, left: list[tuple[reproduce.Planned, list[int]]], results: Path) -> None:
    table = Table("task", "run", "recorded", "to run", "minutes", box=None, header_style="bold")
    total, unknown = 0.0, 0
    for one, seeds in left:
        seconds = reproduce.seconds_a_run(one, results)
        minutes = None if seconds is None else seconds * len(seeds) / 60
        total += minutes or 0.0
        unknown += len(seeds) if minutes is None else 0
        shown = "?" if minutes is None and seeds else f"{minutes or 0:.1f}"
        table.add_row(one.config.task.name, one.name, str(one.seeds - len(seeds)), str(len(seeds)), shown)
    console.print(table)
    runs = sum(len(seeds) for _, seeds in left)
    note = f"; the time of {unknown} is unknown" if unknown else ""
    line(console, f"{runs} runs left: {total:.0f} minutes by recorded times{note}")
