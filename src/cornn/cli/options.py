"""The options of `cornn train` and `cornn search`: a task's, a recipe's and a run's, in groups."""

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass, replace
from typing import Any

from cornn.cli.parsing import make_option, parse
from cornn.lab.recipes import ALTERNATIVES, BETAS, RECIPES, SOURCES, Recipe
from cornn.lab.training import Train, task_name

__all__ = ["GROUPS", "MAIN", "parse_train", "resolve_alternatives"]

MAIN = (
    *("recipe", "model", "hidden_size", "num_layers"),
    *("learning_rate", "batch_size", "steps", "epochs", "seed", "device", "data"),
)
"""Options of the first panel, before those of the command itself."""

GROUPS = {
    "oscillator": (
        "Constants and initial weights of the recurrent layer.",
        ("dt", "gamma", "epsilon", "half_lives", "periods", "damping", "trainable", "init", "centre", "layer"),
    ),
    "optimisation": (
        "Optimiser, learning-rate schedule and selection of the weights.",
        (
            *("optimiser", "beta1", "beta2", "weight_decay", "clip", "schedule", "warm_up", "drop_after", "drop_to"),
            *("recurrent_rate", "rates_by_length", "rebase_every", "ema", "keep", "until"),
        ),
    ),
    "run": (
        "How the run is executed.",
        ("evaluate_every", "checkpoint_every", "theory", "backend", "precision", "devices"),
    ),
}
"""Panel -> description and options."""


def parse_train(command: type, prog: str, arguments: Sequence[str], base: Train, **own: Any) -> Any:
    """Parse the arguments of a command that has a field `train`.

    Args:
        command: The dataclass of the command. Its other fields become options too.
        prog: The program's name in the help.
        arguments: The words after the task.
        base: The defaults of the task, the recipe and the run.
        own: Defaults of the command's other fields.

    Returns:
        The command.
    """
    values = {name: getattr(base, name) for name in _names(Train)}
    values |= {name: getattr(base.settings, name) for name in _names(Recipe)}
    others = [one for one in fields(command) if one.name != "train"]
    simple = [make_option(_owner(name), name, values[name], pairs=True) for name in MAIN]
    panels = [("task", type(base.task), field(default_factory=lambda: base.task))]
    for group, (about, names) in GROUPS.items():
        options = [make_option(_owner(name), name, values[name], pairs=True) for name in names]
        panel = make_dataclass(group, options, namespace={"__doc__": about})
        panels.append((group, panel, field(default_factory=panel)))
    for one in others:
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        option = make_option(command, one.name, own.get(one.name, default))
        (panels if is_dataclass(default) else simple).append(option)
    options = parse(
        make_dataclass("Options", simple + panels), prog, arguments, description=_description(command, base)
    )
    given = {name: getattr(options, name) for name in MAIN} | {"task": options.task}
    for group, (_, names) in GROUPS.items():
        given |= {name: getattr(getattr(options, group), name) for name in names}
    settings = Recipe(**{name: given[name] for name in _names(Recipe)})
    train = Train(settings=settings, **{name: given[name] for name in _names(Train) if name != "settings"})
    return command(train=train, **{one.name: getattr(options, one.name) for one in others})


def resolve_alternatives(given: Recipe, base: Recipe) -> Recipe:
    """Drop settings of `base` that a changed setting of `given` replaces, such as `half_lives` by `gamma`."""
    for names in ALTERNATIVES.values():
        changed = [name for name in names if getattr(given, name) not in (None, getattr(base, name))]
        if len(changed) == 1:
            given = replace(given, **{name: None for name in names if name not in changed})
    if given.optimiser != base.optimiser:
        # Betas that were not given become the default ones of the new optimiser.
        default = dict(zip(("beta1", "beta2"), BETAS[given.optimiser], strict=True))
        same = {name: value for name, value in default.items() if getattr(given, name) == getattr(base, name)}
        given = replace(given, **same)
    return given


def _names(kind: type) -> Iterable[str]:
    return [one.name for one in fields(kind)]


def _owner(name: str) -> type:
    return Recipe if name in _names(Recipe) else Train


def _description(command: type, base: Train) -> str:
    task = task_name(base.task)
    others = [name for name in RECIPES[task] if name != base.recipe]
    text = f"{inspect.getdoc(command)}\n\n{inspect.getdoc(base.task)}"
    text += f"\n\nRecipe {base.recipe}: {SOURCES[task][base.recipe]}."
    return text + (f" Other recipes: {', '.join(others)}." if others else "")
