"""The configuration of a training run: from a recipe, validated, written and read."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import torch

from cornn.lab.recipes import (
    ALTERNATIVES,
    BETAS,
    RECIPE_MODELS,
    RECIPES,
    RIVALS,
    TASK_OPTIONS,
    Recipe,
    for_model,
)
from cornn.lab.tasks import TASKS, Task

__all__ = [
    "Train",
    "as_dictionary",
    "check",
    "differences",
    "from_dictionary",
    "from_recipe",
    "load",
    "task_name",
    "usual",
]


@dataclass(frozen=True)
class Train:
    """The configuration of a training run. `from_recipe` makes one from the names of a task and a recipe."""

    task: Any
    settings: Recipe
    recipe: str = "ours"
    """The recipe that sets the defaults of all other options."""
    model: str = "cornn"
    """Recurrent layer: cornn, lstm, gru, rnn, or another model of docs/rivals.md, such as fastgrnn."""
    layer: dict[str, float | str] | None = None
    """Options of a rival's layer in place of the published ones, such as epsilon 0.1."""
    evaluate_every: int = 0
    """Steps between evaluations. 0: one per epoch, or every 100 steps if the length of training is given in steps."""
    checkpoint_every: float = 10.0
    """Seconds between checkpoints."""
    theory: bool = False
    """At every evaluation, record which hypotheses of the theory the layer meets, its energy, and how its gradients
    decay with the lag, for `cornn figure assumptions`."""
    backend: str = "auto"
    """Backend of the recurrence. `cornn doctor` lists them."""
    precision: Literal["fp32", "mixed"] = "fp32"
    """fp32, or mixed: bfloat16 outside the recurrence and, on a GPU with 512 or more sequences per batch, in its matrix
    products."""
    seed: int = 0
    """Random seed. The same seed, device and version give the same result."""
    device: str = "auto"
    """Device: auto, cpu or cuda."""
    devices: int = 1
    """Number of processes that share each batch, one per device. torchrun sets it itself."""
    data: str | Path | None = None
    """The data folder. Default: CORNN_DATA, or data/."""


# Settings that may change when a run is resumed: they do not affect the result.
PLACE = ("checkpoint_every", "theory", "device", "devices", "data")


def task_name(task: Any) -> str:
    return next(name for name, options in TASKS.items() if isinstance(task, options))


def load(config: Train) -> Task:
    """Load the task of a configuration with its data."""
    return config.task.load(config.seed, None if config.data is None else Path(config.data))


def usual(task: Any, recipe: str | None = None, **changes: Any) -> Train:
    """Return a configuration with the settings of a recipe (by default the task's first) and `changes` to them."""
    recipes = RECIPES[task_name(task)]
    recipe = recipe or next(iter(recipes))
    if recipe not in recipes:
        raise ValueError(f"{task_name(task)} has no recipe {recipe!r}: choose one of {', '.join(recipes)}")
    base = for_model(recipes[recipe], changes.get("model", "cornn"))
    for names in ALTERNATIVES.values():
        if any(changes.get(name) is not None for name in names):
            base = replace(base, **dict.fromkeys(names))
    if changes.get("optimiser", base.optimiser) != base.optimiser:
        base = replace(base, **dict(zip(("beta1", "beta2"), BETAS[changes["optimiser"]], strict=True)))
    settings = {field.name for field in fields(Recipe)}
    return Train(
        task,
        replace(base, **{name: value for name, value in changes.items() if name in settings}),
        recipe,
        **{name: value for name, value in changes.items() if name not in settings},
    )


