"""Values, ids and labels of any container as arrays. Errors name their place."""

import math
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

__all__ = [
    "MISSING",
    "format_value",
    "is_frame",
    "is_missing",
    "parse_number",
    "read_labels",
    "to_array",
    "to_float_array",
]

MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "<na>", "#n/a", "#nv"}
"""Spellings of a missing value in files, in lower case; the last are those of pandas and of spreadsheets."""


def is_frame(X: Any) -> bool:
    """Return whether X is a table with named columns: a pandas DataFrame or similar."""
    return hasattr(X, "columns") and hasattr(X, "__getitem__")


def to_array(values: Any) -> NDArray:
    """Return a tensor, a masked array or any other values as an array; masked values are missing."""
    if isinstance(values, torch.Tensor):
        values = values.detach().cpu()
        values = values.float() if values.dtype == torch.bfloat16 else values
    if isinstance(values, np.ma.MaskedArray) and values.mask.any():
        return np.where(values.mask, np.nan, values.data)
    return np.asarray(values)


def to_float_array(values: Any, where: str, axis: str = "step") -> NDArray[np.float64]:
    """Convert to float64. NaN and None are missing values; infinity and non-numbers raise an error.

    Args:
        values: The values.
        where: What they are, for errors.
        axis: What the first index counts, for errors.
    """
    array = to_array(values)
    if array.dtype == object:
        # pandas has a missing value of its own, pandas.NA.
        array = array.copy()
        array[np.vectorize(is_missing, otypes=[bool])(array)] = None
    if np.iscomplexobj(array):
        raise ValueError(f"{where}: Complex data not supported, pass real numbers")
    try:
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        for place, value in np.ndenumerate(array):
            try:
                float("nan" if value is None else value)
            except (TypeError, ValueError):
                at = "".join(f", {name} {index}" for name, index in zip((axis, "feature"), place, strict=False))
                error = (
                    f"{where}{at}: {format_value(value)} is not a number, the argument must be a string of digits or "
                    "a real number (NaN if it is missing)"
                )
                raise (ValueError if isinstance(value, str) else TypeError)(error) from None
        raise
    if np.isinf(array).any():
        place = np.argwhere(np.isinf(array))[0][0]
        raise ValueError(f"{where}, {axis} {place} contains infinity: replace it; NaN marks a missing value")
    return array


def read_labels(labels: Any, where: str, what: str, axis: str) -> NDArray:
    """Return ids, groups, targets or times as an array, all known and of one type.

    Args:
        labels: The labels, shape (rows,).
        where: What contains them, for errors.
        what: What a label is, for errors.
        axis: What the labels belong to, for errors.
    """
    array = np.asarray(labels)
    if array.dtype.kind in "mM":
        missing = np.isnat(array)
    elif array.dtype.kind in "fc":
        missing = np.isnan(array)
    else:
        missing = np.array([is_missing(label) for label in array] if array.dtype == object else [], bool)
    if missing.any():
        raise ValueError(f"{where}, {axis} {missing.argmax()}: the {what} is missing: fill it in, or remove the {axis}")
    if array.dtype == object and len({isinstance(label, str) for label in array}) > 1:
        raise ValueError(f"{where} contains both strings and other types: convert them to one type")
    return array


def is_missing(value: Any) -> bool:
    """Return whether a value is None, NaN, or one of pandas' missing values."""
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def parse_number(value: Any) -> float:
    """Return the value of a cell; NaN if it is missing."""
    if value is None or (isinstance(value, str) and value.strip().lower() in MISSING):
        return math.nan
    return float(value)


def format_value(value: Any) -> str:
    """Format a value without the names of numpy's types."""
    return repr(value.item() if isinstance(value, np.generic) else value)
