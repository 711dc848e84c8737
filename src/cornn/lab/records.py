"""Records of finished runs: one small JSON file each, without weights.

identity  a hash of what affects the result: the configuration without defaults, and the seed
config    as in the run folder
result    as in the run folder: the metrics, the machine, the commit and the digest of the source; and `source`, whether
          that commit has that digest
curve     the metrics of all evaluations, one list per column

The identity decides which run a record is. The file name is for people.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from cornn._checked import encode, without_defaults
from cornn._json import read_json
from cornn._source import check_source, correct_commit
from cornn.artifacts import is_saved
from cornn.lab.config import RivalSpec, Train, as_dictionary, canonical, flat_settings, from_dictionary
from cornn.lab.recipes import RECIPES, resolve
from cornn.lab.runs import Run, open_run, write_json

DIGITS = 6  # significant digits of the numbers of a curve
LONGEST = 200  # maximum bytes of a file name, without the seed and the identity

RESULT_ENTRIES = ("better", "steps", "seconds", "side_by_side", "parameters", "machine", "device")
"""Entries of the result of a tested run, which tables and figures read."""

TRUSTED = ("verified", "commit only", "one of several commits", "not checked")
"""Sources that are not marked in tables: the commit has the digest; or the record is older than digests, and a row of a
comparison may then name several commits, one of which is right; or there was no history to check against."""


MARK = "†"
FOOTNOTE = (
    f"{MARK} The code that produced these runs is not that of a commit: they name none, or one that had changes. "
    "Their numbers cannot be rebuilt from the history."
)


def identity(config: Train) -> str:
    """Return a hash of what affects the result of a run.

    Settings with their default values do not count: a new setting leaves the identity of old records unchanged.
    """
    text = json.dumps(canonical(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def group_identity(config: Train) -> str:
    """Return the identity that is shared by runs that differ only in the seed."""
    return identity(replace(config, seed=0))


def record(run: Run) -> dict[str, Any]:
    """Return the record of a finished run."""
    if run.result is None:
        raise ValueError(f"{run.path} has not finished: continue with `cornn resume {run.path}`")
    return {"config": run.config, "result": run.result, "curve": columns(run.metrics())}


def columns(rows: Sequence[dict]) -> dict[str, list]:
    """Convert rows of metrics to one list per column."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [_shorten(row.get(name)) for row in rows] for name in names}


