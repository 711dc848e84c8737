"""Checks of DataFrames in wide form: one row per sequence and one column per step, of one feature."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from cornn.estimators.times import is_date

__all__ = ["check_index", "check_order", "check_rows", "check_same_order"]

NUMBERED = re.compile(r"(.*?)(\d+)")
"""The name of a step: any text, and a number."""


def check_rows(frame: Any) -> None:
    """Reject a frame whose rows may be series or steps: its index is missing, a count, or dates that are not parsed."""
    rows, columns = frame.shape
    index = getattr(frame, "index", None)
    if rows <= columns:
        return
    check_index(frame)
    if index is None or index.dtype.kind in "iuf":
        raise ValueError(
            f"X is a DataFrame of shape {frame.shape} without dates: pass X.to_numpy()[None] for one series of length "
            f"{rows} whose features are the columns, or [Series(X, X.index)] if its index is the time, or X.to_numpy() "
            f"for {rows} series of length {columns}"
        )


def check_index(X: Any) -> None:
    """Reject a pandas object whose index consists of dates that are not parsed."""
    index: Any = getattr(X, "index", None)
    kind = getattr(getattr(index, "dtype", None), "kind", None)
    if kind in ("O", "U") and len(index) and all(map(is_date, index)):
        raise ValueError(
            "the index of X looks like dates but is not one of pandas' types of dates: convert it with "
            "X.set_axis(pandas.to_datetime(X.index))"
        )


def check_order(frame: Any) -> None:
    """Reject a frame with one column per step if the numbers of its columns are not in order, such as t0, t10, t1."""
    matches = [NUMBERED.fullmatch(str(name)) for name in frame.columns]
    stems = [(match[1], int(match[2])) for match in matches if match is not None]
    if len(stems) < len(matches) or len({prefix for prefix, _ in stems}) > 1:
        return
    for (before, (_, earlier)), (after, (_, later)) in pairwise(zip(frame.columns, stems, strict=True)):
        if later <= earlier:
            raise ValueError(
                f"column {before!r} of X comes before column {after!r}: the columns are the steps of a sequence, pass "
                "them in order of time"
            )


def check_same_order(frame: Any, trained: Sequence[str]) -> None:
    """Reject a frame whose columns are in another order than in training, or numbered with a gap or something else.

    There may be fewer columns, or others, because sequences may have any length.

    Args:
        frame: The frame.
        trained: Names of the columns in training.
    """
    places = {name: place for place, name in enumerate(trained)}
    common = [(str(name), places[str(name)]) for name in frame.columns if str(name) in places]
    if len(places) < len(trained) or len({name for name, _ in common}) < len(common):
        return  # equal names do not tell which is which
    for (before, first), (after, second) in pairwise(common):
        if first > second:
            raise ValueError(
                f"column {before!r} of X comes before column {after!r}, in training it came after it: the columns are "
                "the steps of a sequence, pass them in the order of training"
            )
    _check_numbered(frame, list(trained), {name for name, _ in common})


def _check_numbered(frame: Any, trained: list[str], common: set[str]) -> None:
    """Check columns whose names were one text and numbers in training, such as t0, t1, ..., if some are there again."""
    matches = [NUMBERED.fullmatch(name) for name in trained]
    prefixes = {None if match is None else match[1] for match in matches}
    if not common or len(prefixes) > 1 or None in prefixes:
        return
    for name in frame.columns:
        match = NUMBERED.fullmatch(str(name))
        if match is None or match[1] not in prefixes:
            raise ValueError(
                f"column {str(name)!r} of X is not a step like {trained[0]!r} to {trained[-1]!r} in training: omit it"
            )
    places = [place for place, name in enumerate(trained) if name in common]
    for before, after in pairwise(places):
        if after > before + 1:
            raise ValueError(
                f"X has no column {trained[before + 1]!r} between {trained[before]!r} and {trained[after]!r}, which "
                "was a step in training: add it, with NaN if its values are unknown"
            )
