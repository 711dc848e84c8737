"""Improved recipes at the paper's size: our targets, and the results of the records."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from cornn.lab import records
from cornn.lab.recipes import WINDOWS
from cornn.lab.report import tables
from cornn.lab.report.tables import RunGroup

AUGMENTED = ("shift", "warp", "mirror", "cutout", "jitter", "rotate", "scale", "stretch", "drop_words")
"""Task options that change only the training sequences. An improved recipe may use them."""


class Target(NamedTuple):
    """A result to reach with one layer of `units` neurons."""

    task: str
    units: int
    value: float  # a lower bound; for Lorenz-96 an upper bound
    case: str = ""  # how the task differs from its default
    options: Mapping[str, Any] = MappingProxyType({})  # the same, as task options
    ours: Mapping[str, Any] = MappingProxyType({})  # further task options of our recipe
    better: Literal["higher", "lower"] = "higher"

    @property
    def title(self) -> str:
        return f"{self.task} ({self.case})" if self.case else self.task

    @property
    def requirement(self) -> str:
        return f"{'below' if self.better == 'lower' else 'at least'} {self.value:g}"


PERMUTED = ("one permutation per seed", {"permutation": "own"})
TARGETS = (
    Target("smnist", 256, 99.5),
    Target("psmnist", 256, 98.0),
    Target("psmnist", 256, 98.0, *PERMUTED),
    Target("psmnist", 128, 97.4),
    Target("psmnist", 128, 97.4, *PERMUTED),
    Target("noisy-cifar10", 128, 62.0, ours={"whiten": 0.3}),
    Target("har2", 64, 97.5, "random windows", WINDOWS),
    Target("har2", 20, 96.8, "random windows", WINDOWS),
    Target("imdb", 128, 88.5, ours={"read_at": "end", "lower": True, "validation": 500}),
    Target("lorenz96", 64, 0.068, better="lower"),
)


@dataclass(frozen=True)
class TargetStatus:
    """A target, and the runs that it is compared with."""

    target: Target
    ours: tuple[RunGroup, ...]  # of our recipes: unchanged ones first, then by validation
    first: RunGroup | None  # of the task's default recipe

    @property
    def best(self) -> RunGroup | None:
        """The runs that are compared with the target."""
        return self.ours[0] if self.ours else self.first

    @property
    def verdict(self) -> str:
        """Whether the target is met. A mean that only rounds up to the target does not meet it."""
        best, value = self.best, self.target.value
        if best is None:
            return "not run"
        if best.mean >= value if best.better == "higher" else best.mean <= value:
            return "yes"
        if float(best.number(best.mean)) != value:
            return "no"
        roundings = (f"{best.mean:.{digits}f}" for digits in range(3, 16))
        return f"no: {next(text for text in roundings if float(text) != value)}"


def read(results: records.Results) -> list[TargetStatus]:
    """Return the status of all targets."""
    return [_status(results, target) for target in TARGETS]


def _status(results: records.Results, target: Target) -> TargetStatus:
    groups = [
        group
        for group in tables.group_runs(results, target.task)
        if group.records and (group.model, group.units) == ("cornn", target.units)
    ]
    first = [group for group in groups if not group.settings and group.options == target.options]
    return TargetStatus(target, tuple(_rank_ours(groups, target)), first[0] if first else None)


def _rank_ours(groups: list[RunGroup], target: Target) -> list[RunGroup]:
    def is_meant(group: RunGroup) -> bool:
        task = {name: value for name, value in group.options.items() if name not in AUGMENTED}
        return group.origin == "better" and task == {**target.options, **target.ours}

    def place(group: RunGroup) -> tuple[bool, float]:
        return group.settings.keys() == {"recipe"}, group.validation if group.better == "higher" else -group.validation

    return sorted(filter(is_meant, groups), key=place, reverse=True)
