"""An estimator in one file: safetensors, with a line of JSON in its header. Nothing in it is ever executed."""

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

__all__ = ["plain", "read", "write"]

KEY = "cornn.estimator"


def plain(name: str, value: Any) -> Any:
    """A parameter as JSON holds it."""
    if isinstance(value, np.random.RandomState | np.random.Generator):
        return None
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, dict):
        # JSON knows keys that are texts only.
        return {"keys": [plain(name, key) for key in value], "values": [plain(name, part) for part in value.values()]}
    if value is None or isinstance(value, bool | int | float | str | list):
        return value
    raise TypeError(f"{name} is a {type(value).__name__}, which cannot be saved: use numbers, texts or lists")


def write(path: str | os.PathLike, about: Mapping[str, Any], arrays: Mapping[str, NDArray]) -> None:
    """The file appears whole or not at all."""
    content = save({name: np.ascontiguousarray(array) for name, array in arrays.items()}, {KEY: json.dumps(about)})
    write_atomically(Path(path), content)


def read(path: str | os.PathLike) -> tuple[dict[str, Any], dict[str, NDArray]]:
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path}: give the one that `save` wrote")
    try:
        with safe_open(path, "numpy") as file:
            about = (file.metadata() or {}).get(KEY)
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(f"{path} is not a safetensors file: {error}") from error
    if about is None:
        raise ValueError(f"{path} holds no estimator: it was not written by an estimator's `save`")
    try:
        found = json.loads(about)
    except ValueError as error:
        raise ValueError(f"{path} is damaged: its header does not say what it holds ({error})") from None
    if not isinstance(found, dict) or "kind" not in found:
        raise ValueError(f"{path} is damaged: its header does not say what it holds")
    return found, arrays
