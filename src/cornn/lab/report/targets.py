"""Higher figures at the paper's size: what we aim at, and what the records say of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cornn.lab.report import tables
from cornn.lab.report.tables import Reached

__all__ = ["AIMS", "WINDOWS", "Aim", "Standing", "read"]

WINDOWS = {"validation": "random", "test": "windows"}
"""Options of HAR-2 as the paper's figures suggest them."""
AUGMENTED = ("shift", "warp", "mirror", "jitter", "drop_words")
"""Options of tasks that change training sequences alone: a recipe of ours may have them."""


class Aim(NamedTuple):
    """A figure to reach with one layer of so many neurons."""

    task: str
    units: int
    figure: float  # the least, or of Lorenz-96 the most
    case: str = ""  # what is not as usual in the task, in words
    options: Mapping[str, Any] = MappingProxyType({})  # and as its options
    ours: Mapping[str, Any] = MappingProxyType({})  # options besides, of our recipe alone

    @property
    def title(self) -> str:
        return f"{self.task} ({self.case})" if self.case else self.task

    @property
    def words(self) -> str:
        return f"{'below' if self.task == 'lorenz96' else 'at least'} {self.figure:g}"


PERMUTED = ("a permutation a seed", {"permutation": "own"})
AIMS = (
    Aim("smnist", 256, 99.5),
    Aim("psmnist", 256, 98.0),
    Aim("psmnist", 256, 98.0, *PERMUTED),
    Aim("psmnist", 128, 97.4),
    Aim("psmnist", 128, 97.4, *PERMUTED),
    Aim("noisy-cifar10", 128, 62.0, ours={"standard": True}),
    Aim("har2", 64, 97.5, "windows at random", WINDOWS),
    Aim("har2", 20, 96.8, "windows at random", WINDOWS),
    Aim("imdb", 128, 88.5, ours={"read_at": "end", "lower": True, "validation": 500}),
    Aim("lorenz96", 64, 0.068),
)


@dataclass(frozen=True)
class Standing:
    """An aim beside what the records say."""

    aim: Aim
    ours: tuple[Reached, ...]  # by our recipes: as they are before changed ones, and the best by validation first
    first: Reached | None  # by the task's first recipe

    @property
    def best(self) -> Reached | None:
        """What is held against the aim."""
        return self.ours[0] if self.ours else self.first

    @property
    def verdict(self) -> str:
        """Whether the aim is reached. A figure that is rounded up to it is not one that reaches it."""
        best, figure = self.best, self.aim.figure
        if best is None:
            return "not run"
        if best.mean >= figure if best.better == "higher" else best.mean <= figure:
            return "yes"
        if float(best.number(best.mean)) != figure:
            return "no"
        shown = (f"{best.mean:.{digits}f}" for digits in range(3, 16))
        return f"no: {next(text for text in shown if float(text) != figure)}"


def read(results: Path) -> list[Standing]:
    """All aims."""
    return [_standing(results, aim) for aim in AIMS]


def _standing(results: Path, aim: Aim) -> Standing:
    found = [
        one
        for one in tables.reached(results, aim.task)
        if one.records and (one.model, one.units) == ("cornn", aim.units)
    ]
    first = [one for one in found if not one.settings and one.options == aim.options]
    return Standing(aim, tuple(_ours(found, aim)), first[0] if first else None)


def _ours(found: list[Reached], aim: Aim) -> list[Reached]:
    def is_meant(one: Reached) -> bool:
        task = {name: value for name, value in one.options.items() if name not in AUGMENTED}
        return str(one.settings.get("recipe", "")).startswith("better") and task == {**aim.options, **aim.ours}

    def place(one: Reached) -> tuple[bool, float]:
        return one.settings.keys() == {"recipe"}, one.validation if one.better == "higher" else -one.validation

    return sorted(filter(is_meant, found), key=place, reverse=True)
