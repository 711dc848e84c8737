"""Format arrays as C, and fill in the templates of csrc/."""

from collections.abc import Iterable, Mapping
from importlib.resources import files
from string import Template

import numpy as np
from numpy.typing import NDArray

__all__ = ["Constants", "number", "render", "rows"]

WIDTH = 116
TYPES = {"float32": "float", "int8": "int8_t", "int32": "int32_t", "uint32": "uint32_t", "uint16": "uint16_t"}


class Constants:
    """Constant arrays by their names in C, in order."""

    def __init__(self) -> None:
        self.arrays: dict[str, NDArray] = {}

    def add(self, name: str, array: NDArray, dtype: str) -> str:
        """Add an array of any shape, flattened, and return its name."""
        with np.errstate(over="ignore"):
            values = np.asarray(array).reshape(-1).astype(dtype)
        if not np.isfinite(values).all():
            raise ValueError(
                "the model contains weights that are NaN, infinite or too large for float32: train it again"
            )
        self.arrays[name] = values
        return name

    @property
    def bytes(self) -> int:
        return sum(array.nbytes for array in self.arrays.values())

    def text(self) -> str:
        return "".join(
            f"static const {TYPES[array.dtype.name]} {name}[{len(array)}] = {{\n{rows(array)}\n}};\n"
            for name, array in self.arrays.items()
        )


def number(value: float | np.generic) -> str:
    """Format a number such that C reads exactly the same value."""
    if isinstance(value, np.integer | int):
        return str(value) + ("u" if getattr(value, "dtype", None) == np.uint32 else "")
    text = f"{value:.9g}"
    return text + ("f" if any(mark in text for mark in ".en") else ".0f")


def rows(values: Iterable) -> str:
    """Format comma-separated numbers in lines of at most `WIDTH` characters."""
    lines, line = [], "   "
    for word in (f" {number(value)}," for value in values):
        if len(line) + len(word) > WIDTH:
            lines.append(line)
            line = "   "
        line += word
    return "\n".join([*lines, line])


def render(template: str, values: Mapping[str, object]) -> str:
    """Fill in the $names of a template of csrc/."""
    text = files("cornn.export.c").joinpath("csrc", template).read_text(encoding="utf8")
    return Template(text).substitute({name: str(value) for name, value in values.items()})
