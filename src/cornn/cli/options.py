"""The options of `cornn train` and `cornn search`, in groups: of the task, the recipe and the run."""

import argparse
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

from cornn._arguments import ArgumentError, Setting
from cornn._json import read_json
from cornn.cli.parsing import make_option, parse
from cornn.lab.config import CoRNNSpec, Train, from_dictionary
from cornn.lab.recipes import RECIPES, resolve

MAIN = ("hidden_size", "num_layers", "learning_rate", "batch_size", "steps", "epochs", "seed", "device", "data")
"""Settings of the first panel, before the options of the command itself."""

GROUPS = {
    "oscillator": (
        "Constants and initial weights of the recurrent layer.",
        ("dt", "gamma", "epsilon", "half_lives", "periods", "damping", "trainable", "init", "centre", "layer"),
    ),
    "optimisation": (
        "Optimiser, learning-rate schedule and selection of the weights.",
        (
            *("optimiser", "beta1", "beta2", "weight_decay", "clip", "schedule", "warm_up", "drop_after", "drop_to"),
            *("recurrent_rate", "rates_by_length", "rebase_every", "adversarial", "ema", "keep", "until"),
        ),
    ),
    "run": (
        "How the run is executed.",
        ("evaluate_every", "save_every", "theory", "backend", "autocast", "devices"),
    ),
}
"""Panel -> description and settings."""

RENAMED = {"optimiser": ("optimiser", "name"), "layer": ("model", "constants")}
"""Option -> part and field, where they differ."""


class Start(NamedTuple):
    """The configuration that the other options override, and the options that selected it."""

    config: Train
    recipe: str | None
    model: str | None
    file: Path | None


def choose_start(prog: str, task: str, arguments: Sequence[str], recipe: str | None = None) -> tuple[Start, list[str]]:
    """Parse the options that the defaults of all others depend on: --recipe, --model and --config.

    Args:
        prog: The program's name in error messages.
        task: The task.
        arguments: The words after the task.
        recipe: The recipe without --recipe; None for the task's first.

    Returns:
        The start, and the other words.
    """
    parser = argparse.ArgumentParser(prog, add_help=False, allow_abbrev=False, exit_on_error=False)
    for option in ("--recipe", "--model", "--config"):
        parser.add_argument(option)
    try:
        options, rest = parser.parse_known_args(arguments)
    except argparse.ArgumentError as error:
        raise ValueError(f"{error}; `{prog} --help` shows the options") from None
    model = {} if options.model is None else {"model": options.model}
    if options.config is None:
        config = resolve(task, options.recipe or recipe, **model)
        return Start(config, options.recipe, options.model, None), rest
    if options.recipe is not None:
        raise ValueError("--config replaces --recipe: use one of them")
    file = Path(options.config)
    if not file.exists():
        raise FileNotFoundError(f"{file} does not exist: --config takes a configuration such as RUN/config.json")
    content = read_json(file)
    try:
        config = from_dictionary(content)
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from error
    if config.task.name != task:
        raise ValueError(f"{file} is for the task {config.task.name}, not for {task}")
    return Start(config.override(**model), options.recipe, options.model, file), rest


