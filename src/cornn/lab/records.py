"""Records of finished runs: one small JSON file each, without weights.

config   as in the run folder
result   as in the run folder: the metrics, the machine, the commit
curve    the metrics of all evaluations, one list per column
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path

from cornn.lab.recipes import RECIPES, for_model
from cornn.lab.runs import Run, write_json
from cornn.lab.tasks import TASKS

__all__ = ["changed_options", "changed_settings", "columns", "name", "read", "record", "write"]

DIGITS = 6  # of what a curve holds
LONGEST = 220  # bytes of a file's name, without the seed


def record(run: Run) -> dict:
    if run.result is None:
        raise ValueError(f"{run.path} has no result.json: its training has not finished")
    return {"config": run.config, "result": run.result, "curve": columns(run.metrics())}


def columns(rows: Sequence[dict]) -> dict[str, list]:
    """Convert rows of metrics to one list per column."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [_short(row.get(name)) for row in rows] for name in names}


def _short(value):
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def name(content: dict) -> str:
    """Return the file name of a record: recipe, changed options and settings, model, size and seed."""
    config = content["config"]
    changed = changed_options(config) | changed_settings(config)
    words = [f"{key}-{_word(value)}" for key, value in changed.items()] + (["theory"] if config.get("theory") else [])
    size = f"{config.get('model', 'cornn')}{config['settings']['hidden_size']}"
    return f"{_short_enough('-'.join([config['recipe'], *words, size]))}-seed{config['seed']}.json"


def _short_enough(words: str) -> str:
    """Shorten a name with a digest: file names have at most 255 bytes."""
    if len(words.encode()) <= LONGEST:
        return words
    return f"{words.encode()[: LONGEST - 17].decode(errors='ignore')}-{hashlib.sha256(words.encode()).hexdigest()[:16]}"


def changed_options(config: dict) -> dict:
    """Return the options of the task that differ from their defaults."""
    usual = {field.name: field.default for field in fields(TASKS[config["task_name"]])}
    return {key: value for key, value in config["task"].items() if usual.get(key) != value}


def changed_settings(config: dict) -> dict:
    """Return the settings (except the size) and layer options that differ from the recipe with the model's published
    values."""
    recipe = asdict(for_model(RECIPES[config["task_name"]][config["recipe"]], config.get("model", "cornn")))
    known = {key: value for key, value in config["settings"].items() if key in recipe and key != "hidden_size"}
    changed = {key: value for key, value in known.items() if _plain(recipe[key]) != value}
    return changed | (config.get("layer") or {})


def _plain(value):
    return list(value) if isinstance(value, tuple) else value


def _word(value) -> str:
    return "-".join(str(part) for part in value) if isinstance(value, list) else str(value)


def write(content: dict, results: Path) -> Path:
    """Write a record to the task's folder under `results`."""
    path = results / content["config"]["task_name"] / name(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content, indent=None)
    return path


def read(results: Path, task: str, runs: str = "*") -> list[dict]:
    """Return the records of a task under `results`: all, or those whose name without the seed is `runs`."""
    paths = sorted((results / task).glob(f"{runs}-seed*.json"))
    return [json.loads(path.read_text(encoding="utf8")) for path in paths]
