"""Convert a table to sequences: one row per sequence (wide), one row per sample (long), or one series."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._arguments import Argument, ArgumentError
from cornn.estimators.frames import split_rows
from cornn.estimators.series import ValidSeries
from cornn.estimators.times import is_date
from cornn.fitting.readers.dataset import FORMS, Dataset, Layout
from cornn.fitting.readers.table import FITTED_WITH, INDEX, MISSING, Table, parse_number, shorten

__all__ = ["shape"]

NUMBERED = re.compile(r"(.*?)[_.\- ]?(\d+)")
"""Name of a column with one step of one feature, for instance speed_12."""
FEW = 3  # minimum number of columns that can be the steps of a sequence unless the form is given
SOME = 20  # minimum number of rows for which repeated values suggest one row per sample
WIDE = Argument("form", "wide")


def shape(table: Table, layout: Layout, *, require_target: bool = True) -> Dataset:
    """Convert a table to sequences; `require_target`: whether a missing target column raises an error."""
    if layout.form is not None and layout.form not in FORMS:
        raise ValueError(f"unknown form {layout.form!r}: choose one of {', '.join(FORMS)}")
    there = require_target or all(name in table.columns for name in layout.target)
    table.require(*(layout.target if there else ()), argument="target")
    for argument, name in (("id", layout.id), ("time", layout.time)):
        if name is not None:
            table.require(name, argument=argument)
    if require_target:
        table.require(*(name for name in layout.ignore if name != INDEX), argument="ignore")
    if INDEX in table.columns and layout.time is None:
        # Dates that pandas wrote as its index: the times of a series, else only names of rows.
        series = layout.form in ("series", "long")
        layout = replace(layout, time=INDEX) if series else replace(layout, ignore=(*layout.ignore, INDEX))
    if layout.group is not None and require_target:
        table.require(layout.group, argument="group")
    if table.fitting:
        _check_roles(table, layout)
    ids = None if layout.id is None else _read_labels(table, layout.id, "id")
    form = layout.form or _infer_form(table, layout, ids)
    if layout.form is None and form == "wide" and not layout.values:
        try:
            _check_steps(table, layout)
        except ArgumentError:
            if table.fitting:
                raise
            raise ValueError(
                f"{table.source} seems to have columns that are not steps of a sequence; the model was fitted to a "
                "file without names of columns, so keep the columns of the steps only"
            ) from None
    layout = replace(layout, form=form)
    target = layout.target if there else ()
    data = (_shape_wide if form == "wide" else _shape_long)(table, layout, ids, target)
    if form == "wide" and len(data.features) == 1:
        return data  # its columns are steps; the feature has no name
    return replace(data, sequences=[replace(own, names=data.features) for own in data.sequences])


def _check_roles(table: Table, layout: Layout) -> None:
    """Check that no column is both learned from and learned, or is used in two other ways."""
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


def _no_values(table: Table) -> ArgumentError:
    values, target, ignore = map(Argument, ("values", "target", "ignore"))
    advice = ("check ", values, ", ", target, " and ", ignore) if table.fitting else (FITTED_WITH,)
    return ArgumentError(f"{table.source} has no columns of values left: ", *advice)


def _read_labels(table: Table, name: str, what: str) -> list:
    """Return a column of ids or groups, `what` for errors; none may be missing."""
    for row, value in enumerate(table.columns[name]):
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ValueError(
                f"{table.source}, {table.place(row)}: the {what} in column {name!r} is missing: fill it in, or remove "
                "the row"
            )
    return [value.strip() if isinstance(value, str) else value for value in table.columns[name]]


def _list_others(table: Table, layout: Layout) -> list[str]:
    used = {layout.id, layout.time, layout.group, *layout.target, *layout.ignore}
    return [name for name in table.columns if name not in used]


def _shape_wide(table: Table, layout: Layout, ids: list | None, target: tuple[str, ...]) -> Dataset:
    if layout.time is not None:
        raise _time_without_id()
    layout, groups = _group_steps(table, layout)
    columns = {name: table.numbers(name) for names in groups.values() for name in names}
    values = np.stack([np.stack([columns[name] for name in names], 1) for names in groups.values()], 2)
    there = np.asarray(~np.isnan(values).all(axis=2))
    # Empty cells at the end of a row end its sequence; elsewhere they are missing values.
    lengths = np.where(there.any(1), there.shape[1] - there[:, ::-1].argmax(1), 0)
    if (lengths == 0).any():
        raise ValueError(f"{table.source}, {table.place(int(lengths.argmin()))} has no values: remove the row")
    sequences = [ValidSeries(own[:length]) for own, length in zip(values, lengths, strict=True)]
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


def _group_steps(table: Table, layout: Layout) -> tuple[Layout, dict[str, list[str]]]:
    """Return the columns of each feature's steps in order: speed_0, speed_1, …; or one feature with all columns.

    The returned layout names them, so that other tables are read in the same way: by the prefix before the numbers,
    or by the names of all columns if they have no numbers.
    """
    names = _list_others(table, layout)
    if layout.values and all(name in names for name in layout.values):
        return layout, {"value": list(layout.values)}
    if not names:
        raise _no_values(table)
    groups = _group_by_prefix(names)
    if layout.values:
        chosen = {name: groups[name] for name in _select_features(table, layout, names, groups)}
    elif sum(map(len, groups.values())) < len(names) or not _have_equal_steps(groups) or _are_times(groups):
        return replace(layout, values=tuple(names)), {"value": names}
    else:
        chosen = groups
    for name, steps in chosen.items():
        if {step for step, _ in steps} != {step for step, _ in next(iter(chosen.values()))}:
            raise ValueError(f"{table.source}: features {next(iter(chosen))} and {name} have different steps")
        for (step, first), (other, second) in pairwise(sorted(steps)):
            if step == other:
                problem = f"{table.source}: columns {first!r} and {second!r} are both step {step}: "
                advice = (
                    ("rename one, or omit it with ", Argument("ignore")) if table.fitting else ("rename or remove one",)
                )
                raise ArgumentError(problem, *advice)
    found = next(iter(chosen.values()))
    if layout.steps:
        _check_gaps(table, layout.steps, dict(found))
    ordered = {name: [column for _, column in sorted(steps)] for name, steps in chosen.items()}
    layout = replace(layout, values=tuple(chosen), steps=layout.steps or tuple(sorted(step for step, _ in found)))
    # A single feature is named "value", whatever its prefix.
    return layout, ordered if len(groups) > 1 else {"value": ordered.popitem()[1]}


def _check_gaps(table: Table, trained: Sequence[int], found: Mapping[int, str]) -> None:
    """Check that no step of the training is missing between two others, such as t7 between t6 and t8."""
    places = [place for place, step in enumerate(trained) if step in found]
    for before, after in pairwise(places):
        if after > before + 1:
            raise ValueError(
                f"{table.source} has no column of step {trained[before + 1]} between {found[trained[before]]!r} and "
                f"{found[trained[after]]!r}, but the training data have one: add it, empty if its values are unknown"
            )


def _group_by_prefix(names: list[str]) -> dict[str, list[tuple[int, str]]]:
    """Return feature -> (number, name) of its columns, for columns whose names end in a number."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := NUMBERED.fullmatch(name):
            groups.setdefault(match[1], []).append((int(match[2]), name))
    return groups


