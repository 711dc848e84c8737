"""cornn train"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from cornn._json import read_json
from cornn.baselines import MODELS
from cornn.cli.console import TELL_ALL, Telling, conclude, conclude_seeds, console_of, line, watched
from cornn.lab import training
from cornn.lab.recipes import ALTERNATIVES, BETAS, PUBLISHED, RECIPES, SOURCES, Recipe, for_model
from cornn.lab.tasks import TASKS, Task
from cornn.lab.training import Train
from cornn.models import SequenceModel, count_parameters

__all__ = ["TrainCommand", "command_type", "named_option", "settled"]


@dataclass(frozen=True)
class TrainCommand:
    """Train a model on a task, and leave a run folder."""

    train: Train
    telling: Telling = TELL_ALL
    out: Path | None = None
    """Where the run folder goes. Default: a new folder under runs/."""
    seeds: int = 1
    """Train from so many seeds, side by side where they fit, each into a run folder of its own, and sum them up."""
    config: Path | None = None
    """A configuration such as a run folder's config.json; its values take the place of the recipe's."""
    dry_run: bool = False
    """Print what would be done, and do nothing."""

    def run(self) -> None:
        console = console_of(self.telling)
        config = replace(self.train, settings=settled(self.train.settings, self._start()))
        training.check(config)
        if self.seeds < 1:
            raise ValueError(f"seeds must be above 0, got {self.seeds}")
        if self.dry_run:
            _describe(console, config, self.seeds)
            return
        out = self.out or _new_folder(Path("runs"), training.task_name(config.task))

        def introduce(task: Task, model: SequenceModel) -> None:
            if not self.telling.quiet:
                _introduce(console, config, task, model)

        if self.seeds == 1:
            finished = watched(console, self.telling, out, lambda watch: training.fit(config, out, watch, introduce))
            conclude(console, self.telling, finished)
        else:
            seeds = range(config.seed, config.seed + self.seeds)
            summary, runs = watched(
                console, self.telling, out, lambda watch: training.fit_seeds(config, seeds, out, watch, introduce)
            )
            conclude_seeds(console, self.telling, out, summary, runs)

    def _start(self) -> Recipe:
        """The settings before those that the command line names."""
        if self.config is not None:
            return training.from_dictionary(read_json(self.config)).settings
        return for_model(RECIPES[training.task_name(self.train.task)][self.train.recipe], self.train.model)


def command_type(arguments: Sequence[str]) -> Any:
    """What the command line is parsed into. The defaults are those of a recipe or file, so that --help shows them."""
    recipe, file = named_option("--recipe", arguments), named_option("--config", arguments)
    if file is not None and not Path(file).exists():
        raise FileNotFoundError(f"no configuration at {file}")
    given = None if file is None else training.from_dictionary(read_json(Path(file)))
    if given is not None and training.task_name(given.task) not in arguments:
        raise ValueError(f"{file} is for the task {training.task_name(given.task)}, and another one is asked for")
    asked = named_option("--model", arguments)
    model: dict[str, Any] = {} if asked is None else {"model": asked}
    defaults, about = {}, {}
    for name, options in TASKS.items():
        own = recipe if recipe in RECIPES[name] or name in arguments else None
        config = training.from_recipe(name, own, **model)
        if given is not None and training.task_name(given.task) == name:
            config = given
        defaults[name] = TrainCommand(config, config=None if file is None else Path(file))
        others = ", ".join(other for other in RECIPES[name] if other != config.recipe)
        about[name] = f"{options.__doc__} Recipe {config.recipe}: {SOURCES[name][config.recipe]}."
        about[name] += f" Other recipes: {others}." if others else ""
    train = tyro.extras.subcommand_type_from_defaults(defaults, about, prefix_names=False)
    return Annotated[train, tyro.conf.subcommand("train", description=TrainCommand.__doc__)]


def named_option(option: str, arguments: Sequence[str]) -> str | None:
    """What the command line says of an option that the defaults of all others depend on."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return next((value for name, value in pairwise(words) if name == option), None)


def settled(given: Recipe, base: Recipe) -> Recipe:
    """Of two settings that set the same thing, the one that was given drops the other one of `base`."""
    for names in ALTERNATIVES.values():
        changed = [name for name in names if getattr(given, name) not in (None, getattr(base, name))]
        if len(changed) == 1:
            given = replace(given, **{name: None for name in names if name not in changed})
    if given.optimiser != base.optimiser:
        # Moments that were not named are those which are usual with the optimiser that was.
        usual = dict(zip(("beta1", "beta2"), BETAS[given.optimiser], strict=True))
        same = {name: value for name, value in usual.items() if getattr(given, name) == getattr(base, name)}
        given = replace(given, **same)
    return given


def _introduce(console: Console, config: Train, task: Task, model: SequenceModel) -> None:
    line(
        console,
        (task.name, "bold"),
        f", {task.length} steps a sequence; {_network(config)}, {_parameters(model)}; seed {config.seed}",
    )
    for note in (f"recipe: {config.recipe}, {SOURCES[task.name][config.recipe]}", *task.notes):
        line(console, note, style="dim")


def _network(config: Train) -> str:
    name = MODELS[config.model].title
    layers = config.settings.num_layers
    return f"{name} with {f'{layers} layers of ' if layers > 1 else ''}{config.settings.hidden_size} neurons"


def _parameters(model: SequenceModel) -> str:
    words = count_parameters(model.encoder)
    network = f"{count_parameters(model) - words:,} parameters"
    return network + (f" and {words:,} of the embedding" if words else "")


def _describe(console: Console, config: Train, seeds: int) -> None:
    """The dry run: the resolved configuration, the size of the model, and the steps ahead."""
    console.print_json(data=training.as_dictionary(config))
    try:
        task = training.load(config)
    except OSError as error:
        line(console, f"{error}; without the data the size of the model and the steps are not known")
        return
    model, plan = training.build(config, task), training.plan(config, task)
    line(console, f"{_network(config)}, {_parameters(model)}")
    for row in PUBLISHED.get(task.name, ()):
        if MODELS[config.model].title == row.model and row.units == config.settings.hidden_size:
            case = f" ({row.case})" if row.case else ""
            line(
                console,
                f"the paper's {row.model} with {row.units} neurons{case}: {row.parameters / 1000:.0f}k parameters, "
                f"{task.metric} {row.figure:g}",
            )
    ahead = f"{plan.steps:,} steps of {plan.batch} sequences"
    if plan.epoch is not None:
        ahead += f", {plan.epoch:,} to an epoch of {plan.size:,} sequences"
    line(console, ahead, "" if seeds == 1 else f", for each of {seeds} seeds")


def _new_folder(root: Path, name: str) -> Path:
    number = 1
    while (root / f"{name}-{number:04d}").exists():
        number += 1
    return root / f"{name}-{number:04d}"
