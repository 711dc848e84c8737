"""Save an estimator in one safetensors file, with its settings as JSON in the header. Nothing in it is executed."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from cornn._atomic import write_atomically

__all__ = ["read_file", "to_json_value", "write_file"]

KEY = "cornn.estimator"


def to_json_value(name: str, value: Any) -> Any:
    """Convert a parameter to a JSON value."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, dict):
        # JSON keys are strings only.
        return {
            "keys": [to_json_value(name, key) for key in value],
            "values": [to_json_value(name, part) for part in value.values()],
        }
    if value is None or isinstance(value, bool | int | float | str | list):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which cannot be saved: use numbers, strings or lists")


def write_file(path: str | os.PathLike, about: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> None:
    """Write the file atomically."""
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {KEY: json.dumps(about)})
    write_atomically(Path(path), content)


def read_file(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, NDArray]]:
    """Return the JSON of the header and the arrays."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path}: pass the file that an estimator's `save` wrote")
    try:
        with safe_open(path, "numpy") as file:
            about = (file.metadata() or {}).get(KEY)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    if about is None:
        raise ValueError(f"{path} does not contain an estimator: pass a file that an estimator's `save` wrote")
    try:
        found = json.loads(about)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: its header is not valid JSON ({error})") from None
    if not isinstance(found, dict) or "kind" not in found:
        raise ValueError(f"{path} is damaged: its header does not name the kind of estimator")
    return found, arrays
