"""The tables of the improved recipes: targets, results, and the search for the recipes."""

import statistics
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from cornn._checked import encode
from cornn._json import read_json
from cornn.lab import intervals, records
from cornn.lab.config import Train, flat_settings, from_dictionary
from cornn.lab.experiments import protocol
from cornn.lab.recipes import WINDOWS, resolve
from cornn.lab.report import tables, targets
from cornn.lab.report.tables import RunGroup

RESULTS = Path(__file__).resolve().parents[1] / "results"


def _summary(group: RunGroup | None) -> str:
    """Mean and number of seeds."""
    if group is None:
        return "not run"
    return f"{group.summary} ({len(group.tests)} seed{'s' if len(group.tests) > 1 else ''})"


def targets_met(results: Path = RESULTS) -> str:
    """Every target, with the results of our recipe and of the default one."""
    lines = [
        "| task | neurons | target | improved recipe | default recipe | met |",
        "| --- | ---: | ---: | ---: | ---: | --- |",
    ]
    for status in targets.read(results):
        figures = " | ".join(
            (_summary(status.ours[0] if status.ours else None), _summary(status.first), status.verdict)
        )
        lines.append(f"| {status.target.title} | {status.target.units} | {status.target.requirement} | {figures} |")
    return "\n".join(lines)


GOALS = {
    "har2-64-people": (92.5, 94.0),
    "har2-64": (92.5, 94.0),
    "imdb-128-adversarial": (88.5, 89.0),
    "imdb-128-mean": (88.5, 89.0),
    "imdb-128": (88.5, 89.0),
    "noisy-cifar10-128": (62.0,),
    "psmnist-128": (96.8, 97.3),
    "psmnist-256": (97.3, 97.8),
    "smnist-256": (99.5,),
}
"""Protocol -> the accuracies that its target names: the target, and the stretch target if it has one."""


def protocols(results: Path = RESULTS) -> str:
    """The frozen protocols: target, search, choice, test, and whether the target is met."""
    lines = ["| protocol | target | search | state | met; stretch met |", "| --- | --- | --- | --- | --- |"]
    files = (path for path in sorted((results / "protocols").glob("*.json")) if not path.stem.endswith("-chosen"))
    for path in files:
        plan = protocol.read_protocol(path)
        search = f"{plan.trials} trials of {', '.join(name.replace('_', ' ') for name in plan.space)}"
        state, runs = _state(path, plan.task, results)
        goals = GOALS.get(path.stem, ())
        met = "; ".join(_is_met(runs, goal) for goal in goals) if runs and goals else "-"
        lines.append(f"| `{path.name}` | {plan.target} | {search} | {state} | {met} |")
    return "\n".join(lines)


def _state(path: Path, task: str, results: Path) -> tuple[str, RunGroup | None]:
    """Return how far a protocol is, and its tested runs."""
    choice_file = protocol.chosen_path(path)
    if not choice_file.exists():
        return "frozen, not searched yet", None
    choice = read_json(choice_file)
    words = f"trial {choice['trial']} chosen, validation {choice['validation']:.2f}"
    shared = records.group_identity(from_dictionary(choice["config"]))
    runs = [group for group in tables.group_runs(results, task) if group.identity == shared and group.records]
    return (f"{words}; test {_summary(runs[0])}", runs[0]) if runs else (f"{words}; not tested yet", None)


def _is_met(runs: RunGroup, goal: float) -> str:
    """Compare the mean with a target; say if its 95 % interval contains the target."""
    ends = intervals.mean_interval(runs.tests)
    open_still = ends is not None and ends.low < goal <= ends.high
    return ("yes" if runs.mean >= goal else "no") + (", within the interval" if open_still else "")


