"""The configuration of a training run: task, model, optimiser and budget.

Each part validates itself when it is created. `Train.override` is the one place where settings are changed, under the
names of the command line; `cornn.lab.recipes.resolve` starts from a recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal

from cornn._arguments import ArgumentError, Setting, choose
from cornn._checked import (
    Checked,
    Count,
    Natural,
    NotNegative,
    Positive,
    Range,
    Share,
    convert,
    decode,
    encode,
    without_defaults,
)
from cornn._json import naming
from cornn.artifacts import CONFIG, RunArtifact
from cornn.baselines import MODELS
from cornn.lab.model_specs import (
    ALTERNATIVES,
    CoRNNSpec,
    RivalSpec,
    Spec,
    check_alternatives,
    spec_type,
)
from cornn.lab.rivals import RIVALS
from cornn.lab.tasks import TASKS, TaskOptions

BETAS = {"adam": (0.9, 0.999), "rmsprop": (0.0, 0.99)}
"""Optimiser -> default beta1 and beta2, as in PyTorch."""


@dataclass(frozen=True)
class Optimiser(Checked):
    """How the weights are trained."""

    learning_rate: Positive
    """Adam's learning rate, or that of another --optimiser."""
    name: Literal["adam", "rmsprop"] = "adam"
    """Optimiser: adam, or rmsprop, which has no first moment and no bias correction."""
    beta1: Share = 0.9
    """Decay rate of Adam's first moment. 0 for RMSprop."""
    beta2: Share = 0.999
    """Decay rate of the second moment; PyTorch calls it alpha for RMSprop."""
    weight_decay: NotNegative = 0.0
    """Decoupled weight decay, as in AdamW."""
    clip: NotNegative = 0.0
    """Maximum norm of the gradient. 0: no clipping."""
    schedule: Literal["constant", "cosine", "drop"] = "constant"
    """Learning-rate schedule: constant, cosine decay to 0, or one drop by the factor --drop-to after --drop-after
    epochs."""
    warm_up: Natural = 0
    """Number of steps over which the learning rate rises linearly to its value."""
    drop_after: Natural = 0
    """Epochs before the drop, or steps if the length of training is given in steps."""
    drop_to: NotNegative = 0.1
    """Factor by which the drop multiplies the learning rate."""
    recurrent_rate: NotNegative = 1.0
    """Learning rate of the recurrent weights W and W_z, relative to that of the other weights."""
    rates_by_length: tuple[NotNegative, NotNegative, NotNegative] | None = None
    """Learning rates of V, of b, and of W and W_z, relative to that of the head and multiplied by the sequence length:
    the longer the sequence, the more a small change of these weights moves the last state."""
    rebase_every: Natural = 0
    """DTRIV only: number of steps between changes of its base point. 0: never, which is DTRIV∞."""
    adversarial: NotNegative = 0.0
    """Norm of the adversarial perturbation of the embedded words of a sequence, on which half of the loss is computed.
    For tasks of words; a step has two forward and three backward passes. 0: no perturbation."""
    ema: Share = 0.0
    """Decay rate of an exponential moving average of the weights, which is evaluated in their place. 0: no average."""

    def check(self) -> None:
        if self.name == "rmsprop" and self.beta1:
            problem = f" is {self.beta1}: use "
            raise ArgumentError("RMSprop has no first moment, but ", Setting("beta1"), problem, Setting("beta1", 0))
        if self.rebase_every and self.ema:
            problem = " changes the base point of the weights, so they cannot be averaged: use "
            raise ArgumentError(Setting("rebase_every"), problem, Setting("ema", 0))
        if (self.schedule == "drop") != (self.drop_after > 0):
            after = Setting("drop_after")
            raise ArgumentError(
                *("the schedule drop needs ", after, ", and ", after, " the schedule drop: give both or neither")
            )


