"""The tables of higher figures at the paper's size: aims, what was reached, and how the recipes were chosen."""

import json
import statistics
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cornn.lab import records
from cornn.lab.recipes import RECIPES
from cornn.lab.report import tables, targets
from cornn.lab.report.tables import Reached
from cornn.lab.report.targets import WINDOWS

RESULTS = Path(__file__).resolve().parents[1] / "results"


def _shown(one: Reached | None) -> str:
    """Mean and seeds of the runs, or that there is none."""
    if one is None:
        return "not run"
    return f"{one.summary} ({len(one.tests)} seed{'s' if len(one.tests) > 1 else ''})"


def aims(results: Path = RESULTS) -> str:
    """Each aim beside what our recipe and what the paper's values reach."""
    lines = [
        "| task | neurons | aim | our recipe | first recipe | reached |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for one in targets.read(results):
        figures = " | ".join((_shown(one.ours[0] if one.ours else None), _shown(one.first), one.verdict))
        lines.append(f"| {one.aim.title} | {one.aim.units} | {one.aim.words} | {figures} |")
    return "\n".join(lines)


def longer(results: Path = RESULTS) -> str:
    """What recipes of ours reached in other numbers of epochs than they have."""
    lines = [
        "| task | neurons | epochs | validation, mean | test, mean ± deviation | seeds |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for standing in targets.read(results):
        runs = {one.records[0]["config"]["settings"]["epochs"]: one for one in standing.ours}
        for epochs, one in sorted(runs.items()) if len(runs) > 1 else ():
            figures = f"{epochs} | {one.number(one.validation)} | {one.summary} | {len(one.tests)}"
            lines.append(f"| {standing.aim.title} | {standing.aim.units} | {figures} |")
    return "\n".join(lines)


class Search(NamedTuple):
    """Runs that a recipe was chosen by, as a table of what each changed."""

    task: str
    base: str  # the recipe that they are held against
    shared: Mapping[str, Any] = MappingProxyType({})  # settings and options that most have, which are not named
    holding: bool | None = False  # the runs with `half_lives` alone, or those without, or None for both
    by_film: bool = False  # the runs of IMDB with that validation, or those without


UNNAMED = ("epochs", "steps", "keep")
"""Settings that have a column of their own, or are no matter to validation."""


def _changes(config: dict[str, Any], asked: Search) -> str:
    changed = records.changed_settings(config | {"recipe": asked.base}) | records.changed_options(config)
    changed = {name: value for name, value in changed.items() if name not in UNNAMED}
    own = {name: value for name, value in changed.items() if name not in asked.shared or value != asked.shared[name]}
    # What most have and this one has not.
    own |= {name: (config["settings"] | config["task"])[name] for name in asked.shared if name not in changed}
    if RECIPES[asked.task][asked.base].periods and not config["settings"]["periods"]:
        named = {"learning_rate", "clip", *config["task"]}
        own = {name: value for name, value in own.items() if name in named}
        return f"the paper's constants and start, {tables.in_words(own)}".removesuffix(", ")
    return tables.in_words(own) or "-"


def search(asked: Search) -> str:
    """Variants of a task's recipe by their validation."""
    variants: dict[tuple[int, int, str], list[float]] = {}
    for record in records.read(RESULTS / "search", asked.task):
        config, settings = record["config"], record["config"]["settings"]
        if asked.holding not in (None, settings["half_lives"] is not None):
            continue
        if asked.by_film != config["task"].get("by_film", False):
            continue
        key = settings["hidden_size"], settings["epochs"], _changes(config, asked)
        variants.setdefault(key, []).append(record["result"]["validation"])
    lines = ["| neurons | epochs | changed | validation, mean | each seed |", "| ---: | ---: | --- | ---: | ---: |"]
    order = sorted(variants.items(), key=lambda item: (-item[0][0], -statistics.fmean(item[1])))
    for (units, epochs, words), found in order:
        each = ", ".join(f"{value:.2f}" for value in sorted(found))
        lines.append(f"| {units} | {epochs} | {words} | {statistics.fmean(found):.2f} | {each} |")
    return "\n".join(lines)


KINDS = {
    "paper-128": "the paper's constants and start",
    "memory": "neurons that hold: half-lives of .1 to 10 sequences",
    "ringing": "neurons that ring: periods of .01 to 1 sequence",
}


def untrained() -> str:
    """What networks tell before training, by a linear readout."""
    rows = json.loads((RESULTS / "untrained.json").read_text(encoding="utf8"))["rows"]
    lines = [
        "| 128 neurons, not trained | numbers held, uncoupled | linear readout of the last y |",
        "| --- | ---: | ---: |",
    ]
    for recipe, words in KINDS.items():
        here = [row for row in rows if row["recipe"] == recipe]
        found = [row["accuracy"] for row in here]
        lines.append(
            f"| {words} | {here[0]['held']} | {statistics.fmean(found):.1f} ± {statistics.stdev(found):.1f} "
            f"({len(found)} seeds) |"
        )
    return "\n".join(lines)


FILMS = {"read_at": "end", "lower": True, "by_film": True, "drop_words": 0.4}
COSINE = {"schedule": "cosine", "clip": 1.0}
TABLES = {
    "aims": aims,
    "longer": longer,
    "untrained": untrained,
    "har2-search": partial(search, Search("har2", "paper", WINDOWS)),
    "psmnist-parts": partial(search, Search("psmnist", "better-128", {"shift": 1})),
    "psmnist-search": partial(search, Search("psmnist", "memory", holding=True)),
    "smnist-search": partial(search, Search("smnist", "better")),
    "cifar-search": partial(search, Search("noisy-cifar10", "ringing", {"learning_rate": 0.004, "mirror": True})),
    "imdb-search": partial(search, Search("imdb", "paper", COSINE | {"read_at": "end", "lower": True})),
    "imdb-films": partial(search, Search("imdb", "better", FILMS, holding=None, by_film=True)),
}
