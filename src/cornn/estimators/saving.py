"""Save an estimator in one safetensors file, with its settings as JSON in the header. Nothing in it is executed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._checked import convert
from cornn._checksums import pack_tensors, unpack_tensors
from cornn._json import parse_json, read_bytes

__all__ = ["pack_file", "read_file", "to_json_value"]

KEY = "cornn.estimator"
FORMAT = 2  # 1: version 0.1.0, without checksums


def to_json_value(name: str, value: Any) -> Any:
    """Convert a parameter to a JSON value."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if hasattr(value, "tolist"):
        return to_json_value(name, value.tolist())
    if isinstance(value, list | tuple):
        return [to_json_value(name, part) for part in value]
    if isinstance(value, dict):
        # JSON keys are strings only.
        return {
            "keys": [to_json_value(name, key) for key in value],
            "values": [to_json_value(name, part) for part in value.values()],
        }
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which cannot be saved: use numbers, strings or lists")


def restore_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Return settings as they were before `to_json_value`."""
    return {
        name: dict(zip(value["keys"], value["values"], strict=True)) if isinstance(value, dict) else value
        for name, value in settings.items()
    }


def pack_file(about: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> bytes:
    """Return the content of the file, with its checksum."""
    return pack_tensors(arrays, {KEY: json.dumps({"format": FORMAT, **about})})


def read_file(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the JSON of the header and the arrays, after verifying the checksum."""
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}: pass the file that an estimator's `save` wrote")
    remedy = "pass a file that an estimator's `save` wrote, or fit and save it again"
    arrays, metadata = unpack_tensors(read_bytes(path), path, remedy=remedy)
    if KEY not in metadata:
        raise ValueError(f"{path} does not contain an estimator: pass a file that an estimator's `save` wrote")
    about = parse_json(metadata[KEY].encode(), path)
    if not isinstance(about.get("kind"), str):
        raise ValueError(f"{path} is damaged: its header does not name the kind of estimator")
    if convert(int, about.pop("format", 1), f"{path}: format") > FORMAT:
        raise ValueError(f"{path} was written by a later version of cornn: install that version")
    return about, arrays
