"""The folder that `cornn fit` writes and `cornn predict` reads: see `cornn.artifacts`.

In addition to the files of every saved folder, it contains the page report.html and, for classes and numbers, the
predictions for the test split, predictions.csv.
"""

import csv
import io
import json
import math
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from cornn import __version__, artifacts
from cornn._atomic import TEMPORARY
from cornn._checked import convert, decode
from cornn._json import naming
from cornn._machine import machine
from cornn._source import source
from cornn.estimators.saving import pack_file
from cornn.fitting.evaluate import AnyEstimator, Predictions, predict
from cornn.fitting.fit import FitResult
from cornn.fitting.readers import Dataset, Layout

__all__ = [
    "build_result",
    "format_csv",
    "load_fitted",
    "remove_leftovers",
    "write_folder",
]

PAGE = "report.html"


def remove_leftovers(folder: Path) -> None:
    """Remove unfinished folders of processes that were killed: their names contain the number of the process."""
    for leftover in folder.glob(f"{TEMPORARY}*"):
        match = re.fullmatch(rf"{re.escape(TEMPORARY)}.*-p(\d+)-\w+", leftover.name)
        if match and leftover.is_dir() and not _is_running(int(match[1])):
            shutil.rmtree(leftover, ignore_errors=True)


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        pass
    return True


def build_result(finished: FitResult, test: str | None) -> dict[str, Any]:
    """Build the content of result.json.

    Args:
        finished: The result of `fit`.
        test: Description of the test data.

    Returns:
        A dictionary that JSON can represent.
    """
    evaluation = finished.evaluation
    measured = {} if evaluation is None else {"evaluated_on": test, **asdict(evaluation)}
    measured.pop("pairs", None)
    content = {
        "task": finished.task,
        **measured,
        "sequences": len(finished.splits.training),
        "epochs": finished.estimator.n_iter_,
        "parameters": finished.estimator.count_parameters(),
        "seconds": finished.seconds,
        "interrupted": finished.interrupted,
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


def write_folder(
    out: Path, data: Dataset, finished: FitResult, result: Mapping[str, Any], report: str | None
) -> tuple[Path, str | None]:
    """Write the folder of a fit, completely or not at all.

    If the folder can no longer be written, the model is written to another one, so that the training is not lost.

    Args:
        out: The reserved folder.
        data: The data that were read.
        finished: The result of `fit`.
        result: The content of result.json, from `build_result`.
        report: The HTML page, or None.

    Returns:
        The folder that was written, and a sentence about it if it is not `out`.
    """
    estimator, test = finished.estimator, finished.splits.test
    parameters = estimator.get_params(deep=False)
    config = {
        "kind": "fit",
        "task": finished.task,
        "data": data.source,
        "layout": asdict(data.layout),
        "features": list(data.features),
        "settings": {name: value for name, value in parameters.items() if value is not None},
        "version": __version__,
    }
    rows = [json.dumps(_replace_non_finite(row), allow_nan=False) + "\n" for row in estimator.history_]
    texts = {
        artifacts.CONFIG: json.dumps(config, indent=2) + "\n",
        artifacts.METRICS: "".join(rows),
        artifacts.RESULT: json.dumps(result, indent=2, allow_nan=False) + "\n",
    }
    if test is not None and finished.task != "forecast":
        texts["predictions.csv"] = format_csv(predict(estimator, test, truth=True))
    if report is not None:
        texts[PAGE] = report
    files = {name: text.encode() for name, text in texts.items()}
    files[artifacts.WEIGHTS] = pack_file(*estimator.to_file())
    return _write_somewhere(out, files)


def _write_somewhere(out: Path, files: Mapping[str, bytes]) -> tuple[Path, str | None]:
    places = [out, out.with_name(f"{out.name}-{os.getpid()}")]
    places += [Path(place) / f"cornn-{out.name}-{os.getpid()}" for place in (tempfile.gettempdir(), Path.home())]
    reason = None
    for place in places:
        try:
            artifacts.write_folder(place, "estimator", files)
        except OSError as error:
            reason = reason or error.strerror or str(error)
            continue
        if place is out:
            return out, None
        return place, f"{out} cannot be written ({reason}): the model is in {place}"
    raise OSError(f"cannot write the folder {out} ({reason}), nor {', '.join(map(str, places[1:]))}")


def format_csv(table: Predictions) -> str:
    """Format predictions as CSV."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(table.header)
    writer.writerows(table.rows)
    return text.getvalue()


def load_fitted(path: Path) -> tuple[AnyEstimator, Layout, tuple[str, ...] | None]:
    """Load a model that `cornn fit` wrote, or a file that an estimator's `save` wrote.

    Args:
        path: The folder or the file.

    Returns:
        The estimator, the layout of its data, and the names of its features (None if unknown).
    """
    if path.name == artifacts.WEIGHTS and (path.parent / artifacts.CONFIG).is_file():
        path = path.parent  # the folder knows how its data are laid out
    saved = artifacts.load_estimator(path)
    estimator = saved.estimator()
    if saved.is_file:
        names = {"id": estimator.id_column, "time": estimator.time_column, "values": estimator.columns_ or ()}
        names["axes"] = estimator.layout
        if estimator.columns_ and estimator.id_column is None:
            names["form"] = "series"  # its columns were features, not steps
        with naming(path):
            return estimator, decode(Layout, names, "layout"), None
    config = saved.config
    with naming(path / artifacts.CONFIG):
        layout = decode(Layout, config.get("layout"), "layout")
        return estimator, layout, convert(tuple[str, ...], config.get("features"), "features")