@dataclass(frozen=True)
class Budget(Checked):
    """How long a run trains, and which weights it keeps. Exactly one of `steps` and `epochs` is given."""

    batch_size: Count
    """Number of sequences per training step."""
    steps: Count | None = None
    """Maximum number of training steps. Replaces epochs."""
    epochs: Count | None = None
    """Maximum number of passes over the training split. Replaces steps."""
    evaluate_every: Natural = 0
    """Steps between evaluations. 0: one per epoch, or every 100 steps if the length of training is given in steps."""
    keep: Literal["best", "last"] = "best"
    """Which weights are kept and tested: those with the best validation metric, or the last ones."""
    until: float = 0.0
    """Stop when the validation metric reaches this value. 0: train to the end."""

    def check(self) -> None:
        check_alternatives(self, "how long to train")


@dataclass(frozen=True)
class Place(Checked):
    """Where and how a run is executed. It does not affect the result, up to rounding."""

    backend: str = "auto"
    """Backend of the recurrence. `cornn doctor` lists them."""
    device: Literal["auto", "cpu", "cuda"] = "auto"
    """Device: auto, cpu or cuda."""
    devices: Annotated[int, Range(0, 1024, above=True)] = 1
    """Number of processes that share each batch, one per device. torchrun sets it itself."""
    data: str | None = None
    """The data folder. Default: CORNN_DATA, or data/."""
    save_every: NotNegative = 10.0
    """Seconds between checkpoints."""


@dataclass(frozen=True)
class Train(Checked):
    """The configuration of a training run."""

    task: TaskOptions
    model: Spec
    optimiser: Optimiser
    budget: Budget
    recipe: str = "ours"
    """The recipe that the configuration started from."""
    seed: Annotated[int, Range(0, 2**63 - 1)] = 0
    """Random seed. The same seed, device and version give the same result."""
    autocast: bool = False
    """Train under torch.autocast: in bfloat16 outside the recurrence and, on a GPU with 512 or more sequences per
    batch, in its matrix products."""
    theory: bool = False
    """At every evaluation, record which hypotheses of the theory the layer meets, its energy, and how its gradients
    decay with the lag, for `cornn figure assumptions`."""
    place: Place = Place()

    def check(self) -> None:
        name = self.model.name
        if self.task.endless and self.budget.steps is None:
            problem = f"{self.task.name} draws new sequences at every step and has no epochs: give "
            raise ArgumentError(problem, Setting("steps"), " instead")
        if self.theory and not isinstance(self.model, CoRNNSpec):
            raise ArgumentError(
                Setting("theory"), f" needs the model cornn, got {name}: use ", Setting("theory", False)
            )
        if self.optimiser.rates_by_length is not None and not isinstance(self.model, CoRNNSpec):
            raise ArgumentError(Setting("rates_by_length"), f" is for coRNN, the model is {name}: leave it out")
        if self.optimiser.adversarial and not self.task.embedded:
            problem = f" perturbs embedded words, and the inputs of {self.task.name} are numbers: use "
            raise ArgumentError(Setting("adversarial"), problem, Setting("adversarial", 0))
        if self.optimiser.rebase_every and name != "dtriv":
            raise ArgumentError(Setting("rebase_every"), f" is for dtriv, the model is {name}: leave it at 0")

    def override(self, **changes: Any) -> Train:
        """Return the configuration with other settings.

        Args:
            changes: Settings by the names of the command-line options: fields of any part; `model`, a name whose
                published values replace the current ones; `optimiser`, a name, which also sets the default betas;
                `layer`, constants of a rival. One of several alternatives, such as `steps`, unsets the others.
        """
        start = self if "model" not in changes else _with_model(self, changes.pop("model"))
        parts: dict[str, dict[str, Any]] = {"task": {}, "model": {}, "optimiser": {}, "budget": {}, "place": {}}
        own_settings: dict[str, Any] = {}
        for names in ALTERNATIVES.values():
            if any(changes.get(name) is not None for name in names):
                changes = {name: None for name in names if start._find_part(name)} | changes
        for name, value in changes.items():
            if name in TOP_LEVEL:
                own_settings[name] = value
            elif name == "optimiser":
                choose(name, value, BETAS)
                parts[name] = _default_betas(start.optimiser, value) | {"name": value} | parts[name]
            elif name == "layer" and isinstance(start.model, RivalSpec):
                parts["model"]["constants"] = {**start.model.constants, **(value or {})}
            elif name != "layer" or value:
                parts[start._find_part(name) or start._unknown(name)][name] = value
        return replace(
            start, **own_settings, **{part: replace(getattr(start, part), **new) for part, new in parts.items() if new}
        )

    def _find_part(self, setting: str) -> str | None:
        """Return the name of the part that has this setting."""
        for part in ("model", "optimiser", "budget", "place", "task"):
            names = {field.name for field in fields(getattr(self, part))} - {"name", "constants"}
            if setting in names:
                return part
        return None

    def _unknown(self, setting: str) -> str:
        """Raise an error for a setting that no part has."""
        if setting == "layer" or setting in {field.name for field in fields(CoRNNSpec)}:
            kind = "a rival" if setting == "layer" else "cornn"
            problem = f" is a setting of {kind}, the model is {self.model.name}: leave it out"
            raise ArgumentError(Setting(setting), problem)
        raise ValueError(f"the task {self.task.name} has no setting {setting!r}: leave it out")