def from_recipe(
    name: str, recipe: str | None = None, *, options: Mapping[str, Any] | None = None, **changes: Any
) -> Train:
    """Return the complete recipe of a task: its settings, its task options and its model.

    Args:
        name: The name of a task.
        recipe: The name of a recipe; the task's first by default.
        options: Task options in place of the recipe's.
        changes: Settings in place of the recipe's.
    """
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    recipe = recipe or next(iter(RECIPES[name]))
    own = {**TASK_OPTIONS.get(name, {}).get(recipe, {}), **(options or {})}
    changes = {"model": RECIPE_MODELS.get(name, {}).get(recipe, "cornn"), **changes}
    return usual(TASKS[name](**own), recipe, **changes)


def check(config: Train) -> None:
    """Validate the configuration before touching the disk."""
    recipe = config.settings
    for part in (recipe, config, config.task):
        _check_kinds(part)
    if config.theory and config.model != "cornn":
        raise ValueError(f"theory needs the model cornn, got {config.model}: use --no-theory")
    for what, names in ALTERNATIVES.items():
        if sum(getattr(recipe, name) is not None for name in names) != 1:
            every = f"{', '.join(names[:-1])} and {names[-1]}"
            raise ValueError(f"{every} each set {what}: give exactly one of them")
    for name in ("half_lives", "periods"):
        if (ends := getattr(recipe, name)) is not None and not 0 < ends[0] <= ends[1]:
            raise ValueError(f"{name} must be the shortest and the longest, above 0, got {ends[0]:g} and {ends[1]:g}")
    positive: dict[str, float] = {"devices": config.devices}
    positive |= {name: getattr(recipe, name) for name in ("hidden_size", "num_layers", "batch_size", "learning_rate")}
    positive |= {"steps": recipe.steps} if recipe.steps is not None else {"epochs": recipe.epochs}  # pyright: ignore
    for name, value in positive.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")
    natural = {
        name: getattr(recipe, name)
        for name in ("warm_up", "drop_after", "drop_to", "recurrent_rate", "clip", "weight_decay", "rebase_every")
    }
    natural |= {"evaluate_every": config.evaluate_every, "checkpoint_every": config.checkpoint_every}
    for name, value in natural.items():
        if not value >= 0:
            raise ValueError(f"{name} must not be below 0, got {value}")
    for name in ("beta1", "beta2", "ema"):
        if not 0 <= getattr(recipe, name) < 1:
            raise ValueError(f"{name} must lie in [0, 1), got {getattr(recipe, name)}")
    if recipe.optimiser == "rmsprop" and recipe.beta1:
        raise ValueError(f"RMSprop has no first moment, but beta1 is {recipe.beta1}: use --beta1 0")
    if recipe.rebase_every and config.model != "dtriv":
        raise ValueError(f"rebase_every is for dtriv, the model is {config.model}: leave it at 0")
    if recipe.rebase_every and recipe.ema:
        raise ValueError("rebase_every changes the base point of the weights, so they cannot be averaged: use --ema 0")
    if recipe.rates_by_length is not None and config.model != "cornn":
        raise ValueError(f"rates_by_length is for coRNN, the model is {config.model}: leave it out")
    if recipe.rates_by_length is not None and not min(recipe.rates_by_length) >= 0:
        raise ValueError(f"rates_by_length must not be below 0, got {recipe.rates_by_length}")
    own = RIVALS[config.model].options if config.model in RIVALS else {}
    for name in config.layer or {}:
        if name not in own:
            raise ValueError(f"the layer of {config.model} has no option {name!r}: it has {', '.join(own) or 'none'}")
    if (recipe.schedule == "drop") != (recipe.drop_after > 0):
        raise ValueError("the schedule drop needs drop_after, and drop_after the schedule drop: give both or neither")


KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    Path: "a path",
    NoneType: "null",
    dict: "an object",
}
NUMBERS = {int: Integral, float: Real}


