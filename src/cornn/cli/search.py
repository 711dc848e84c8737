"""cornn search"""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from cornn._counts import format_count
from cornn.cli.console import line, progress_lines
from cornn.cli.options import choose_start, parse_train
from cornn.cli.parsing import choose_task
from cornn.cli.progress import SECONDS_BETWEEN_UPDATES, OutputOptions, training_console
from cornn.cli.workers import WorkerOptions, stoppable
from cornn.lab.config import Train
from cornn.lab.experiments.run import check_storage
from cornn.lab.experiments.search import make_search, write_search
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status
from cornn.lab.experiments.storage import Storage, hide_password
from cornn.lab.recipes import PAPER, RANGES
from cornn.lab.tasks import TASKS
from cornn.lab.training import Progress

Follow = Callable[[Status, Progress | None], None]

SHOWN = 10
"""Number of trials in the final table, best first."""


@dataclass(frozen=True)
class SearchCommand:
    """Search hyperparameters at random, judged by validation only; the test split is not read.

    Values are drawn log-uniformly from the paper's ranges. A setting that is given as an option is not searched. The
    same command, started again or on another machine, shares the trials."""

    train: Train
    trials: int = 30
    """Total number of trials of all workers."""
    study: str | None = None
    """Name of the study that workers share. Default: task, model and number of neurons."""
    prune: bool = False
    """Stop trials that are worse than the median of the others at the same evaluation."""
    out: Path | None = None
    """Folder of best.json and trials.json. Default: runs/search-STUDY."""
    quiet: bool = False
    """Print the closing lines only."""
    json: bool = False
    """Print JSON on stdout, one line per trial and one for the best; everything else goes to stderr."""
    dry_run: bool = False
    """Print the ranges and the plan without searching."""
    sharing: WorkerOptions = field(default_factory=WorkerOptions)
    given: tuple[str, ...] = ()

    def run(self) -> None:
        console = training_console(OutputOptions(self.quiet, self.json))
        experiment, storage, out = self._plan()
        check_storage(storage)
        if self.dry_run or not self.quiet:
            _describe(console, experiment, storage, out)
        if self.dry_run:
            return
        with stoppable("Run the same command to continue; the stopped trial is repeated"), ExitStack() as stack:
            followers: list[Follow] = [_follow_with_lines()] if self.json else []
            if not (self.json or self.quiet):
                followers.append(_follow_with_bar(console, stack) if console.is_terminal else _follow_with_text())

            def follow(status: Status, progress: Progress | None) -> None:
                for follower in followers:
                    follower(status, progress)

            (status,) = self.sharing.run([experiment], out, follow=follow)
            follow(status, None)
        best, trials = write_search(status, storage, out)
        if self.json:
            print(json.dumps({"best": status.best, "config": str(best), "trials": str(trials)}), flush=True)
        else:
            _conclude(console, status, best, trials)

    def _plan(self) -> tuple[Experiment, Storage, Path]:
        experiment = make_search(self.train, self.trials, name=self.study, given=self.given, prune=self.prune)
        out = self.out or Path("runs") / f"search-{experiment.name}"
        return experiment, self.sharing.open_storage(out), out


def parse(arguments: Sequence[str]) -> SearchCommand:
    """Parse the arguments of `cornn search`. As for `cornn train`, but the default is the paper's recipe, if any."""
    task, rest = choose_task("search", TASKS, arguments)
    prog = f"cornn search {task}"
    start, rest = choose_start(prog, task, rest, next(iter(PAPER.get(task, {})), None))
    overrides, values = parse_train(SearchCommand, prog, rest, start, hidden=("train", "given"))
    return SearchCommand(start.config.override(**overrides), given=tuple(overrides), **values)


def _describe(console: Console, experiment: Experiment, storage: Storage, out: Path) -> None:
    """Print the ranges and the plan."""
    base = experiment.base
    task, model, budget = base.task.name, base.model.name, base.budget
    source = "the paper's" if model == "cornn" and task in RANGES else "ours; the paper has none"
    line(console, (task, "bold"), f", {model}, recipe {base.recipe}; ranges: {source}")
    for name, draw in experiment.space.items():
        line(console, f"  {name}: {draw}, log-uniform")
    length = format_count(budget.steps or 0, "step")
    if budget.epochs is not None:
        length = format_count(budget.epochs, "epoch")
    pruned = "pruned by the median" if experiment.prune else "none pruned"
    line(
        console,
        f"{format_count(experiment.trials, 'trial')} of at most {length}, {pruned}; "
        f"seed {base.seed}; study {experiment.name} in {hide_password(storage.url)}; result in {out}",
    )


def _follow_with_lines() -> Follow:
    printed: set[int] = set()

    def follow(status: Status, progress: Progress | None) -> None:
        for row in status.rows:
            if row["state"] != "running" and row["trial"] not in printed:
                printed.add(row["trial"])
                print(json.dumps(row), flush=True)

    return follow


def _follow_with_text() -> Follow:
    write = progress_lines()

    def follow(status: Status, progress: Progress | None) -> None:
        best = "" if status.best is None else f", best {status.best['validation']:.4g}"
        waiting = ", waiting for other workers" if progress is None and status.running else ""
        write(f"{status.done} of {status.experiment.trials} trials{best}{waiting}")

    return follow


def _follow_with_bar(console: Console, stack: ExitStack) -> Follow:
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("trials{task.fields[others]}  best {task.fields[best]}  {task.fields[own]}{task.fields[left]}"),
    )
    bar = stack.enter_context(Bar(*columns, console=console, transient=True))
    task_id = bar.add_task("search", total=None, others="", best="…", own="", left="")
    drawn_at = 0.0

    def follow(status: Status, progress: Progress | None) -> None:
        nonlocal drawn_at
        now = time.monotonic()
        if progress is not None and now - drawn_at < SECONDS_BETWEEN_UPDATES:
            return
        drawn_at = now
        counts = {"running": status.running, "pruned": status.pruned, "failed": status.failed}
        others = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        own = "waiting for other workers  " if progress is None else f"step {progress.step:,}/{progress.steps:,}  "
        left = status.seconds_remaining
        bar.update(
            task_id,
            completed=status.done,
            total=status.experiment.trials,
            others=f" ({others})" if others else "",
            best="…" if status.best is None else f"{status.best['validation']:.4g}",
            own=own,
            left="" if left is None else f"about {timedelta(seconds=round(left))} left",
        )

    return follow


def _conclude(console: Console, status: Status, best: Path, trials: Path) -> None:
    ranked, space = status.ranked, status.experiment.space
    table = Table("trial", "validation", *space, "steps", "seconds", box=None, header_style="bold")
    for row in ranked[:SHOWN]:
        values = [f"{row['values'][name]:.3g}" for name in space]
        table.add_row(
            str(row["trial"]), f"{row['validation']:.4g}", *values, f"{row['steps']:,}", f"{row['seconds']:.0f}"
        )
    console.print(table)
    for row in status.rows:
        if row["failure"] is not None:
            line(console, f"trial {row['trial']} failed: {row['failure']}")
    line(
        console,
        f"{format_count(status.done, 'trial')}, {status.pruned} pruned, {status.failed} failed; list: {trials}\n"
        "best validation ",
        (f"{ranked[0]['validation']:.4g}", "bold"),
        f", trial {ranked[0]['trial']}; train it with\n"
        f"cornn train {status.experiment.base.task.name} --config {shlex.quote(str(best))}",
    )
