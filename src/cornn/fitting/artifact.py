"""The folder that `cornn fit` writes and `cornn predict` reads: see `cornn.artifacts`.

Besides the files that every saved folder has, it contains the page report.html and, for classes and numbers, the
predictions for the test split, predictions.csv.
"""

import csv
import io
import json
import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cornn import __version__, artifacts
from cornn._atomic import write_atomically, write_errors
from cornn._checked import convert, decode
from cornn._json import naming
from cornn._machine import machine
from cornn._source import source
from cornn.fitting.evaluate import AnyEstimator, Predictions, predict
from cornn.fitting.fit import FitResult
from cornn.fitting.readers import Dataset, Layout

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
        "parameters": estimator.count_parameters(),
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
    config = {
        "kind": KIND,
        "task": finished.task,
        "data": data.source,
        "layout": asdict(data.layout),
        "features": list(data.features),
        "settings": {name: value for name, value in estimator.get_params().items() if value is not None},
        **({"network": asdict(estimator.network_)} if estimator.history_ else {}),
        "version": __version__,
    }
    texts = {
        artifacts.CONFIG: json.dumps(config, indent=2) + "\n",
        artifacts.METRICS: "".join(
            json.dumps(_replace_non_finite(row), allow_nan=False) + "\n" for row in estimator.history_
        ),
        artifacts.RESULT: json.dumps(result, indent=2, allow_nan=False) + "\n",
    }
    if test is not None and finished.task != "forecast":
        texts["predictions.csv"] = format_csv(predict(estimator, test, truth=True))
    if report is not None:
        texts["report.html"] = report
    files = {name: text.encode() for name, text in texts.items()}
    try:
        with tempfile.TemporaryDirectory() as folder:
            estimator.save(Path(folder) / artifacts.WEIGHTS)
            files[artifacts.WEIGHTS] = (Path(folder) / artifacts.WEIGHTS).read_bytes()
        artifacts.write_folder(out, "estimator", files)
    except OSError as error:
        raise OSError(f"cannot write the folder {out} ({error.strerror}): choose another with --out") from error


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
    saved = artifacts.load_estimator(path)
    estimator = saved.estimator()
    if saved.is_file:
        layout = Layout(None, estimator.id_column, estimator.time_column, tuple(estimator.columns_ or ()))
        return estimator, layout, None
    config = saved.config
    with naming(path / artifacts.CONFIG):
        layout = decode(Layout, config.get("layout"), "layout")
        return estimator, layout, convert(tuple[str, ...], config.get("features"), "features")
