"""What is kept of a finished run: one small JSON, without weights.

config   as in the run folder
result   as in the run folder: the figures, the machine, the commit
curve    the lines of metrics, column by column
"""

import json
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path

from cornn.runs import Run, write_json
from cornn.tasks import TASKS

__all__ = ["name", "read", "record", "write"]

DIGITS = 6  # of what a curve holds


def record(run: Run) -> dict:
    if run.result is None:
        raise ValueError(f"{run.path} has no result.json: its training has not finished")
    return {"config": run.config, "result": run.result, "curve": columns(run.metrics())}


def columns(rows: Sequence[dict]) -> dict[str, list]:
    """Lines of metrics as one list for each of their names."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [_short(row.get(name)) for row in rows] for name in names}


def _short(value):
    if isinstance(value, dict):
        return {name: _short(part) for name, part in value.items()}
    return float(f"{value:.{DIGITS}g}") if isinstance(value, float) else value


def name(content: dict) -> str:
    """Of a record's file: what is not as usual in the task, the model, its size, the recipe and the seed."""
    config = content["config"]
    usual = {field.name: field.default for field in fields(TASKS[config["task_name"]])}
    options = [f"{key}-{value}" for key, value in config["task"].items() if usual.get(key) != value]
    size = f"{config.get('model', 'cornn')}{config['settings']['hidden_size']}"
    return "-".join([config["recipe"], *options, size, f"seed{config['seed']}"]) + ".json"


def write(content: dict, results: Path) -> Path:
    """Into the task's folder under `results`."""
    path = results / content["config"]["task_name"] / name(content)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, content, indent=None)
    return path


def read(results: Path, task: str) -> list[dict]:
    """All records of a task under `results`."""
    paths = sorted((results / task).glob("*.json"))
    return [json.loads(path.read_text(encoding="utf8")) for path in paths]
