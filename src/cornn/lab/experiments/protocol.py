"""A protocol that cannot leak: the test split stays locked until the choice of settings is committed.

1. Write the target, the search space and the seeds of the test into a file NAME.json, and commit it.
2. Search on the training and validation splits. No trial of any experiment can open the test split. The choice is
   written to NAME-chosen.json; commit it.
3. Test the choice once for each seed, with seeds that the search did not use.

Each step checks that the files of the steps before it are committed and unchanged.
"""

import json
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cornn._checked import Checked, Count, decode
from cornn._json import read_json
from cornn._source import source, stamped_commit
from cornn.lab.config import Train, as_dictionary, canonical, from_dictionary, list_changes
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status
from cornn.lab.recipes import resolve
from cornn.lab.recipes.ranges import Between, Draw, OneOf, Pair
from cornn.lab.runs import write_json


@dataclass(frozen=True)
class Protocol(Checked):
    """The content of a protocol file."""

    target: str
    """The goal in words: task, size, metric and value."""
    task: str
    recipe: str
    trials: Count
    seeds: tuple[int, ...]
    """Seeds of the test; none of them is the seed of the search."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Settings that replace the recipe's."""
    space: dict[str, Any] = field(default_factory=dict)
    """Setting -> [lowest, highest], drawn log-uniformly; {"uniform": [lowest, highest]}; {"one of": [...]}; or
    {"pair": [[lowest, highest], [lowest, highest]]}."""
    finals: dict[str, Any] = field(default_factory=dict)
    """Settings of the test runs that differ from those of the trials."""

    def check(self) -> None:
        if not self.space:
            raise ValueError("the space of a protocol must not be empty")
        if not self.seeds or self.base().seed in self.seeds:
            raise ValueError(f"seeds must not be empty or contain the seed of the search, {self.base().seed}")
        # Mistakes in the space, the finals and the seeds are errors now, not after a search.
        search = self.search("check")
        config = search.trial_config(search.values(0)).override(**self.finals)
        Experiment("check", config, seeds=self.seeds)
        for seed in self.seeds:
            config.override(seed=seed)

    def base(self, **place: Any) -> Train:
        """Return the configuration of the search."""
        return resolve(self.task, self.recipe, **self.settings).override(**place)

    def search(self, name: str, **place: Any) -> Experiment:
        """Return the search. It has no runs, so nothing is tested."""
        space = {setting: _draw(setting, range_of_setting) for setting, range_of_setting in self.space.items()}
        return Experiment(name, self.base(**place), space, self.trials, stream=("protocol", name))

    def test(self, name: str, choice: Mapping[str, Any], **place: Any) -> Experiment:
        """Return the runs with the chosen settings."""
        config = from_dictionary(choice["config"]).override(**place)
        return Experiment(f"{name}-test", config, seeds=self.seeds)


def _draw(setting: str, value: Any) -> Draw:
    """Return the distribution of a setting from its description in a file."""

    def between(ends: Any, uniform: bool = False) -> Between:
        low, high = map(float, ends)
        return Between(low, high, uniform)

    kinds: dict[str, Callable[[Any], Draw]] = {
        "uniform": lambda ends: between(ends, uniform=True),
        "one of": lambda values: OneOf(tuple(values)),
        "pair": lambda pair: Pair(between(pair[0]), between(pair[1])),
    }
    kind, content = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else (None, value)
    try:
        if not isinstance(content, list) or not content:
            raise TypeError
        return between(content) if kind is None else kinds[kind](content)
    except (KeyError, TypeError, ValueError, IndexError) as error:
        choices = ", ".join(kinds)
        detail = f": {error}" if isinstance(error, ValueError) else ""
        raise ValueError(
            f"the space of {setting} must be [lowest, highest] or an object with one of {choices}, "
            f"got {value!r}{detail}"
        ) from None


def read_protocol(path: Path) -> Protocol:
    """Read a protocol file."""
    remedy = "pass a protocol such as results/protocols/psmnist-128.json"
    try:
        content = read_json(path)
    except OSError as error:
        raise OSError(f"{error}: {remedy}") from None
    except ValueError as error:
        raise ValueError(f"{path} is not a protocol, since it is not a JSON object: {remedy}") from error
    try:
        return decode(Protocol, content, "the protocol")
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def chosen_path(path: Path) -> Path:
    """Return the file of the choice that belongs to a protocol."""
    return path.with_name(f"{path.stem}-chosen.json")


def check_committed(path: Path) -> str:
    """Return the commit that contains the present content of a file, or raise an error.

    Without git, the commit comes from the stamp of the source (`python tools/stamp.py`).
    """
    if (stamped := stamped_commit(path)) is not None and not _is_in_checkout(path):
        return stamped
    git = ["git", "-C", str(path.resolve().parent)]

    def ask(*arguments: str) -> str:
        return subprocess.run([*git, *arguments], capture_output=True, text=True, check=True).stdout.strip()

    try:
        ask("ls-files", "--error-unmatch", "--", path.name)
        changed = ask("status", "--porcelain", "--", path.name)
        commit = ask("log", "-1", "--format=%H", "--", path.name)
    except (OSError, subprocess.SubprocessError):
        raise ValueError(f"{path} is not committed: a protocol is valid only once it is committed") from None
    if changed or not commit:
        raise ValueError(f"{path} has changes that are not committed: commit them, or undo them")
    return commit


def _is_in_checkout(path: Path) -> bool:
    try:
        subprocess.run(
            ["git", "-C", str(path.resolve().parent), "rev-parse", "--git-dir"], capture_output=True, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def write_choice(path: Path, protocol: Protocol, status: Status) -> Path:
    """Write the choice of a finished search and return its file."""
    if not status.searched or status.best is None:
        raise RuntimeError(f"{path}: the search has no result yet")
    best = status.best
    config = status.experiment.trial_config(best["values"]).override(**protocol.finals)
    content = {
        "protocol": {"file": path.name, "commit": check_committed(path)},
        "target": protocol.target,
        "base": canonical(status.experiment.base),
        "trial": best["trial"],
        "values": best["values"],
        "validation": best["validation"],
        "trials": list(status.rows),
        "config": as_dictionary(config),
        **source(),
    }
    write_json(chosen_path(path), content)
    return chosen_path(path)


def read_choice(path: Path, protocol: Protocol) -> dict[str, Any]:
    """Return the committed choice of a protocol, after checking that it belongs to the present protocol."""
    commit, file = check_committed(path), chosen_path(path)
    check_committed(file)
    content = read_json(file)
    base = json.loads(json.dumps(canonical(protocol.base())))
    changed = list_changes(content.get("base", {}), base)
    if content.get("protocol", {}).get("commit") != commit:
        changed.append("the protocol was committed again after the choice")
    if changed:
        raise ValueError(f"{file} belongs to another protocol ({'; '.join(changed)}): start a protocol with a new name")
    search = protocol.search(path.stem)
    config = search.trial_config(search.values(content["trial"])).override(**protocol.finals)
    if edited := "; ".join(list_changes(canonical(from_dictionary(content["config"])), canonical(config))):
        raise ValueError(f"{file}: its config is not that of trial {content['trial']} ({edited}): restore it")
    return content