def longer(results: Path = RESULTS) -> str:
    """The improved recipes with other numbers of epochs."""
    lines = [
        "| task | neurons | epochs | validation, mean | test, mean [95 % interval] | seeds |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for target in targets.TARGETS:
        runs = {
            records.read_config(group.records[0]).budget.epochs: group
            for group in tables.group_runs(results, target.task)
            if (group.origin, group.units) == ("better", target.units)
            and group.records
            and group.settings.keys() <= {"recipe", "epochs"}
            and group.options.items() >= target.options.items()
            and ("permutation" in group.options) == ("permutation" in target.options)
        }
        for epochs, group in sorted(runs.items()) if len(runs) > 1 else ():
            figures = f"{epochs} | {group.number(group.validation)} | {group.summary} | {len(group.tests)}"
            lines.append(f"| {target.title} | {target.units} | {figures} |")
    return "\n".join(lines)


class Search(NamedTuple):
    """The runs by which a recipe was chosen, as a table of their changes."""

    task: str
    base: str  # the recipe that they are compared with
    shared: Mapping[str, Any] = MappingProxyType({})  # settings and options of most runs, which are not listed
    holding: bool | None = False  # only runs with `half_lives`, only runs without, or None for both
    by_film: bool = False  # only runs of IMDB with that validation, or only those without


UNNAMED = ("epochs", "steps", "keep")
"""Settings that have their own column, or do not affect validation."""


def _changes(config: Train, asked: Search) -> str:
    changed = records.changed_settings(replace(config, recipe=asked.base)) | records.changed_options(config)
    changed = {name: value for name, value in changed.items() if name not in UNNAMED}
    settings_changed = {
        name: value for name, value in changed.items() if name not in asked.shared or value != asked.shared[name]
    }
    # What most runs have and this one does not.
    options = encode(config.task)
    settings = flat_settings(config) | options
    settings_changed |= {name: settings[name] for name in asked.shared if name not in changed}
    if resolve(asked.task, asked.base).model.periods and not config.model.periods:
        named = {"learning_rate", "clip", *options}
        settings_changed = {name: value for name, value in settings_changed.items() if name in named}
        return f"the paper's constants and initialisation, {tables.describe(settings_changed)}".removesuffix(", ")
    return tables.describe(settings_changed) or "-"


def search(asked: Search) -> str:
    """Variants of a recipe, sorted by validation."""
    variants: dict[tuple[int, int, str], list[dict]] = {}
    for record in records.read(RESULTS / "search", asked.task):
        config = records.read_config(record)
        if asked.holding not in (None, config.model.half_lives is not None):
            continue
        if asked.by_film != records.changed_options(config).get("by_film", False):
            continue
        key = config.model.hidden_size, config.budget.epochs, _changes(config, asked)
        variants.setdefault(key, []).append(record["result"])
    lines = ["| neurons | epochs | changes | validation, mean | per seed |", "| ---: | ---: | --- | ---: | ---: |"]
    rows = [
        (key, [row["validation"] for row in rows_of_variant], records.mark(rows_of_variant))
        for key, rows_of_variant in variants.items()
    ]
    for (units, epochs, words), values, mark in sorted(rows, key=lambda row: (-row[0][0], -statistics.fmean(row[1]))):
        values_text = ", ".join(f"{value:.2f}" for value in sorted(values))
        lines.append(f"| {units} | {epochs} | {words} | {statistics.fmean(values):.2f}{mark} | {values_text} |")
    return "\n".join(lines)


KINDS = {
    "paper-128": "the paper's constants and initialisation",
    "memory": "overdamped: half-lives of .1 to 10 sequence lengths",
    "ringing": "underdamped: periods of .01 to 1 sequence length",
}


def untrained() -> str:
    """Accuracy of a linear readout before training."""
    rows = read_json(RESULTS / "untrained.json")["rows"]
    lines = [
        "| 128 untrained neurons | effective rank, uncoupled | accuracy of a linear readout of the last y |",
        "| --- | ---: | ---: |",
    ]
    for recipe, words in KINDS.items():
        matches = [row for row in rows if row["recipe"] == recipe]
        accuracies = [row["accuracy"] for row in matches]
        accuracy = intervals.describe(accuracies, "higher", "{:.1f}".format)
        lines.append(f"| {words} | {matches[0]['held']} | {accuracy} ({len(accuracies)} seeds) |")
    return "\n".join(lines)


FILMS = {"read_at": "end", "lower": True, "by_film": True, "drop_words": 0.4}
COSINE = {"schedule": "cosine", "clip": 1.0}
TABLES = {
    "protocols": protocols,
    "targets": targets_met,
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