def _shorten(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _shorten(part) for name, part in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def group_name(config: Train) -> str:
    """Return a name for runs that differ only in the seed: recipe, changed options and settings, model and size."""
    changed = changed_options(config) | changed_settings(config)
    words = [f"{key}-{_format_value(value)}" for key, value in changed.items()] + (["theory"] if config.theory else [])
    text = "-".join([config.recipe, *words, f"{config.model.name}{config.model.hidden_size}"])
    text = re.sub(r"[/\\:\0-\x1f]", "-", text)  # the name of a recipe may come from a user's file
    return text.encode()[:LONGEST].decode(errors="ignore")


def name(config: Train) -> str:
    """Return the file name of a record: the name of its group, the seed and the identity."""
    return f"{group_name(config)}-seed{config.seed}-{identity(config)[:8]}.json"


def changed_options(config: Train) -> dict[str, Any]:
    """Return the options of the task that differ from their defaults."""
    return without_defaults(config.task)


def changed_settings(config: Train) -> dict[str, Any]:
    """Return the settings, except the size, that differ from the recipe with the model's published values."""
    if config.recipe in RECIPES[config.task.name]:
        base = resolve(config.task.name, config.recipe)
        base = base if base.model.name == config.model.name else base.override(model=config.model.name)
        defaults, published = flat_settings(base), base.model.constants if isinstance(base.model, RivalSpec) else {}
    else:
        defaults, published = {}, {}
    constants = config.model.constants if isinstance(config.model, RivalSpec) else {}
    skipped = ("hidden_size", "constants")
    settings = {key: value for key, value in flat_settings(config).items() if key not in skipped}
    changed = {key: encode(value) for key, value in settings.items() if key not in defaults or defaults[key] != value}
    return changed | {key: value for key, value in constants.items() if published.get(key) != value}


def _format_value(value: Any) -> str:
    return "-".join(str(part) for part in value) if isinstance(value, list) else str(value)


def write(content: Mapping[str, Any], results: Path) -> Path:
    """Write a record to the task's folder under `results`, in place of an earlier one of the same run."""
    config = read_config(content)
    path = results / config.task.name / name(config)
    path.parent.mkdir(parents=True, exist_ok=True)
    previous = find(results, config)
    extra = {key: content["config"][key] for key in ("version", "machine") if key in content["config"]}
    record = {
        "identity": identity(config),
        "config": as_dictionary(config) | extra,
        "result": with_checked_source(content["result"]),
        "curve": content.get("curve", {}),
    }
    write_json(path, record, indent=None)
    if previous is not None and previous["path"] != path:
        previous["path"].unlink()
    return path


def with_checked_source(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a result with what the check of its commit and digest against the history found: see `TRUSTED`."""
    corrected = correct_commit(row)
    return {**corrected, "source": check_source(corrected)}


def source_of(result: Mapping[str, Any]) -> str:
    """Return what the check of a result's source found; without a check, what the result itself shows."""
    commit = result.get("commit")
    unchecked = "names no commit" if commit is None else "not checked"
    return result.get("source", "ran uncommitted changes" if str(commit).endswith("+") else unchecked)


def mark(results: Iterable[Mapping[str, Any]]) -> str:
    """Return a mark for tables if one of the results does not come from the commit that it names, else nothing."""
    return "" if all(source_of(record) in TRUSTED for record in results) else MARK


Results = Path | Sequence[Path]
"""A folder of records, or several folders of records and finished run folders; if two contain the same run, the later
one counts."""


def list_folders(results: Results) -> list[Path]:
    """Return the folders of some results, as a list."""
    return [results] if isinstance(results, Path) else list(results)


def read(results: Results, task: str) -> list[dict[str, Any]]:
    """Return the records of a task, each with its `path`."""
    folders = list_folders(results)
    if len(folders) == 1 and not is_saved(folders[0]):
        return _read_folder(folders[0], task)
    by_identity: dict[str, dict[str, Any]] = {}
    for folder in folders:
        runs = [{**record(open_run(folder)), "path": folder}] if is_saved(folder) else _read_folder(folder, task)
        for run in runs:
            config = read_config(run)
            if config.task.name == task:
                by_identity[identity(config)] = run
    return list(by_identity.values())


def _read_folder(results: Path, task: str) -> list[dict[str, Any]]:
    return [
        {**_content(path, path.stat().st_mtime_ns), "path": path} for path in sorted((results / task).glob("*.json"))
    ]


@lru_cache(4096)
def _content(path: Path, changed: int) -> dict[str, Any]:
    content = read_json(path)
    for part in ("config", "result"):
        if not isinstance(content.get(part), dict):
            raise ValueError(f"{path} is not a record: it has no {part!r}")
    if "test" in content["result"]:
        check_entries(content["result"], RESULT_ENTRIES, f"{path}: the result")
    return content


def check_entries(content: Mapping[str, Any], names: Iterable[str], where: str) -> None:
    """Raise an error if part of a record lacks an entry that tables and figures read."""
    for name in names:
        if name not in content:
            raise ValueError(f"{where} has no {name!r}: restore the record, or remove it to run it again")


def read_config(content: Mapping[str, Any]) -> Train:
    """Return the configuration of a record."""
    try:
        return from_dictionary(content["config"])
    except ValueError as error:
        raise ValueError(f"{content['path']} is damaged: {error}" if "path" in content else str(error)) from error


def find(results: Path, config: Train) -> dict[str, Any] | None:
    """Return the record of a run under `results`, or None."""
    expected = identity(config)
    matches = (record for record in read(results, config.task.name) if identity(read_config(record)) == expected)
    return next(matches, None)


def missing(results: Results, configs: Iterable[Train]) -> list[Train]:
    """Return the configurations that have no record."""
    identities: dict[str, set[str]] = {}
    absent = []
    for config in configs:
        task = config.task.name
        if task not in identities:
            identities[task] = {identity(read_config(record)) for record in read(results, task)}
        if identity(config) not in identities[task]:
            absent.append(config)
    return absent
