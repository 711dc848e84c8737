"""A restricted reader of pickles: arrays, bytes, strings, numbers, tuples, lists and dicts only.

A pickle is a program. This reader lets it call no library function: the few names that the pickle of an array refers to
resolve to methods of the reader, which only store their arguments.
"""

import io
import pickle
from typing import Any

import numpy as np


def read_pickle(content: bytes, where: object = "the pickle") -> Any:
    """Return the content of a pickle. Python 2 strings are read as bytes."""
    try:
        return _convert(_Reader(io.BytesIO(content), encoding="bytes").load())
    except Exception as error:  # what a damaged or hostile pickle raises is of any kind
        raise ValueError(f"{where} is not a pickle of plain arrays: {error}") from error


class _Array:
    """An array as its pickle describes it."""

    state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state


class _Kind:
    """A dtype as its pickle describes it."""

    def __init__(self, name: Any) -> None:
        self.name = name.decode("ascii") if isinstance(name, bytes) else str(name)
        self.order = "|"

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        order = state[1]
        self.order = order.decode("ascii") if isinstance(order, bytes) else str(order)


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return self._array
        if (module, name) == ("numpy", "ndarray"):
            return "ndarray"
        if (module, name) == ("numpy", "dtype"):
            return self._kind
        if (module, name) == ("_codecs", "encode"):
            return self._encode
        if (module, name) in (("__builtin__", "bytes"), ("builtins", "bytes")):
            return self._nothing
        raise pickle.UnpicklingError(f"it refers to {module}.{name}, which is not allowed")

    # Methods bound to this reader, not functions of the module: a pickle can set nothing on them.
    def _array(self, *_: Any) -> _Array:
        return _Array()

    def _kind(self, name: Any, *_: Any) -> _Kind:
        return _Kind(name)

    def _encode(self, text: str, _: str) -> bytes:
        return text.encode("latin1")

    def _nothing(self) -> bytes:
        return b""


def _convert(value: Any) -> Any:
    if isinstance(value, _Array):
        _, shape, kind, fortran, content = value.state
        if kind.name[:1] not in ("b", "i", "u", "f"):
            raise ValueError(f"it contains an array of {kind.name!r}, which is not a numeric type")
        array = np.frombuffer(content, np.dtype(kind.name).newbyteorder(kind.order))
        return array.reshape(shape, order="F" if fortran else "C")
    if isinstance(value, dict):
        return {_convert(key): _convert(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_convert(item) for item in value)
    if value is None or isinstance(value, bytes | str | int | float):
        return value
    raise ValueError(f"it contains a {type(value).__name__}")