def _is(kind: Any, value: Any) -> bool:
    """Whether a value has the type of a hint. Literals outside unions are checked elsewhere."""
    if get_origin(kind) in (Union, UnionType):
        return any(value in get_args(one) if get_origin(one) is Literal else _is(one, value) for one in get_args(kind))
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if not isinstance(value, tuple | list) or (kinds[-1] is not Ellipsis and len(kinds) != len(value)):
            return False
        return all(_is(kinds[0], one) for one in value)
    if kind in NUMBERS:
        return isinstance(value, NUMBERS[kind]) and not isinstance(value, bool)
    if kind is str:
        return isinstance(value, str | torch.device)
    outer = get_origin(kind) or kind
    return isinstance(value, outer) if outer in (bool, Path, NoneType, dict) else True


def _in_words(kind: Any) -> str:
    """Describe a type for an error message."""
    if get_origin(kind) in (Union, UnionType):
        return " or ".join(_in_words(one) for one in get_args(kind))
    if get_origin(kind) is Literal:
        return f"one of {', '.join(map(str, get_args(kind)))}"
    if get_origin(kind) is tuple:
        first, *others = get_args(kind)
        return f"a list of {len(others) + 1} numbers" if Ellipsis not in others else f"a list, each {_in_words(first)}"
    return KINDS.get(get_origin(kind) or kind, "of another type")


def _check_kinds(part: Any) -> None:
    """Reject values of the wrong type, unknown literals and numbers that are not finite."""
    for name, kind in get_type_hints(type(part)).items():
        value = getattr(part, name)
        if not _is(kind, value):
            raise ValueError(f"{name} must be {_in_words(kind)}, got {value!r}")
        values = value if isinstance(value, tuple | list) else (value,)
        inner = get_args(kind)[0] if isinstance(value, tuple | list) else kind
        if get_origin(inner) is Literal:
            for one in values:
                if one not in get_args(inner):
                    raise ValueError(f"unknown {name} {one!r}: choose one of {', '.join(get_args(inner))}")
        if any(isinstance(one, float) and not math.isfinite(one) for one in values):
            raise ValueError(f"{name} must be finite, got {value}")


def as_dictionary(config: Train) -> dict[str, Any]:
    """Convert a configuration to the content of config.json. `from_dictionary` is the inverse."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: plain(part) for name, part in value.items()}
        if isinstance(value, list | tuple):
            return [plain(part) for part in value]
        return str(value) if isinstance(value, Path) else value

    return {"task_name": task_name(config.task), **plain(asdict(config))}


def from_dictionary(content: Mapping[str, Any]) -> Train:
    """Convert the content of config.json to a configuration. Missing settings have their defaults."""

    def known(kind: type, values: Mapping[str, Any], where: str) -> dict[str, Any]:
        names = {field.name for field in fields(kind)}
        if not isinstance(values, Mapping):
            raise ValueError(f"{where} must be an object with settings, got {values!r}")
        for name in values:
            if name not in names:
                raise ValueError(f"{where} has no setting {name!r}: it has {', '.join(sorted(names))}")
        return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}

    if not isinstance(content, Mapping):
        raise ValueError(f"not a configuration: expected an object, got {type(content).__name__}")
    for name in ("task_name", "task", "settings"):
        if name not in content:
            raise ValueError(f"not a configuration: it has no {name!r}")
    name = content["task_name"]
    if name not in TASKS:
        raise ValueError(f"unknown task {name!r}: choose one of {', '.join(TASKS)}")
    options = TASKS[name](**known(TASKS[name], content["task"], f"the task {name}"))
    settings = Recipe(**known(Recipe, content["settings"], "a recipe"))
    own = {field.name for field in fields(Train)} - {"task", "settings"}
    made = Train(options, settings, **{key: value for key, value in content.items() if key in own})
    for part in (settings, made, options):
        _check_kinds(part)
    return made


def differences(before: Mapping[str, Any], now: Mapping[str, Any], at: str = "") -> list[str]:
    """List the settings that differ between two configurations as dictionaries."""
    found = []
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += differences(old, new, f"{at}{name}.")
        elif old != new and not (at == "" and name in PLACE):
            found.append(f"{at}{name} was {old!r}, is {new!r}")
    return found