TOP_LEVEL = ("recipe", "seed", "autocast", "theory")
"""Fields of `Train` that are settings themselves."""


def _default_betas(before: Optimiser, name: str) -> dict[str, float]:
    """Return the default betas of another optimiser; none if it is the same one."""
    if name == before.name:
        return {}
    return dict(zip(("beta1", "beta2"), BETAS[name], strict=True))


def _with_model(config: Train, name: str) -> Train:
    """Return the configuration with another model and its published settings."""
    model_before = config.model
    if choose("model", name, MODELS) == model_before.name:
        return config
    kind: Any = spec_type(name)
    if kind is CoRNNSpec:
        raise ValueError(
            f"the recipe {config.recipe} is for {model_before.name} and has no constants of coRNN: use another"
        )
    published = dict(RIVALS[name].settings) if name in RIVALS else {}
    layers = published.pop("num_layers", model_before.num_layers)
    settings = {"recurrent_rate": 1.0, "rates_by_length": None, **published}
    if "optimiser" in settings:
        settings["name"] = settings.pop("optimiser")
        settings |= _default_betas(config.optimiser, settings["name"])
    model = kind(name, hidden_size=model_before.hidden_size, num_layers=layers)
    return replace(config, model=model, optimiser=replace(config.optimiser, **settings))


def as_dictionary(config: Train) -> dict[str, Any]:
    """Convert a configuration to the content of config.json. `from_dictionary` is the inverse."""
    content = encode(config)
    content["task"] = {"name": config.task.name, **content["task"]}
    content["model"] = {"name": config.model.name, **content["model"]}
    return content


def from_dictionary(content: Any) -> Train:
    """Convert the content of config.json to a configuration. Missing settings have their defaults."""
    if not isinstance(content, Mapping):
        raise ValueError(f"not a configuration: expected an object, got {type(content).__name__}")
    if "settings" in content:
        content = _convert_0_1(content)
    content = _with_current_names(content)
    for name in ("task", "model", "optimiser", "budget"):
        if not isinstance(content.get(name), Mapping):
            raise ValueError(f"not a configuration: it has no {name!r}")
    task, model = dict(content["task"]), dict(content["model"])
    options = TASKS[choose("task", task.pop("name", None), TASKS)]
    kind = spec_type(model.get("name", ""))
    if kind is CoRNNSpec:
        del model["name"]
    own_settings = {name: value for name, value in content.items() if name in TOP_LEVEL}
    return Train(
        decode(options, task, f"the task {options.name}"),
        decode(kind, model, "the model"),
        decode(Optimiser, content["optimiser"], "the optimiser"),
        decode(Budget, content["budget"], "the budget"),
        **own_settings,
        place=decode(Place, content.get("place", {}), "the place"),
    )


def read_run_config(run: RunArtifact) -> Train:
    """Return the configuration of a run folder; an error names the file."""
    content = run.config
    with naming(run.path / CONFIG):
        return from_dictionary(content)