def _check_steps(table: Table, layout: Layout) -> None:
    """Check that the columns look like the steps of a sequence, unless the form is given."""
    names, numbered = _list_others(table, layout), _group_by_prefix(_list_others(table, layout))
    _check_samples(table, layout, [name for name in names if name not in _find_step_names(numbered)])
    # pandas renames equal columns to x, x.1, x.2.
    if _are_times(numbered) or any(stem in names for stem in numbered):
        return
    groups = {stem: steps for stem, steps in numbered.items() if len(steps) >= FEW}
    steps = [name for own in groups.values() for _, name in own]
    rest = [name for name in names if name not in steps]
    if groups and rest:
        raise ArgumentError(
            f"{table.source}: {shorten(rest)} would be read as steps of the sequence, like {steps[0]} to {steps[-1]}: "
            "omit them with ",
            Argument("ignore", rest),
            ", or use all columns as steps with ",
            WIDE,
        )
    for stem, own in groups.items():
        first, *_ = groups
        lacking = sorted({step for step, _ in groups[first]} ^ {step for step, _ in own})
        if lacking:
            raise ArgumentError(
                f"{table.source}: features {first!r} and {stem!r} have different steps, only one has step "
                f"{lacking[0]}: add empty columns, omit columns with ",
                Argument("ignore"),
                ", or use all columns as the steps of one feature with ",
                WIDE,
            )
    if len(names) >= FEW or len(table) < SOME:
        return
    repeated = [name for name in names if 2 * len(set(map(str, table.columns[name]))) <= len(table)]
    if repeated:
        raise ArgumentError(
            f"{table.source}: with one row per sequence, the steps of a sequence would be {' and '.join(names)}. If "
            "each row is a sample, use ",
            Argument("id", repeated[0]),
            " to separate the sequences; else use ",
            WIDE,
        )


