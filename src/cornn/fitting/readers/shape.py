"""Convert a table to sequences: one row per sequence (wide), one row per sample (long), or one series."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._arguments import Argument, ArgumentError, choose
from cornn.estimators.frames import split_rows
from cornn.estimators.series import ValidSeries
from cornn.estimators.times import is_only_date
from cornn.estimators.values import MISSING
from cornn.fitting.readers.dataset import FORMS, Dataset, Layout
from cornn.fitting.readers.steps import (
    check_steps,
    describe_no_values,
    group_steps,
    list_value_columns,
    warn_of_unused_time,
)
from cornn.fitting.readers.table import INDEX, Table, shorten

__all__ = ["shape"]


def shape(table: Table, layout: Layout, *, require_target: bool = True) -> Dataset:
    """Convert a table to sequences; `require_target`: whether a missing target column raises an error."""
    if layout.form is not None:
        choose("form", layout.form, FORMS)
    has_target = require_target or all(name in table.columns for name in layout.target)
    target = layout.target if has_target else ()
    table.require(*target, argument="target")
    for argument, name in (("id", layout.id), ("time", layout.time)):
        if name is not None:
            table.require(name, argument=argument)
    if require_target:
        table.require(*(name for name in layout.ignore if name != INDEX), argument="ignore")
    if layout.group is not None and require_target:
        table.require(layout.group, argument="group")
    if table.fitting:
        _check_roles(table, layout)
    ids = None if layout.id is None else _read_labels(table, layout.id, "id")
    form = layout.form or _infer_form(table, layout, ids)
    if INDEX in table.columns and layout.time is None and INDEX not in layout.ignore:
        # Dates that pandas wrote as its index: the times of samples, else only names of rows.
        names = form == "wide"
        layout = replace(layout, ignore=(*layout.ignore, INDEX)) if names else replace(layout, time=INDEX)
    if layout.time is None and form != "wide" and table.fitting:
        layout = replace(layout, time=_find_dates(table, layout))
        if layout.time is None and not layout.values:
            warn_of_unused_time(table, layout)
    if layout.form is None and form == "wide" and not layout.values:
        try:
            check_steps(table, layout)
        except ArgumentError:
            if table.fitting:
                raise
            raise ValueError(
                f"{table.source} seems to have columns that are not steps of a sequence; the model was fitted to a "
                "file without names of columns, so keep the columns of the steps only"
            ) from None
    layout = replace(layout, form=form)
    data = (_shape_wide if form == "wide" else _shape_long)(table, layout, ids, target)
    data = replace(data, decimal_commas=table.decimal_commas)
    if form == "wide" and len(data.features) == 1:
        return data  # its columns are steps; the feature has no name
    return replace(data, sequences=[replace(sequence, names=data.features) for sequence in data.sequences])


def _find_dates(table: Table, layout: Layout) -> str | None:
    """Return the column of dates if there is exactly one, and no sequence has a date twice; otherwise None."""
    named = {layout.id, layout.group, *layout.target, *layout.values, *layout.ignore}
    dated = [name for name, column in table.columns.items() if name not in named and all(map(is_only_date, column))]
    if len(dated) != 1:
        return None
    dates = table.columns[dated[0]]
    samples = dates if layout.id is None else zip(table.columns[layout.id], dates, strict=True)
    return dated[0] if len(set(samples)) == len(dates) else None


def _check_roles(table: Table, layout: Layout) -> None:
    """Check that no column is both a feature and the target, or is used in two other ways."""
    roles = {"id": (layout.id,), "time": (layout.time,), "target": layout.target, "values": layout.values}
    pairs = [*combinations(roles.items(), 2), (("target", layout.target), ("group", (layout.group,)))]
    for (first, names), (second, others) in pairs:
        for name in names:
            if name in others and name in table.columns:
                both = (Argument(first), " and by ", Argument(second))
                raise ArgumentError(f"{table.source}: column {name!r} is named by ", *both, ": name it once")


def _infer_form(table: Table, layout: Layout, ids: list | None) -> str:
    if ids is None and layout.time is not None:
        raise _time_without_id()
    return "wide" if ids is None or (layout.time is None and len(set(ids)) == len(ids)) else "long"


def _time_without_id() -> ArgumentError:
    advice = " needs one row per sample: choose the column of the sequence ids with "
    return ArgumentError(Argument("time"), advice, Argument("id"))


def _read_labels(table: Table, name: str, what: str) -> list:
    """Return a column of ids or groups as they are written, `what` for errors; none may be missing."""
    for row, value in enumerate(table.cells(name)):
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ValueError(
                f"{table.source}, {table.place(row)}: the {what} in column {name!r} is missing: fill it in, or remove "
                "the row"
            )
    return [value.strip() if isinstance(value, str) else value for value in table.columns[name]]


def _shape_wide(table: Table, layout: Layout, ids: list | None, target: tuple[str, ...]) -> Dataset:
    if layout.time is not None:
        raise _time_without_id()
    layout, groups = group_steps(table, layout)
    columns = {name: table.numbers(name) for names in groups.values() for name in names}
    table.check_marks(groups.values())
    values = np.stack([np.stack([columns[name] for name in names], 1) for names in groups.values()], 2)
    known = np.asarray(~np.isnan(values).all(axis=2))
    # Empty cells at the end of a row end its sequence; elsewhere they are missing values.
    lengths = np.where(known.any(1), known.shape[1] - known[:, ::-1].argmax(1), 0)
    if (lengths == 0).any():
        raise ValueError(f"{table.source}, {table.place(int(lengths.argmin()))} has no values: remove the row")
    sequences = [ValidSeries(series[:length]) for series, length in zip(values, lengths, strict=True)]
    return Dataset(
        table.source,
        layout,
        tuple(groups),
        sequences,
        list(range(1, len(table) + 1)) if ids is None else ids,
        layout.id or "row",
        _read_targets(table, target, range(len(table))),
        [table.place(row) for row in range(len(table))],
        _read_groups(table, layout, [[row] for row in range(len(table))]),
    )


def _shape_long(table: Table, layout: Layout, ids: list | None, target: tuple[str, ...]) -> Dataset:
    if layout.form == "long" and ids is None:
        needed = Argument("id")
        raise ArgumentError("a table in long form needs ", needed, ", the column that identifies the sequence of a row")
    names = list(layout.values) or list_value_columns(table, layout)
    table.require(*names, argument="values")
    if not names:
        raise describe_no_values(table)
    columns = np.stack([table.numbers(name) for name in names], 1)
    table.check_marks([name] for name in names)
    empty = [name for name, column in zip(names, columns.T, strict=True) if np.isnan(column).all()]
    if table.fitting and not layout.values and 0 < len(empty) < len(names):
        ignore = Argument("ignore", empty)
        raise ArgumentError(f"{table.source}: all values of {shorten(empty)} are missing: omit them with ", ignore)
    times, calendar = (None, None) if layout.time is None else table.times(layout.time)
    if times is not None:
        kinds = ("numbers", "dates")
        dated = calendar is not None
        if layout.dated not in (None, dated):
            raise ValueError(
                f"{table.source}: the times in column {layout.time!r} are {kinds[dated]}, those of the training data "
                f"are {kinds[not dated]}: write them in the same way"
            )
        layout = replace(layout, dated=dated)
    pairs = split_rows(np.zeros(len(table)) if ids is None or layout.form == "series" else np.asarray(ids), times)
    ids_found = [1] if layout.form == "series" else [name for name, _ in pairs]
    rows = [rows_of_id for _, rows_of_id in pairs]
    sequences = []
    for own_id, index in enumerate(rows):
        if times is not None:
            _check_times(table, layout, times, index)
        if np.isnan(columns[index]).all():
            raise ValueError(
                f"{table.source}, {table.place(int(index[0]))}: sequence {ids_found[own_id]} has no values: remove it"
            )
        sequences.append(ValidSeries(columns[index], None if times is None else times[index]))
    places = [f"sequence {name}, starting in {table.place(int(index.min()))}" for name, index in
              zip(ids_found, rows, strict=True)]  # fmt: skip
    return Dataset(
        table.source,
        replace(layout, values=tuple(names)),
        tuple(names),
        sequences,
        ids_found,
        layout.id or "series",
        None if layout.form == "series" else _read_sequence_targets(table, target, rows),
        places,
        _read_groups(table, layout, rows),
        calendar,
    )


def _read_groups(table: Table, layout: Layout, rows: Sequence[Sequence[int] | NDArray]) -> list[str] | None:
    """Return the group of each sequence, which must be the same in all of its rows; predictions need none."""
    if layout.group is None or not table.fitting:
        return None
    column = _read_labels(table, layout.group, "group")
    _check_constant(table, "group", layout.group, column, rows)
    return [str(column[int(min(index))]) for index in rows]


def _check_times(table: Table, layout: Layout, times: NDArray, index: NDArray) -> None:
    same = np.flatnonzero(np.diff(times[index]) <= 0)
    if len(same):
        first, second = (table.place(int(index[same[0] + k])) for k in (0, 1))
        raise ValueError(
            f"{table.source}: {first} and {second} have the same time in column {layout.time!r}: remove one, since a "
            "sequence has one sample per time"
        )


def _check_constant(table: Table, what: str, name: str, column: list, rows: Sequence[Sequence[int] | NDArray]) -> None:
    """Check that a column has the same value in all rows of a sequence."""
    for index in rows:
        first = int(min(index))
        other = next((int(row) for row in index if column[row] != column[first]), None)
        if other is not None:
            raise ValueError(
                f"{table.source}, {table.place(other)}: the {what} {name!r} is {column[other]!r} after "
                f"{column[first]!r} in the same sequence: a {what} must be constant per sequence"
            )


def _read_sequence_targets(table: Table, target: tuple[str, ...], rows: list[NDArray]) -> list[tuple] | None:
    """Return one target per sequence, which must be the same in all of its rows."""
    for name in target:
        _check_constant(table, "target", name, table.cells(name), rows)
    return _read_targets(table, target, [int(index.min()) for index in rows])


def _read_targets(table: Table, names: tuple[str, ...], rows: Any) -> list[tuple] | None:
    if not names:
        return None
    for name in names:
        table.cells(name)  # checks decimals
    columns = [[_clean_cell(value) for value in table.columns[name]] for name in names]
    return [tuple(column[row] for column in columns) for row in rows]


def _clean_cell(value: Any) -> Any:
    if isinstance(value, str):
        value = value.strip()
        return None if value.lower() in MISSING else value
    if isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return None if value != value else float(value)
    return None if value is None else str(value)
