"""The folder that `cornn fit` writes and `cornn predict` reads.

    model.safetensors  the estimator: weights, scaling and settings; `cornn.estimators.load` reads it
    config.json        the layout of the data, the task, the settings and the version
    metrics.jsonl      the losses, one line per epoch
    predictions.csv    the predictions for the test split, if there is one
    report.html        the report
    result.json        the test result

The folder is written completely or not at all. Nothing in its files is executed.
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
from cornn._machine import machine
from cornn._source import source
from cornn.estimators import load
from cornn.fitting.evaluate import AnyEstimator, Predictions, predict
from cornn.fitting.fit import FitResult
from cornn.fitting.readers import Dataset, Layout
from cornn.models import count_parameters

__all__ = ["build_result", "check_output_folder", "format_csv", "load_folder", "write_folder", "write_text"]

KIND = "fit"


def check_output_folder(out: Path) -> None:
    """Check that a new folder can be written, before any work is done.

    Args:
        out: The folder, which must not exist yet.

    Raises:
        FileExistsError: If it exists.
        OSError: If it cannot be written.
    """
    if out.exists():
        raise FileExistsError(f"{out} already exists: choose another --out, or remove it")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        os.rmdir(tempfile.mkdtemp(dir=out.parent, prefix=".new-"))
    except OSError as error:
        raise OSError(f"cannot write the folder {out} ({error.strerror}): choose another with --out") from error


def build_result(finished: FitResult, test: str | None) -> dict[str, Any]:
    """Build the content of result.json.

    Args:
        finished: The result of `fit`.
        test: Description of the test data.

    Returns:
        A dictionary that JSON can represent.
    """
    evaluation, estimator = finished.evaluation, finished.estimator
    measured = {} if evaluation is None else {"evaluated_on": test, **asdict(evaluation)}
    measured.pop("pairs", None)
    content = {
        "task": finished.task,
        **measured,
        "sequences": len(finished.splits.training),
        "epochs": estimator.n_iter_,
        "seconds": finished.seconds,
        "parameters": count_parameters(estimator.model_),
        "version": __version__,
        **source(),
        "machine": machine(),
    }
    return _replace_non_finite(content)


def _replace_non_finite(value: Any) -> Any:
    """Replace numbers that are not finite by null, as JSON has none."""
    if isinstance(value, dict):
        return {name: _replace_non_finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_replace_non_finite(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def write_folder(out: Path, data: Dataset, finished: FitResult, result: Mapping[str, Any], report: str | None) -> None:
    """Write the folder of a fit, completely or not at all.

    Args:
        out: The folder, which must not exist yet.
        data: The data that were read.
        finished: The result of `fit`.
        result: The content of result.json, from `build_result`.
        report: The HTML page, or None.
    """
    estimator, test = finished.estimator, finished.splits.test
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
            "metrics.jsonl": "".join(
                json.dumps(_replace_non_finite(row), allow_nan=False) + "\n" for row in estimator.history_
            ),
            "result.json": json.dumps(result, indent=2, allow_nan=False) + "\n",
        }
        if test is not None and finished.task != "forecast":
            texts["predictions.csv"] = format_csv(predict(estimator, test, truth=True))
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
    """Write a text file, completely or not at all."""
    with write_errors(path):
        write_atomically(path, text.encode())


def format_csv(table: Predictions) -> str:
    """Format predictions as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(table.rows)
    return text.getvalue()


def load_folder(path: Path) -> tuple[AnyEstimator, Layout, tuple[str, ...] | None]:
    """Load a model that `cornn fit` wrote, or a file that an estimator's `save` wrote.

    Args:
        path: The folder or the file.

    Returns:
        The estimator, the layout of its data, and the names of its features (None if unknown).
    """
    if path.is_file():
        estimator = load(path)
        layout = Layout(None, estimator.id_column, estimator.time_column, tuple(estimator.columns_ or ()))
        return estimator, layout, None
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist: pass a folder that `cornn fit` wrote, or a saved estimator")
    if not (path / "config.json").is_file():
        raise FileNotFoundError(f"{path} is not a model: pass a folder that `cornn fit` wrote, or a saved estimator")
    config = read_json(path / "config.json")
    if not isinstance(config, dict) or config.get("kind") != KIND:
        raise ValueError(f"{path} was not written by `cornn fit`: use `cornn evaluate` to test a run of `cornn train`")
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
        raise ValueError(f"{path / 'config.json'} is damaged ({error}): fit the model again") from None
    return load(path / "model.safetensors"), layout, features
