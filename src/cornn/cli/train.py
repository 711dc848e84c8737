"""cornn train"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from rich.console import Console

from cornn import training
from cornn.cli.shared import conclude, watched
from cornn.models import count_parameters
from cornn.paper import RECIPES, SOURCES
from cornn.tasks import TASKS
from cornn.training import Train

__all__ = ["TrainCommand", "command_type", "named_recipe"]


@dataclass(frozen=True)
class TrainCommand:
    """Train a model on a task, and leave a run folder."""

    config: Train
    out: Path | None = None
    """Where the run folder goes. Default: a new folder under runs/."""
    quiet: bool = False
    """Print the closing lines only."""

    def run(self) -> None:
        console = Console()
        config = _settled(self.config)
        out = self.out or _new_folder(Path("runs"), training.task_name(config.task))
        if not self.quiet:
            task = config.task.load(config.seed)
            parameters = count_parameters(training.build(config, task))
            console.print(
                f"[bold]{task.name}[/bold], {task.length} steps a sequence; coRNN with "
                f"{config.settings.hidden_size} neurons, {parameters:,} parameters; seed {config.seed}",
                highlight=False,
            )
            console.print(f"recipe: {config.recipe}, {SOURCES[task.name][config.recipe]}", style="dim", highlight=False)
        finished = watched(console, self.quiet, lambda watch: training.fit(config, out, watch))
        conclude(console, finished)


def command_type(recipe: Literal["ours", "paper"]) -> Any:
    """What the command line is parsed into; the defaults are those of a recipe, so that --help shows them."""
    tasks = {name: TrainCommand(training.usual(options(), recipe)) for name, options in TASKS.items()}
    about = {name: f"{TASKS[name].__doc__} Recipe {recipe}: {SOURCES[name][recipe]}." for name in tasks}
    train = tyro.extras.subcommand_type_from_defaults(tasks, about, prefix_names=False)
    return Annotated[train, tyro.conf.subcommand("train", description=TrainCommand.__doc__)]


def named_recipe(arguments: Sequence[str]) -> Literal["ours", "paper"]:
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


def _new_folder(root: Path, name: str) -> Path:
    number = 1
    while (root / f"{name}-{number:04d}").exists():
        number += 1
    return root / f"{name}-{number:04d}"