def parse_train(
    command: type, prog: str, arguments: Sequence[str], start: Start, hidden: Sequence[str] = ()
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse the arguments of a command that trains.

    Args:
        command: The dataclass of the command. Its fields, but for the hidden ones, become options too.
        prog: The program's name in the help.
        arguments: The words after the task, without those that chose the start.
        start: The configuration whose settings the help shows.
        hidden: Fields of the command that are not options.

    Returns:
        The overrides of the configuration, and the values of the command's fields.
    """
    base = start.config
    _reject_settings_of_other_models(base, arguments)
    simple: list[tuple[str, Any, Any]] = _choices(start)
    simple += [option for name in MAIN if (option := _setting(base, name)) is not None]
    panels: list[tuple[str, Any, Any]] = []
    task = [_setting(base, setting.name) for setting in fields(base.task)]
    for group, about, options in [
        ("task", inspect.getdoc(type(base.task)), task),
        *((group, about, [_setting(base, name) for name in names]) for group, (about, names) in GROUPS.items()),
    ]:
        if known := [option for option in options if option is not None]:
            panel = make_dataclass(group, known, namespace={"__doc__": about})
            panels.append((group, panel, field(default_factory=panel)))
    groups = [group for group, _, _ in panels]
    command_fields = [item for item in fields(command) if item.name not in hidden]
    for item in command_fields:
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        option = make_option(command, item.name, default)
        (panels if is_dataclass(default) else simple).append(option)
    options = parse(
        make_dataclass("Options", simple + panels), prog, arguments, description=_description(command, base)
    )
    overrides: dict[str, Any] = {}
    for source in (options, *(getattr(options, group) for group in groups)):
        for item in fields(source):
            location, value = _find(base, item.name), getattr(source, item.name)
            unchanged = location is None or value is None or (isinstance(value, bool) and value == getattr(*location))
            overrides |= {} if unchanged else {item.name: value}
    return overrides, {item.name: getattr(options, item.name) for item in command_fields}


def _reject_settings_of_other_models(base: Train, arguments: Sequence[str]) -> None:
    settings = {item.name for item in fields(CoRNNSpec)} | {"layer"}
    for word in arguments:
        name = word.removeprefix("--").removeprefix("no-").partition("=")[0].replace("-", "_")
        if word.startswith("--") and name in settings and _find(base, name) is None:
            owner, model = "a rival" if name == "layer" else "cornn", base.model.name
            raise ArgumentError(Setting(name), f" is an option of {owner}, the model is {model}: leave it out")


def _choices(start: Start) -> list[tuple[str, Any, Any]]:
    """Return the options that chose the start, for the help."""
    return [
        make_option(Choices, "recipe", None, default_shown=start.config.recipe),
        make_option(Choices, "model", None, default_shown=start.config.model.name),
        make_option(Choices, "config", None, default_shown=start.file),
    ]


class Choices:
    """The options that the defaults of the others depend on."""

    recipe: str | None
    """The recipe that sets the defaults of all other options."""
    model: str | None
    """Recurrent layer: cornn, lstm, gru, rnn, or another model of docs/rivals.md, such as fastgrnn."""
    config: Path | None
    """A configuration such as the config.json of a run folder, in place of a recipe. Other options override it."""


def _find(config: Train, name: str) -> tuple[Any, str] | None:
    """Return the part of the configuration that has a setting, and the name of the field; None without one."""
    part, attribute = RENAMED.get(name, (None, name))
    parts = ("model", "optimiser", "budget", "place", "task") if part is None else (part,)
    for owner in (config, *(getattr(config, name_of_part) for name_of_part in parts)):
        if attribute in {item.name for item in fields(owner)} and not is_dataclass(getattr(owner, attribute)):
            return owner, attribute
    return None


def _setting(config: Train, name: str) -> tuple[str, Any, Any] | None:
    """Return an option for a setting; None if the configuration has no such setting.

    The option is None unless the user gives it, but a flag has its present value. The help shows the present value.
    """
    location = _find(config, name)
    if location is None:
        return None
    owner, attribute = location
    value = getattr(owner, attribute)
    if isinstance(value, bool):
        return make_option(type(owner), attribute, value, pairs=True)
    hint = Union[_without_ranges(get_type_hints(type(owner), include_extras=True)[attribute]), None]  # noqa: UP007
    return name, *make_option(type(owner), attribute, None, hint=hint, default_shown=value)[1:]


def _without_ranges(hint: Any) -> Any:
    """Return a type hint without its ranges."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _without_ranges(parts[0])
    if origin is tuple:
        return tuple[tuple(part if part is Ellipsis else _without_ranges(part) for part in parts)]  # pyright: ignore
    is_single = origin not in (Union, UnionType)
    return hint if is_single else Union[tuple(_without_ranges(part) for part in parts)]  # noqa: UP007  # pyright: ignore


def _description(command: type, base: Train) -> str:
    recipes: Mapping[str, Any] = RECIPES[base.task.name]
    text = f"{inspect.getdoc(command)}\n\n{inspect.getdoc(base.task)}"
    if base.recipe in recipes:
        text += f"\n\nRecipe {base.recipe}: {recipes[base.recipe].source}."
    others = [name for name in recipes if name != base.recipe]
    return text + (f" Other recipes: {', '.join(others)}." if others else "")
