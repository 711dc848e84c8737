"""The command line: parse, call, print."""

import logging
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.table import Table

from cornn import __version__, engine, training
from cornn.models import count_parameters
from cornn.paper import RECIPES, SOURCES
from cornn.report import curve
from cornn.runs import Run, machine
from cornn.tasks import TASKS, Task
from cornn.training import Train

__all__ = ["run"]

DESCRIPTION = """Recurrent networks of coupled oscillators.

Try `cornn train adding`: it trains a network on the CPU to add two marked numbers of a sequence of 500, and needs no
data."""


@dataclass(frozen=True)
class TrainCommand:
    """Train a model on a task, and leave a run folder."""

    config: Train
    out: Path | None = None
    """Where the run folder goes. Default: a new folder under runs/."""
    quiet: bool = False
    """Print the closing lines only."""


@dataclass(frozen=True)
class EvaluateCommand:
    """Compute the test metric of a finished run anew, from its weights."""

    run: tyro.conf.Positional[Path]
    """The run folder."""


@dataclass(frozen=True)
class ResumeCommand:
    """Go on with a run that was stopped, from its last checkpoint."""

    run: tyro.conf.Positional[Path]
    """The run folder."""
    quiet: bool = False
    """Print the closing lines only."""


@dataclass(frozen=True)
class DoctorCommand:
    """Say what can run the recurrence on this machine, and why the rest cannot."""


def _command_type(recipe: Literal["ours", "paper"]) -> Any:
    """What the command line is parsed into; the defaults are those of a recipe, so that --help shows them."""
    tasks = {name: TrainCommand(training.usual(options(), recipe)) for name, options in TASKS.items()}
    about = {name: f"{TASKS[name].__doc__} Recipe {recipe}: {SOURCES[name][recipe]}." for name in tasks}
    train = tyro.extras.subcommand_type_from_defaults(tasks, about, prefix_names=False)
    return (
        Annotated[train, tyro.conf.subcommand("train", description=TrainCommand.__doc__)]
        | Annotated[EvaluateCommand, tyro.conf.subcommand("evaluate")]
        | Annotated[ResumeCommand, tyro.conf.subcommand("resume")]
        | Annotated[DoctorCommand, tyro.conf.subcommand("doctor")]
    )


def _named_recipe(arguments: Sequence[str]) -> Literal["ours", "paper"]:
    """The recipe that the command line names: the defaults of everything else depend on it."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return "paper" if ("--recipe", "paper") in pairwise(words) else "ours"


def _settled(config: Train) -> Train:
    """gamma and the half-lives set the same thing: the one that was given drops the recipe's other one."""
    base, given = RECIPES[training.task_name(config.task)][config.recipe], config.settings
    if given.gamma != base.gamma and given.half_lives == base.half_lives:
        given = replace(given, half_lives=None)
    elif given.half_lives != base.half_lives and given.gamma == base.gamma:
        given = replace(given, gamma=None)
    return replace(config, settings=given)


def run(arguments: Sequence[str]) -> None:
    command = tyro.cli(
        _command_type(_named_recipe(arguments)),
        prog="cornn",
        description=DESCRIPTION,
        args=arguments,
        config=(
            tyro.conf.OmitArgPrefixes,
            tyro.conf.OmitSubcommandPrefixes,
            tyro.conf.CascadeSubcommandArgs,
            tyro.conf.DisallowNone,
        ),
    )
    _hush()
    if isinstance(command, TrainCommand):
        _train(command)
    elif isinstance(command, ResumeCommand):
        console = Console()
        finished = _watched(console, command.quiet, lambda watch: training.resume(command.run, watch))
        _conclude(console, finished)
    elif isinstance(command, EvaluateCommand):
        _evaluate(command)
    else:
        _doctor()


def _train(command: TrainCommand) -> None:
    console = Console()
    config = _settled(command.config)
    out = command.out or _new_folder(Path("runs"), training.task_name(config.task))
    if not command.quiet:
        task = config.task.load(config.seed)
        parameters = count_parameters(training.build(config, task))
        console.print(
            f"[bold]{task.name}[/bold], {task.length} steps a sequence; coRNN with "
            f"{config.settings.hidden_size} neurons, {parameters:,} parameters; seed {config.seed}",
            highlight=False,
        )
        console.print(f"recipe: {config.recipe}, {SOURCES[task.name][config.recipe]}", style="dim", highlight=False)
    finished = _watched(console, command.quiet, lambda watch: training.fit(config, out, watch))
    _conclude(console, finished)


def _watched(console: Console, quiet: bool, work) -> Run:
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


def _conclude(console: Console, finished: Run) -> None:
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


def _evaluate(command: EvaluateCommand) -> None:
    console = Console()
    finished, task, metric = training.evaluate(command.run)
    recorded = (finished.result or {}).get("test")
    console.print(
        f"{command.run}: test {task.metric} [bold]{metric:.6f}[/bold], against {task.trivial:.4f} {task.trivial_words}"
        + (f"; {recorded:.6f} was recorded" if recorded is not None else ""),
        highlight=False,
        soft_wrap=True,
    )


def _doctor() -> None:
    console = Console()
    console.print(f"cornn {__version__}, " + ", ".join(f"{key} {value}" for key, value in machine().items() if value))
    devices = ["cpu"] + [f"cuda:{number}" for number in range(torch.cuda.device_count())]
    table = Table("device", "backend", "", "why", box=None, header_style="bold")
    for device in devices:
        problem = engine.Problem("cornn/explicit/tanh", torch.device(device), torch.float32, 1, 784, 120, 128, False)
        chosen, _ = engine.choose(problem)
        for name, backend in engine.BACKENDS.items():
            usable, reason = backend.usable(problem)
            word = "[green]chosen[/green]" if name == chosen else "usable" if usable else "[yellow]no[/yellow]"
            table.add_row(device, name, word, reason)
    console.print(table)
    console.print(
        "Asked for 784 steps of 120 sequences with 128 neurons in float32; other sizes may differ.", style="dim"
    )


def _new_folder(root: Path, name: str) -> Path:
    number = 1
    while (root / f"{name}-{number:04d}").exists():
        number += 1
    return root / f"{name}-{number:04d}"


def _hush() -> None:
    """Fabric tells about its accelerators and worker processes; a run of one process needs none of it."""
    logging.getLogger("lightning_fabric").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning_fabric")
