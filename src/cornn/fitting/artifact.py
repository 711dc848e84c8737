"""The folder that `cornn fit` leaves and `cornn predict` reads.

    model.safetensors  the estimator: weights, scaling, settings; `cornn.estimators.load` reads it
    config.json        the data's layout, the task, the settings, the version and the machine
    metrics.jsonl      the losses, one line an epoch
    predictions.csv    the answers for the test part, where there is one
    report.html        the report
    result.json        what was reached

It appears whole or not at all. Nothing that a file in it holds is ever executed.
"""

import csv
import io
import json
import math
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from cornn import __version__
from cornn._atomic import write_atomically, write_errors
from cornn._json import read_json
from cornn._machine import commit, machine
from cornn.estimators import load
from cornn.fitting.evaluate import Answers, Fitted, answers
from cornn.fitting.fit import Finished
from cornn.fitting.readers import Dataset, Layout
from cornn.models import count_parameters

__all__ = ["as_csv", "check_free", "open_folder", "result", "write", "write_text"]

KIND = "fit"


def check_free(out: Path) -> None:
    """Refuse a place that is taken or cannot be written, before any work is done."""
    if out.exists():
        raise FileExistsError(f"{out} is there already: choose another --out, or remove it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(dir=out.parent, prefix=".new-"))
    except OSError as error:
        raise OSError(f"cannot write the folder {out} ({error.strerror}): choose another with --out") from error


def result(finished: Finished, test: str | None) -> dict[str, Any]:
    """test: what the outcome was measured on, in words."""
    outcome, estimator = finished.outcome, finished.estimator
    reached = {} if outcome is None else {"evaluated_on": test, **asdict(outcome)}
    reached.pop("pairs", None)
    whole = {
        "task": finished.task,
        **reached,
        "sequences": len(finished.parts.training),
        "epochs": estimator.n_iter_,
        "seconds": finished.seconds,
        "parameters": count_parameters(estimator.model_),
        "version": __version__,
        "commit": commit(),
        "machine": machine(),
    }
    return _known(whole)


def _known(value: Any) -> Any:
    """JSON has no number that is not finite: null takes its place."""
    if isinstance(value, dict):
        return {name: _known(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_known(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write(out: Path, data: Dataset, finished: Finished, reached: Mapping[str, Any], report: str | None) -> None:
    estimator, test = finished.estimator, finished.parts.test
    temporary = Path(tempfile.mkdtemp(dir=out.parent, prefix=".new-"))
    config = {
        "kind": KIND,
        "task": finished.task,
        "data": data.source,
        "layout": asdict(data.layout),
        "features": list(data.features),
        "settings": {name: value for name, value in estimator.get_params().items() if value is not None},
        "network": asdict(estimator.network_),
        "version": __version__,
    }
    try:
        estimator.save(temporary / "model.safetensors")
        texts = {
            "config.json": json.dumps(config, indent=2) + "\n",
            "metrics.jsonl": "".join(json.dumps(_known(row), allow_nan=False) + "\n" for row in estimator.history_),
            "result.json": json.dumps(reached, indent=2, allow_nan=False) + "\n",
        }
        if test is not None and finished.task != "forecast":
            texts["predictions.csv"] = as_csv(answers(estimator, test, truth=True))
        if report is not None:
            texts["report.html"] = report
        for name, text in texts.items():
            (temporary / name).write_text(text, encoding="utf8")
        temporary.chmod(0o755)
        os.rename(temporary, out)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise OSError(f"cannot write the folder {out} ({error.strerror}): choose another with --out") from error
        raise


def write_text(path: Path, text: str) -> None:
    """The file appears whole or not at all."""
    with write_errors(path):
        write_atomically(path, text.encode())


def as_csv(table: Answers) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(table.rows)
    return text.getvalue()


def open_folder(path: Path) -> tuple[Fitted, Layout, tuple[str, ...] | None]:
    """The estimator, how its data were laid out, and its features; also of a file that an estimator's `save` wrote."""
    if path.is_file():
        estimator = load(path)
        layout = Layout(None, estimator.id_column, estimator.time_column, tuple(estimator.columns_ or ()))
        return estimator, layout, None
    if not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path} is no model: name the folder that `cornn fit` wrote, or a saved estimator")
    config = read_json(path / "config.json")
    if not isinstance(config, dict) or config.get("kind") != KIND:
        raise ValueError(f"{path} was not written by `cornn fit`: a run's test figure is had with `cornn evaluate`")
    try:
        given = config["layout"]
        named: dict[str, Any] = {field.name: given[field.name] for field in fields(Layout)}
        lists: dict[str, Any] = {name: tuple(part) for name, part in named.items() if isinstance(part, list)}
        layout = Layout(**named | lists)
        for field in fields(Layout):
            value = getattr(layout, field.name)
            whole = isinstance(value, tuple) if field.default == () else value is None or isinstance(value, str)
            if not whole or not all(isinstance(part, str) for part in value or ()):
                raise TypeError(f"{field.name} is {value!r}")
        features = tuple(config["features"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path / 'config.json'} is damaged ({error}): fit the model anew") from None
    return load(path / "model.safetensors"), layout, features