def _convert_0_1(content: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a configuration of version 0.1, whose settings are in one object."""
    settings, model = content["settings"], content.get("model", "cornn")
    if not isinstance(settings, Mapping) or not isinstance(content.get("task"), Mapping):
        raise ValueError("not a configuration: `task` and `settings` must be objects")

    def take(kind: type, source: Mapping[str, Any], **others: str) -> dict[str, Any]:
        names = {others.get(field.name, field.name): field.name for field in fields(kind)}
        return {new: source[old] for old, new in names.items() if old in source}

    kind = spec_type(model)
    settings_of_0_1 = {"optimiser", *(field.name for part in (CoRNNSpec, Optimiser, Budget) for field in fields(part))}
    for name in settings:
        if name not in settings_of_0_1:
            raise ValueError(f"a recipe has no setting {name!r}: it has {', '.join(sorted(settings_of_0_1))}")
    spec = {**take(kind, settings), "name": model}
    if kind is RivalSpec:
        spec["constants"] = content.get("layer") or {}
    elif content.get("layer"):
        raise ValueError(f"layer is a setting of a rival, the model is {model}: leave it out")
    return {
        "task": {"name": content.get("task_name"), **content["task"]},
        "model": spec,
        "optimiser": take(Optimiser, settings, name="optimiser"),
        "budget": {**take(Budget, settings), **take(Budget, content)},
        "place": take(Place, content, save_every="checkpoint_every"),
        **{name: content[name] for name in (*TOP_LEVEL, "precision") if name in content},
    }


def _with_current_names(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a configuration with `autocast` and `save_every` under their current names.

    They were `precision` and `checkpoint_every`, which mean something else in a layer.
    """
    content, place = dict(content), content.get("place", {})
    if "precision" in content:
        content["autocast"] = convert(Literal["fp32", "mixed"], content.pop("precision"), "precision") == "mixed"
    if isinstance(place, Mapping) and "checkpoint_every" in place:
        rest = {name: value for name, value in place.items() if name != "checkpoint_every"}
        content["place"] = {"save_every": place["checkpoint_every"], **rest}
    return content


def flat_settings(config: Train) -> dict[str, Any]:
    """Return the settings of the model, the optimiser and the budget by the names of the command-line options."""
    parts = (config.model, config.budget, config.optimiser)
    values = {field.name: getattr(part, field.name) for part in parts for field in fields(part)}
    del values["name"]
    return values | {"optimiser": config.optimiser.name}


def canonical(config: Train) -> dict[str, Any]:
    """Return what affects the result, without values equal to their defaults.

    A new setting with a default leaves it unchanged; so does a change of the recipe's name or of the place.
    """
    parts = {name: without_defaults(getattr(config, name)) for name in ("task", "model", "optimiser", "budget")}
    parts["task"]["name"], parts["model"]["name"] = config.task.name, config.model.name
    run = without_defaults(config)
    if run.pop("autocast", False):
        run["precision"] = "mixed"  # records are identified by this name
    return parts | {name: run[name] for name in ("seed", "precision", "theory") if name in run}


def differences(before: Train, now: Train) -> list[str]:
    """List the settings that affect the result and differ between two configurations."""
    names = ("task", "model", "optimiser", "budget", "seed", "autocast", "theory")
    old, new = ({name: as_dictionary(config)[name] for name in names} for config in (before, now))
    return list_changes(old, new)


def list_changes(before: dict[str, Any], now: dict[str, Any], at: str = "") -> list[str]:
    """List what differs between two nested dictionaries."""
    changes = []
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            changes += list_changes(old, new, f"{at}{name}.")
        elif _as_lists(old) != _as_lists(new):
            changes.append(f"{at}{name} was {_describe_value(before, name)}, is {_describe_value(now, name)}")
    return changes


def _describe_value(values: dict[str, Any], name: str) -> str:
    """Return a value in words. Settings with default values are left out of what experiments store."""
    return repr(values[name]) if name in values else "its default"


def _as_lists(value: Any) -> Any:
    return [_as_lists(part) for part in value] if isinstance(value, list | tuple) else value
