"""cornn train"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rich.console import Console

from cornn._atomic import release_folder, reserve_new_folder
from cornn.baselines import MODELS
from cornn.cli.console import line
from cornn.cli.options import choose_start, parse_train
from cornn.cli.parsing import choose_task
from cornn.cli.progress import OutputOptions, train_with_progress, training_console
from cornn.lab import training
from cornn.lab.config import Train, as_dictionary
from cornn.lab.recipes import PUBLISHED, RECIPES
from cornn.lab.runs import Run
from cornn.lab.tasks import TASKS, Task
from cornn.lab.training import Watch
from cornn.models import SequenceModel, count_parameters


@dataclass(frozen=True)
class TrainCommand:
    """Train a model on a task and write a run folder."""

    train: Train
    seeds: int = 1
    """Number of seeds to train, in parallel where they fit, with one run folder each and a summary."""
    out: Path | None = None
    """The run folder. Default: a new folder under runs/."""
    dry_run: bool = False
    """Print the configuration and the number of steps without training."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> None:
        console, config = training_console(self.output), self.train
        if self.seeds < 1:
            raise ValueError(f"--seeds must be above 0, got {self.seeds}")
        if self.dry_run:
            _describe(console, config, self.seeds)
            return
        with _reserve(self.out, config.task.name, first=not console.quiet) as out:
            train_with_progress(console, self.output, out, partial(self._train, console, config, out))

    def _train(self, console: Console, config: Train, out: Path, watch: Watch) -> Run | tuple[dict, list[Run]]:
        def introduce(task: Task, model: SequenceModel) -> None:
            if not self.output.quiet:
                _introduce(console, config, task, model)

        if self.seeds == 1:
            return training.fit(config, out, watch, introduce)
        seeds = range(config.seed, config.seed + self.seeds)
        return training.fit_seeds(config, seeds, out, watch, introduce)


def parse(arguments: Sequence[str]) -> TrainCommand:
    """Parse the arguments of `cornn train`. The help shows the values of the recipe or file."""
    task, rest = choose_task("train", TASKS, arguments)
    prog = f"cornn train {task}"
    start, rest = choose_start(prog, task, rest)
    overrides, values = parse_train(TrainCommand, prog, rest, start, hidden=("train",))
    return TrainCommand(start.config.override(**overrides), **values)


def _introduce(console: Console, config: Train, task: Task, model: SequenceModel) -> None:
    line(
        console,
        (task.name, "bold"),
        f", {task.length} steps per sequence; {_describe_network(config)}, {_describe_parameters(model)}",
        f"; seed {config.seed}",
    )
    recipe = RECIPES[task.name].get(config.recipe)
    source = "" if recipe is None else f", {recipe.source}"
    if recipe is not None and config.model.name != recipe.train.model.name:
        source = " with another model"  # the recipe's source describes its own model
    for note in (f"recipe: {config.recipe}{source}", *task.notes):
        line(console, note, style="dim")


def _describe_network(config: Train) -> str:
    name = MODELS[config.model.name].title
    layers = config.model.num_layers
    return f"{name} with {f'{layers} layers of ' if layers > 1 else ''}{config.model.hidden_size} neurons"


def _describe_parameters(model: SequenceModel) -> str:
    embedding = count_parameters(model.encoder)
    network = f"{count_parameters(model) - embedding:,} parameters"
    return network + (f" and {embedding:,} in the embedding" if embedding else "")


def _describe(console: Console, config: Train, seeds: int) -> None:
    """Print the resolved configuration, the size of the model and the number of steps."""
    console.print_json(data=as_dictionary(config))
    try:
        task = training.load(config)
    except OSError as error:
        line(console, f"{error}; the model size and the number of steps are unknown without the data")
        return
    model, plan = training.build(config, task), training.plan(config, task)
    line(console, f"{_describe_network(config)}, {_describe_parameters(model)}")
    for row in PUBLISHED.get(task.name, ()):
        if MODELS[config.model.name].title == row.model and row.units == config.model.hidden_size:
            case = f" ({row.case})" if row.case else ""
            line(
                console,
                f"the paper's {row.model} with {row.units} neurons{case}: {row.parameters / 1000:.0f}k parameters, "
                f"{task.metric} {row.value:g}",
            )
    length = f"{plan.steps:,} steps of {plan.batch} sequences"
    if plan.epoch is not None:
        length += f", {plan.epoch:,} per epoch of {plan.size:,} sequences"
    line(console, length, "" if seeds == 1 else f", for each of {seeds} seeds")


@contextmanager
def _reserve(out: Path | None, name: str, first: bool) -> Iterator[Path]:
    """Reserve a new folder under runs/ if `out` is None, and remove it again if nothing is written to it.

    Of several processes only the first reserves a folder; the others receive its name later.
    """
    if out is not None or not first:
        yield out or Path("runs")
        return
    out = reserve_new_folder(Path("runs"), name)
    try:
        yield out
    finally:
        release_folder(out)
        release_folder(out.parent)