ID_NAMES = {"id", "ids", "subject", "patient", "person", "user", "participant", "device", "sensor", "unit", "machine"}
ID_NAMES |= {"series", "sequence", "sample", "case", "trial", "group", "name", "key", "unique_id", "item", "customer"}
TIME_NAMES = {"time", "times", "timestamp", "date", "datetime", "ds", "day", "hour", "minute", "second", "seconds"}
TIME_NAMES |= {"month", "year", "week", "step", "frame", "tick", "cycle", "index", "t", "at"}


def _find_step_names(groups: dict[str, list[tuple[int, str]]]) -> set[str]:
    """Return the columns that are steps of a feature by their numbers."""
    return {name for steps in groups.values() if len(steps) >= FEW for _, name in steps}


def _check_samples(table: Table, layout: Layout, names: list[str]) -> None:
    """Reject a table without ids whose rows are probably samples, not sequences.

    A hint is a column with the name of an id or a time, a column of dates, or a column whose values repeat in blocks
    within which another column counts up.
    """
    ids = [name for name in names if name.strip().lower() in ID_NAMES or name.lower().endswith(("_id", " id"))]
    times = [name for name in names if name.strip().lower() in TIME_NAMES or _has_dates(table, name)]
    if not ids and not times and len(table) >= SOME:
        ids, times = _find_blocks(table, names)
    if (not ids and not times) or layout.id is not None:
        return
    found = dict.fromkeys(ids, "an id") | {name: "a time" for name in times if name not in ids}
    listed = " and ".join(f"{name!r} looks like {what}" for name, what in list(found.items())[:3])
    time = Argument("time", times[0]) if times else None
    if ids:
        advice = ["If each row is a sample, use ", Argument("id", ids[0]), *([] if time is None else [" and ", time])]
    else:
        advice = ["To forecast the next values of one series, use ", time, " and ", Argument("horizon"), ". "]
        advice += ["If each row is a sample, use ", Argument("id"), " with the column of the sequence, and ", time]
    raise ArgumentError(
        f"{table.source}: {listed}, not like a step of a sequence. ",
        *advice,
        "; if each row is a sequence, omit what is not a step with ",
        Argument("ignore", list(found)[:3]),
        ", or use ",
        WIDE,
        " to take all columns as steps",
    )


def _has_dates(table: Table, name: str) -> bool:
    first = next((value for value in table.columns[name] if value is not None and str(value).strip()), None)
    try:
        parse_number(first)
    except (TypeError, ValueError):
        return is_date(first)
    return False


def _find_blocks(table: Table, names: list[str]) -> tuple[list[str], list[str]]:
    """Return a column whose values repeat in blocks, and one that counts up within the blocks."""
    for name in names:
        column = list(map(str, table.columns[name]))
        starts = [row for row in range(len(column)) if row == 0 or column[row] != column[row - 1]]
        if len(starts) != len(set(column)) or not 1 < len(starts) <= len(column) // 2:
            continue
        for other in names:
            if other == name:
                continue
            try:
                values = np.array([parse_number(value) for value in table.columns[other]])
            except (TypeError, ValueError):
                continue
            rises = np.diff(values)
            rises[np.array(starts[1:]) - 1] = 1
            if (rises == rises[0]).all() and rises[0] > 0:
                return [name], [other]
    return [], []


def _are_times(groups: Iterable[str]) -> bool:
    """Return whether the names are times such as 2020-01-31, 8:15 or 0.25."""
    return any(stem and not any(map(str.isalpha, stem)) for stem in groups)


def _have_equal_steps(groups: dict[str, list[tuple[int, str]]]) -> bool:
    """Return whether the numbers are steps: the same for all features; for one feature, not descending."""
    numbers = [[step for step, _ in steps] for steps in groups.values()]
    if len(numbers) == 1:
        return len(numbers[0]) == 1 or any(step <= later for step, later in pairwise(numbers[0]))
    return len({frozenset(steps) for steps in numbers}) == 1


