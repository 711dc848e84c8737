"""What several commands print: progress of a training, and what it reached."""

import logging
import warnings

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from cornn import training
from cornn.report import curve
from cornn.runs import Run
from cornn.tasks import Task

__all__ = ["conclude", "hush", "watched"]


def watched(console: Console, quiet: bool, work) -> Run:
    """Run `work(watch)` under a progress bar."""
    if quiet:
        return work(lambda progress: None)
    columns = (
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}  test MSE {task.fields[metric]}  {task.fields[speed]} seq/s"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    with Bar(*columns, console=console, transient=True) as bar:
        shown = bar.add_task("training", total=None, loss="…", metric="…", speed="…")

        def watch(progress: training.Progress) -> None:
            task = bar.tasks[shown]
            fields: dict[str, str] = {}
            if progress.loss is not None:
                fields["loss"] = f"{progress.loss:.4f}"
            if progress.metric is not None:
                fields["metric"] = f"{progress.metric:.4f}"
            if task.speed:
                fields["speed"] = f"{task.speed * progress.batch_size:,.0f}"
            bar.update(shown, completed=progress.step, total=progress.steps, **fields)

        return work(watch)


def conclude(console: Console, finished: Run) -> None:
    result = finished.result or {}
    config = training.config_of(finished)
    task = config.task.load(config.seed)
    rows = [(row["step"], row["metric"]) for row in finished.metrics()]
    console.print(
        curve(rows, goal=task.solved, title=f"{task.metric} on {task.evaluated_on}, by training step"),
        highlight=False,
        soft_wrap=True,
    )
    reached = result["test"]
    console.print(
        f"test {task.metric} [bold]{reached:.4f}[/bold] after {result['steps']:,} steps and {result['seconds']:.0f} s, "
        f"against {task.trivial:.4f} {task.trivial_words}: {_verdict(reached, task)}",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"run folder: {finished.path}", highlight=False, soft_wrap=True)


def _verdict(reached: float, task: Task) -> str:
    if reached < task.solved:
        return "solved"
    if reached < 0.9 * task.trivial:
        return "learned something, not solved"
    return "not learned"


def hush() -> None:
    """Fabric tells about its accelerators and worker processes; a run of one process needs none of it."""
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning_fabric")
