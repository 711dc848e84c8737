"""Progress and results of training runs."""

import json
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from cornn._counts import format_count
from cornn._extras import missing_extra
from cornn._json import naming
from cornn._signals import exit_code
from cornn.artifacts import METRICS, is_saved
from cornn.cli.console import line, progress_lines, screen
from cornn.lab.config import read_run_config
from cornn.lab.runs import Run
from cornn.lab.training import Progress, Watch
from cornn.plots.terminal import draw_curves


@dataclass(frozen=True)
class OutputOptions:
    """What the command prints."""

    quiet: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print the closing lines only."""
    json: tyro.conf.FlagCreatePairsOff[bool] = False
    """Print JSON on stdout, one line per evaluation and one for the result; everything else goes to stderr."""
    tensorboard: tyro.conf.FlagCreatePairsOff[bool] = False
    """Also write TensorBoard curves to the run folder."""


Result = TypeVar("Result")

FEWEST_POINTS = 3
"""A curve of fewer points is not drawn."""

SECONDS_BETWEEN_UPDATES = 0.1
"""An update of a bar takes 40 µs, and there is one per training step; a skipped one takes 0.1 µs."""


@contextmanager
def resumable(console: Console, folder: Path) -> Iterator[None]:
    """End a training that a signal stops with the command that resumes it, if there is a run folder by then."""
    try:
        yield
    except KeyboardInterrupt as stop:
        remedy = "no run folder was written."
        if is_saved(folder):
            remedy = f"`cornn resume {shlex.quote(str(folder))}` continues from the last checkpoint."
        if not console.quiet:
            print(f"cornn: stopped; {remedy}", file=sys.stderr)
        sys.exit(exit_code(stop))


def training_console(output: OutputOptions) -> Console:
    """Return the console of a training run. Of several processes only the first prints."""
    rank = int(os.environ.get("RANK", 0)) or int(os.environ.get("LOCAL_RANK", 0)) + int(os.environ.get("NODE_RANK", 0))
    return screen(stderr=output.json, quiet=rank > 0)


def train_with_progress(
    console: Console, output: OutputOptions, folder: Path, train: Callable[[Watch], Run | tuple[dict, list[Run]]]
) -> None:
    """Call `train(watch)`, and print the result of the run that it returns, or the summary and the runs of seeds."""
    with resumable(console, folder):
        trained = run_with_progress(console, output, folder, train)
        if isinstance(trained, Run):
            print_result(console, output, trained)
        else:
            print_summary(console, output, folder, *trained)


def run_with_progress(console: Console, output: OutputOptions, folder: Path, work: Callable[[Watch], Result]) -> Result:
    """Call `work(watch)`, where `watch` shows and logs the progress according to the options."""
    with ExitStack() as stack:
        watches: list[Watch] = []
        if output.json and not console.quiet:
            watches.append(_print_json)
        if output.tensorboard and not console.quiet:
            watches.append(_tensorboard(folder, stack))
        if not (output.quiet or output.json or console.quiet):
            watches.append(_bar(console, stack) if console.is_terminal else _lines())

        def watch(progress: Progress) -> None:
            for callback in watches:
                callback(progress)

        return work(watch)


def _print_json(progress: Progress) -> None:
    for seed, row in progress.evaluations:
        print(json.dumps({"seed": seed, **row}), flush=True)


def _tensorboard(folder: Path, stack: ExitStack) -> Watch:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise missing_extra("tensorboard", "--tensorboard needs tensorboard") from None
    writers: dict[int, SummaryWriter] = {}

    def watch(progress: Progress) -> None:
        for seed, row in progress.evaluations:
            if seed not in writers:
                writers[seed] = SummaryWriter(str(folder / "tensorboard" / f"seed-{seed}"))
                stack.callback(writers[seed].close)
            for name in ("loss", "metric"):
                writers[seed].add_scalar(name, row[name], row["step"])

    return watch


def _lines() -> Watch:
    write = progress_lines()

    def watch(progress: Progress) -> None:
        words = [f"step {progress.step:,} of {progress.steps:,}"]
        words += [] if progress.loss is None else [f"loss {progress.loss:.4f}"]
        words += [] if progress.metric is None else [f"validation {progress.metric:.4g}"]
        write(f"{', '.join(words)}, {progress.seconds:.0f} s")

    return watch


def _bar(console: Console, stack: ExitStack) -> Watch:
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("{task.fields[epoch]}loss {task.fields[loss]}  validation {task.fields[metric]}"),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    bar = stack.enter_context(Bar(*columns, console=console, transient=True))
    task_id = bar.add_task("training", total=None, epoch="", loss="…", metric="…", speed="…")
    drawn_at = 0.0

    def watch(progress: Progress) -> None:
        nonlocal drawn_at
        now = time.monotonic()
        if now - drawn_at < SECONDS_BETWEEN_UPDATES and progress.step < progress.steps:
            return
        drawn_at = now
        speed, fields = bar.tasks[task_id].speed, dict[str, Any]()
        if progress.epoch is not None:
            fields["epoch"] = f"epoch {progress.epoch}/{progress.epochs}  "
        if progress.loss is not None:
            fields["loss"] = f"{progress.loss:.4f}"
        if progress.metric is not None:
            fields["metric"] = f"{progress.metric:.4g}"
        if speed:
            fields["speed"] = f"{speed * progress.sequences:,.0f} seq/s"
        bar.update(task_id, completed=progress.step, total=progress.steps, **fields)

    return watch


def print_result(console: Console, output: OutputOptions, finished: Run) -> None:
    """Print the curve and the test metric of a run."""
    if console.quiet:
        return
    result = finished.result or {}
    if output.json:
        print(json.dumps(result), flush=True)
        return
    by = "epoch" if result["epochs"] is not None else "step"
    # The curve is logarithmic, so accuracies are shown as errors.
    as_error = result["better"] == "higher"
    metrics = finished.metrics()
    with naming(finished.path / METRICS):
        rows = [(row[by], 100 - row["metric"] if as_error else row["metric"]) for row in metrics]
    name = f"100 - {result['metric']}" if as_error else result["metric"]
    title = f"{name} on {result['evaluated_on']}"
    if not output.quiet and len(rows) >= FEWEST_POINTS:
        line(console, draw_curves({"": rows}, goal=result["solved"], title=title, x_label=f"training {by}"))
    stopped = None if output.quiet else _describe_early_stop(finished, result)
    if stopped is not None:
        line(console, stopped)
    epochs = result["epochs"]
    length = format_count(result["steps"], "step") if epochs is None else format_count(epochs, "epoch")
    line(
        console,
        f"test {result['metric']} ",
        (_format_metric(result["test"], result), "bold"),
        f" after {length} and {result['seconds']:.0f} s, compared with {_format_metric(result['trivial'], result)} "
        f"{result['trivial_words']}: {_judge(result)}",
    )
    line(console, f"run folder: {finished.path}")


def _describe_early_stop(finished: Run, result: dict) -> str | None:
    """Say that a run stopped because of `until`, or return None."""
    budget, rows = read_run_config(finished).budget, finished.metrics()
    until, steps, epochs = budget.until, budget.steps, budget.epochs
    if not until or not rows:
        return None
    last, lower = rows[-1]["metric"], result["better"] == "lower"
    if not (last <= until if lower else last >= until):
        return None
    if steps is not None and result["steps"] < steps:
        position = f"step {result['steps']:,} of {steps:,}"
    elif epochs is not None and result["epochs"] is not None and result["epochs"] < epochs:
        position = f"epoch {result['epochs']:g} of {epochs:,}"
    else:
        return None
    side = "below" if lower else "above"
    metric = f"{result['metric']} {_format_metric(last, result)}"
    return f"stopped at {position}: validation {metric} is {side} --until {until:g}"


def print_summary(console: Console, output: OutputOptions, folder: Path, summary: dict, runs: Sequence[Run]) -> None:
    """Print the test metrics of several seeds and their mean."""
    if console.quiet:
        return
    if output.json:
        print(json.dumps(summary), flush=True)
        return
    table = Table("seed", f"test {summary['metric']}", "validation", "steps", "seconds", box=None, header_style="bold")
    for run in runs:
        result = run.result
        if result is None:
            table.add_row(str(run.config["seed"]), "not finished", "", "", "")
        else:
            figures = (_format_metric(result[name], result) for name in ("test", "validation"))
            table.add_row(str(result["seed"]), *figures, f"{result['steps']:,}", f"{result['seconds']:.0f}")
    console.print(table)
    for seed, failure in summary["failures"].items():
        line(console, f"seed {seed}: {failure}")
    interval = summary["interval_95"]
    line(
        console,
        f"{summary['finished']} of {summary['seeds']} seeds: mean ",
        (_format_metric(summary["mean"], summary), "bold"),
        "" if interval is None else f" ± {_format_metric(summary['mean'] - interval[0], summary)} (95 %)",
        "" if summary["deviation"] is None else f", standard deviation {_format_metric(summary['deviation'], summary)}",
        f", best {_format_metric(summary['best'], summary)}; summary: {folder / 'summary.json'}",
    )


def _format_metric(value: float, result: dict) -> str:
    """Format a metric: accuracies are in percent, errors may be small."""
    if result["better"] == "higher":
        return f"{value:.2f}"
    return f"{value:.4f}" if abs(value) >= 1e-3 or value == 0 else f"{value:.2e}"


def _judge(result: dict) -> str:
    test, trivial, solved = result["test"], result["trivial"], result["solved"]
    lower = result["better"] == "lower"
    if solved is not None and (test < solved if lower else test > solved):
        return "solved"
    learned = test < 0.9 * trivial if lower else test > trivial + 0.1 * (100 - trivial)
    if learned:
        return "learned" if solved is None else "learned something, not solved"
    return "not learned"