def _select_features(table: Table, layout: Layout, names: list[str], groups: Container[str]) -> tuple[str, ...]:
    """Return the features that the layout names by their prefix."""
    if any(name in names for name in layout.values):
        table.require(*layout.values, argument="values")
    for name in layout.values:
        if name not in groups:
            missing = f"columns {name}_0, {name}_1, … or {name}" if name else "numbered columns (0, 1, …)"
            prefix = (Argument("values"), " names a feature by the prefix before the number")
            advice = prefix if table.fitting else (FITTED_WITH,)
            raise ArgumentError(f"{table.source} has no {missing}: the columns are {shorten(names)}; ", *advice)
    return layout.values


def _shape_long(table: Table, layout: Layout, ids: list | None, target: tuple[str, ...]) -> Dataset:
    if layout.form == "long" and ids is None:
        needed = Argument("id")
        raise ArgumentError("a table in long form needs ", needed, ", the column that identifies the sequence of a row")
    names = list(layout.values) or _list_others(table, layout)
    table.require(*names, argument="values")
    if not names:
        raise _no_values(table)
    columns = np.stack([table.numbers(name) for name in names], 1)
    times, calendar = (None, None) if layout.time is None else table.times(layout.time)
    pairs = split_rows(np.zeros(len(table)) if ids is None or layout.form == "series" else np.asarray(ids), times)
    found = [1] if layout.form == "series" else [name for name, _ in pairs]
    rows = [own for _, own in pairs]
    sequences = []
    for own_id, index in enumerate(rows):
        if times is not None:
            _check_times(table, layout, times, index)
        if np.isnan(columns[index]).all():
            raise ValueError(
                f"{table.source}, {table.place(int(index[0]))}: sequence {found[own_id]} has no values: remove it"
            )
        sequences.append(ValidSeries(columns[index], None if times is None else times[index]))
    places = [f"sequence {name}, starting in {table.place(int(index.min()))}" for name, index in
              zip(found, rows, strict=True)]  # fmt: skip
    return Dataset(
        table.source,
        replace(layout, values=tuple(names)),
        tuple(names),
        sequences,
        found,
        layout.id or "series",
        None if layout.form == "series" else _read_sequence_targets(table, target, rows, found),
        places,
        _read_groups(table, layout, rows),
        calendar,
    )


def _read_groups(table: Table, layout: Layout, rows: Sequence[Sequence[int] | NDArray]) -> list[str] | None:
    """Return the group of each sequence, which must be the same in all of its rows; predictions need none."""
    if layout.group is None or not table.fitting:
        return None
    column = _read_labels(table, layout.group, "group")
    for index in rows:
        first = int(min(index))
        other = next((int(row) for row in index if column[row] != column[first]), None)
        if other is not None:
            raise ValueError(
                f"{table.source}, {table.place(other)}: the group {layout.group!r} is {column[other]!r} after "
                f"{column[first]!r} in the same sequence: a group must be constant per sequence"
            )
    return [str(column[int(min(index))]) for index in rows]


def _check_times(table: Table, layout: Layout, times: NDArray, index: NDArray) -> None:
    same = np.flatnonzero(np.diff(times[index]) <= 0)
    if len(same):
        first, second = (table.place(int(index[same[0] + k])) for k in (0, 1))
        raise ValueError(
            f"{table.source}: {first} and {second} have the same time in column {layout.time!r}: remove one, since a "
            "sequence has one sample per time"
        )


def _read_sequence_targets(table: Table, target: tuple[str, ...], rows: list[NDArray], ids: list) -> list[tuple] | None:
    """Return one target per sequence, which must be the same in all of its rows."""
    for name in target:
        column = table.columns[name]
        for own, index in zip(ids, rows, strict=True):
            first = int(index.min())
            other = next((int(row) for row in index if column[row] != column[first]), None)
            if other is not None:
                raise ValueError(
                    f"{table.source}, {table.place(other)}: the target {name!r} is {column[other]!r} after "
                    f"{column[first]!r} in sequence {own}: a target must be constant per sequence"
                )
    return _read_targets(table, target, [int(index.min()) for index in rows])


def _read_targets(table: Table, names: tuple[str, ...], rows: Any) -> list[tuple] | None:
    if not names:
        return None
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
