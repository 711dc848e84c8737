"""How commands print; and what several of them do: the progress of a training, and what it reached."""

import json
import logging
import os
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from cornn.lab.runs import Run
from cornn.lab.training import Progress, Watch
from cornn.plots.terminal import curve

__all__ = ["TELL_ALL", "Telling", "conclude", "conclude_seeds", "console_of", "hush", "line", "screen", "watched"]

SECONDS_BETWEEN_PICTURES = 0.1


@dataclass(frozen=True)
class Telling:
    """How a training tells of itself."""

    quiet: bool = False
    """Print the closing lines only."""
    json: bool = False
    """Print one line of JSON an evaluation, and one for the result, on standard output; all else goes to the other."""
    tensorboard: bool = False
    """Write curves for TensorBoard into the run folder as well."""


TELL_ALL = Telling()
Finished = TypeVar("Finished")


def screen(stderr: bool = False, quiet: bool = False) -> Console:
    """Where a command prints. Text is shown as it is: names and paths of users may look like markup."""
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


def line(console: Console, *parts: str | tuple[str, str], style: str = "") -> None:
    """Print a line that is not broken, so that paths can be copied. A part is a text, or a text and its style."""
    console.print(Text.assemble(*parts), style=style, soft_wrap=True)


def console_of(telling: Telling) -> Console:
    """Where a training prints. Of several processes only the first does."""
    rank = int(os.environ.get("RANK", 0)) or int(os.environ.get("LOCAL_RANK", 0)) + int(os.environ.get("NODE_RANK", 0))
    return screen(stderr=telling.json, quiet=rank > 0)


def watched(console: Console, telling: Telling, folder: Path, work: Callable[[Watch], Finished]) -> Finished:
    """Run `work(watch)` with everything that is to follow it."""
    with ExitStack() as open_things:
        watches: list[Watch] = []
        if telling.json and not console.quiet:
            watches.append(_print_json)
        if telling.tensorboard and not console.quiet:
            watches.append(_tensorboard(folder, open_things))
        if not (telling.quiet or telling.json or console.quiet):
            watches.append(_bar(console, open_things))

        def watch(progress: Progress) -> None:
            for one in watches:
                one(progress)

        return work(watch)


def _print_json(progress: Progress) -> None:
    for seed, row in progress.evaluations:
        print(json.dumps({"seed": seed, **row}), flush=True)


def _tensorboard(folder: Path, open_things: ExitStack) -> Watch:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise ImportError('--tensorboard needs the package tensorboard: pip install "cornn[tensorboard]"') from None
    writers: dict[int, SummaryWriter] = {}

    def watch(progress: Progress) -> None:
        for seed, row in progress.evaluations:
            if seed not in writers:
                writers[seed] = SummaryWriter(str(folder / "tensorboard" / f"seed-{seed}"))
                open_things.callback(writers[seed].close)
            for name in ("loss", "metric"):
                writers[seed].add_scalar(name, row[name], row["step"])

    return watch


def _bar(console: Console, open_things: ExitStack) -> Watch:
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[epoch]}loss {task.fields[loss]}  validation {task.fields[metric]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    bar = open_things.enter_context(Bar(*columns, console=console, transient=True))
    shown = bar.add_task("training", total=None, epoch="", loss="…", metric="…", speed="…")
    pictured = 0.0

    def watch(progress: Progress) -> None:
        nonlocal pictured
        now = time.monotonic()
        if now - pictured < SECONDS_BETWEEN_PICTURES and progress.step < progress.steps:
            return
        pictured = now
        speed, fields = bar.tasks[shown].speed, dict[str, Any]()
        if progress.epoch is not None:
            fields["epoch"] = f"epoch {progress.epoch}/{progress.epochs}  "
        if progress.loss is not None:
            fields["loss"] = f"{progress.loss:.4f}"
        if progress.metric is not None:
            fields["metric"] = f"{progress.metric:.4g}"
        if speed:
            fields["speed"] = f"{speed * progress.sequences:,.0f} seq/s"
        bar.update(shown, completed=progress.step, total=progress.steps, **fields)

    return watch


def conclude(console: Console, telling: Telling, finished: Run) -> None:
    """Say what a run reached."""
    if console.quiet:
        return
    result = finished.result or {}
    if telling.json:
        print(json.dumps(result), flush=True)
        return
    by = "epoch" if result["epochs"] is not None else "step"
    # Curves are logarithmic: of an accuracy they show what is missing.
    missing = result["better"] == "higher"
    rows = [(row[by], 100 - row["metric"] if missing else row["metric"]) for row in finished.metrics()]
    name = f"100 - {result['metric']}" if missing else result["metric"]
    title = f"{name} on {result['evaluated_on']}, by training {by}"
    if not telling.quiet:
        line(console, curve(rows, goal=result["solved"], title=title))
    length = f"{result['epochs']:g} epochs" if by == "epoch" else f"{result['steps']:,} steps"
    line(
        console,
        f"test {result['metric']} ",
        (_figure(result["test"], result), "bold"),
        f" after {length} and {result['seconds']:.0f} s, against {_figure(result['trivial'], result)} "
        f"{result['trivial_words']}: {_verdict(result)}",
    )
    line(console, f"run folder: {finished.path}")


def conclude_seeds(console: Console, telling: Telling, folder: Path, summary: dict, runs: Sequence[Run]) -> None:
    """Say what several seeds reached."""
    if console.quiet:
        return
    if telling.json:
        print(json.dumps(summary), flush=True)
        return
    table = Table("seed", f"test {summary['metric']}", "validation", "steps", "seconds", box=None, header_style="bold")
    for run in runs:
        result = run.result
        if result is None:
            table.add_row(str(run.config["seed"]), "not finished", "", "", "")
        else:
            figures = (_figure(result[name], result) for name in ("test", "validation"))
            table.add_row(str(result["seed"]), *figures, f"{result['steps']:,}", f"{result['seconds']:.0f}")
    console.print(table)
    for seed, failure in summary["failures"].items():
        line(console, f"seed {seed}: {failure}")
    interval = summary["interval_95"]
    line(
        console,
        f"{summary['finished']} of {summary['seeds']} seeds: mean ",
        (_figure(summary["mean"], summary), "bold"),
        "" if interval is None else f" ± {_figure(summary['mean'] - interval[0], summary)} (95 %)",
        "" if summary["deviation"] is None else f", deviation {_figure(summary['deviation'], summary)}",
        f", best {_figure(summary['best'], summary)}; summary: {folder / 'summary.json'}",
    )


def _figure(value: float, result: dict) -> str:
    """Accuracies are in percent, errors may be small."""
    if result["better"] == "higher":
        return f"{value:.2f}"
    return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def _verdict(result: dict) -> str:
    reached, trivial, solved = result["test"], result["trivial"], result["solved"]
    lower = result["better"] == "lower"
    if solved is not None and (reached < solved if lower else reached > solved):
        return "solved"
    learned = reached < 0.9 * trivial if lower else reached > trivial + 0.1 * (100 - trivial)
    if learned:
        return "learned" if solved is None else "learned something, not solved"
    return "not learned"


def hush() -> None:
    """Fabric tells about its accelerators and worker processes; a run of one process needs none of it.

    All weights lie in one tensor here, which is not the layout that cuDNN likes best.
    """
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
    for name in ("lightning_fabric", "lightning.fabric"):
        # Its own logger's level is set when it is imported, which is later; those below it keep theirs.
        for part in ("utilities.distributed", "utilities.rank_zero", "accelerators", "plugins"):
            logging.getLogger(f"{name}.{part}").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=name)
