"""Search ranges of `cornn compare`: the learning rate and clipping of every model, and each model's own settings."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from cornn.baselines import MODELS
from cornn.lab.recipes.paper import RANGES

DIGITS = 4
"""Significant digits of a drawn value, so that a record stores it exactly."""


@dataclass(frozen=True)
class Between:
    """A range of numbers, drawn log-uniformly, or uniformly if `uniform`."""

    low: float
    high: float
    uniform: bool = False

    def __post_init__(self) -> None:
        ends = f"got {self.low:g} and {self.high:g}"
        if not (math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high):
            raise ValueError(f"a range must be two finite numbers, the lowest first, {ends}")
        if not self.uniform and self.low <= 0:
            raise ValueError(f"a range that is drawn log-uniformly must lie above 0, {ends}")

    def draw(self, random: torch.Generator) -> float:
        share = torch.rand((), generator=random, dtype=torch.float64).item()
        low, high = self.low, self.high
        return float(f"{low + share * (high - low) if self.uniform else low * (high / low) ** share:.{DIGITS}g}")

    def distributions(self, name: str) -> "list[tuple[str, Between | tuple]]":
        """Return the name and the range of each number, for Optuna's tools."""
        return [(name, self)]

    def __str__(self) -> str:
        return f"{self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class OneOf:
    """A choice between values, all equally likely."""

    values: tuple[Any, ...]

    def draw(self, random: torch.Generator) -> Any:
        return self.values[int(torch.randint(len(self.values), (), generator=random))]

    def distributions(self, name: str) -> list[tuple[str, Between | tuple]]:
        return [(name, self.values)]

    def __str__(self) -> str:
        return " or ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in self.values)


@dataclass(frozen=True)
class Pair:
    """Two numbers, each from its own range."""

    first: Between
    second: Between

    def draw(self, random: torch.Generator) -> tuple[float, float]:
        return self.first.draw(random), self.second.draw(random)

    def distributions(self, name: str) -> list[tuple[str, Between | tuple]]:
        return [(f"{name}_1", self.first), (f"{name}_2", self.second)]

    def __str__(self) -> str:
        return f"({self.first}, {self.second})"


Draw = Between | OneOf | Pair


@dataclass(frozen=True)
class Entrant:
    """A model in a comparison, and its tuned settings."""

    model: str
    settings: Mapping[str, Draw] = field(default_factory=dict)
    """Tuned settings of the recipe, in addition to the common ones."""
    layer: Mapping[str, Draw] = field(default_factory=dict)
    """Tuned options of the layer."""
    start: Literal["usual", "memory", "ringing"] = "usual"
    """The recipe that it starts from: the common one of the task, ours for long memory, or ours with oscillations."""
    variant: str = ""
    """What distinguishes it from other entrants with the same model, in words."""

    @property
    def title(self) -> str:
        """The display name."""
        return MODELS[self.model].title + (f", {self.variant}" if self.variant else "")


TUNED = {"learning_rate": Between(1e-4, 3e-2), "clip": OneOf((0.0, 1.0))}
"""Tuned for every model."""

_STEP = {"epsilon": Between(1e-3, 1.0), "gamma": Between(1e-3, 1.0)}
_ORTHOGONAL = {"settings": {"recurrent_rate": Between(1e-2, 1.0)}, "layer": {"init": OneOf(("henaff", "cayley"))}}

ENTRANTS = {
    "cornn": Entrant("cornn"),
    "cornn-memory": Entrant(
        "cornn",
        {"half_lives": Pair(Between(1e-2, 1.0), Between(1.0, 100.0))},
        start="memory",
        variant="long memory",
    ),
    "cornn-ringing": Entrant(
        "cornn",
        {"recurrent_rate": Between(3e-2, 1.0), "clip": OneOf((0.1, 1.0))},
        start="ringing",
        variant="underdamped",
    ),
    "lstm": Entrant("lstm"),
    "gru": Entrant("gru"),
    "tanh-rnn": Entrant("tanh-rnn"),
    "fastrnn": Entrant("fastrnn", layer={"alpha": Between(-8, -1, uniform=True), "beta": Between(1, 8, uniform=True)}),
    "antisymmetric": Entrant("antisymmetric", layer=_STEP),
    "exprnn": Entrant("exprnn", **_ORTHOGONAL),
    "lem": Entrant("lem", layer={"dt": Between(1e-3, 1.0)}),
    "fastgrnn": Entrant("fastgrnn", layer={"zeta": Between(-2, 3, uniform=True), "nu": Between(-8, -1, uniform=True)}),
    "gated-antisymmetric": Entrant("gated-antisymmetric", layer=_STEP),
    "lipschitz": Entrant("lipschitz", layer={"epsilon": Between(1e-3, 1.0), "beta": Between(0.5, 1.0, uniform=True)}),
    "dtriv": Entrant("dtriv", **_ORTHOGONAL),
    "skip-lstm": Entrant("skip-lstm"),
    "skip-gru": Entrant("skip-gru"),
    "relu-gru": Entrant("relu-gru"),
    "incremental": Entrant("incremental"),
    "unitary": Entrant("unitary"),
    # dt**2 * (alpha + 1) stays below 3.6, where it diverges.
    "unicornn": Entrant("unicornn", layer={"dt": Between(1e-2, 0.3), "alpha": Between(0.5, 35.0)}),
    "linoss": Entrant("linoss", layer={"discretisation": OneOf(("implicit", "imex"))}),
    "d-linoss": Entrant("d-linoss"),
    # With spread 2, 2 * omega stays below 2, where it diverges.
    "horn": Entrant(
        "horn",
        layer={"omega": Between(1e-2, 0.8), "gamma": Between(1e-4, 0.1), "alpha": Between(1e-2, 1.0)},
    ),
}
"""Name -> entrant, in the order of the tables' rows."""


def space(task: str, name: str) -> dict[str, Draw]:
    """Return the search space of an entrant on a task; for coRNN the one of the paper's search."""
    entrant = ENTRANTS[name]
    draws: dict[str, Draw] = {**entrant.settings, **entrant.layer}
    if entrant.model == "cornn" and entrant.start == "usual":
        draws |= {constant: Between(*RANGES[task][constant]) for constant in ("dt", "gamma", "epsilon")}
    return {**TUNED, **draws}
