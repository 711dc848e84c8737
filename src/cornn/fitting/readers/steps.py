"""The columns of a wide table that are the steps of its sequences, and tables that are probably not wide."""

import itertools
import re
import warnings
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from cornn._arguments import Argument, ArgumentError
from cornn.estimators.times import is_only_date
from cornn.estimators.values import parse_number
from cornn.fitting.readers.dataset import Layout
from cornn.fitting.readers.table import FITTED_WITH, Table, shorten

__all__ = ["check_steps", "describe_no_values", "group_steps", "list_value_columns", "warn_of_unused_time"]

NUMBERED = re.compile(r"(.*?)[_.\- ]?(\d+)")
"""Name of a column with one step of one feature, for instance speed_12."""
FEW = 3  # minimum number of columns that can be the steps of a sequence unless the form is given
SOME = 20  # minimum number of rows for which repeated values suggest one row per sample
WIDE = Argument("form", "wide")


def describe_no_values(table: Table) -> ArgumentError:
    """Return the error of a table whose columns are all used otherwise."""
    values, target, ignore = map(Argument, ("values", "target", "ignore"))
    advice = ("check ", values, ", ", target, " and ", ignore) if table.fitting else (FITTED_WITH,)
    return ArgumentError(f"{table.source} has no columns of values left: ", *advice)


def list_value_columns(table: Table, layout: Layout) -> list[str]:
    """Return the columns that no argument names."""
    used = {layout.id, layout.time, layout.group, *layout.target, *layout.ignore}
    return [name for name in table.columns if name not in used]


def group_steps(table: Table, layout: Layout) -> tuple[Layout, dict[str, list[str]]]:
    """Return the columns of each feature's steps in order: speed_0, speed_1, …; or one feature with all columns.

    The returned layout names them, so that other tables are read in the same way: by the prefix before the numbers,
    or by the names of all columns if they have no numbers.
    """
    names = list_value_columns(table, layout)
    if layout.values and not layout.steps and all(name in names for name in layout.values):
        return layout, {"value": list(layout.values)}
    if not names:
        raise describe_no_values(table)
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
        for (step, first), (other, second) in itertools.pairwise(sorted(steps)):
            if step == other:
                problem = f"{table.source}: columns {first!r} and {second!r} are both step {step}: "
                advice = (
                    ("rename one, or omit it with ", Argument("ignore")) if table.fitting else ("rename or remove one",)
                )
                raise ArgumentError(problem, *advice)
    columns = next(iter(chosen.values()))
    if layout.steps:
        _check_gaps(table, layout.steps, dict(columns))
    ordered = {name: [column for _, column in sorted(steps)] for name, steps in chosen.items()}
    layout = replace(layout, values=tuple(chosen), steps=layout.steps or tuple(sorted(step for step, _ in columns)))
    # A single feature is named "value", whatever its prefix.
    return layout, ordered if len(groups) > 1 else {"value": ordered.popitem()[1]}


def _check_gaps(table: Table, trained: Sequence[int], columns: Mapping[int, str]) -> None:
    """Check that no step of the training is missing between two others, such as t7 between t6 and t8."""
    places = [place for place, step in enumerate(trained) if step in columns]
    for before, after in itertools.pairwise(places):
        if after > before + 1:
            raise ValueError(
                f"{table.source} has no column of step {trained[before + 1]} between {columns[trained[before]]!r} and "
                f"{columns[trained[after]]!r}, but the training data have one: add it, empty if its values are unknown"
            )


def _group_by_prefix(names: list[str]) -> dict[str, list[tuple[int, str]]]:
    """Return feature -> (number, name) of its columns, for columns whose names end in a number."""
    groups: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        if match := NUMBERED.fullmatch(name):
            groups.setdefault(match[1], []).append((int(match[2]), name))
    return groups


def check_steps(table: Table, layout: Layout) -> None:
    """Check that the columns look like the steps of a sequence, unless the form is given."""
    names = list_value_columns(table, layout)
    numbered = _group_by_prefix(names)
    groups = {stem: steps for stem, steps in numbered.items() if len(steps) >= FEW}
    steps = [name for group in groups.values() for _, name in group]
    rest = [name for name in names if name not in steps]
    _check_samples(table, layout, rest)
    # pandas renames equal columns to x, x.1, x.2.
    if _are_times(numbered) or any(stem in names for stem in numbered):
        return
    if groups and rest:
        raise ArgumentError(
            f"{table.source}: {shorten(rest)} would be read as steps of the sequence, like {steps[0]} to {steps[-1]}: "
            "omit them with ",
            Argument("ignore", rest),
            ", or use all columns as steps with ",
            WIDE,
        )
    for stem, group in groups.items():
        first, *_ = groups
        lacking = sorted({step for step, _ in groups[first]} ^ {step for step, _ in group})
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


def _check_samples(table: Table, layout: Layout, names: list[str]) -> None:
    """Reject a table without ids whose rows are probably samples, not sequences.

    A hint is a column with the name of an id or a time, a column of dates, or a column whose values repeat in blocks
    within which another column counts up.
    """
    ids = [name for name in names if name.strip().lower() in ID_NAMES or name.lower().endswith(("_id", " id"))]
    times = [name for name in names if name.strip().lower() in TIME_NAMES or _has_dates(table, name)]
    if not ids and not times and len(table) >= SOME:
        ids, times = _find_blocks(table, names)
    if times and not any(_separates(table, name, times[0]) for name in ids):
        others = (name for name in names if name not in times and _separates(table, name, times[0]))
        ids = [*itertools.islice(others, 1), *ids]
    if (not ids and not times) or layout.id is not None:
        return
    suspects = dict.fromkeys(ids, "an id") | {name: "a time" for name in times if name not in ids}
    listed = " and ".join(f"{name!r} looks like {what}" for name, what in list(suspects.items())[:3])
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
        Argument("ignore", list(suspects)[:3]),
        ", or use ",
        WIDE,
        " to take all columns as steps",
    )


def warn_of_unused_time(table: Table, layout: Layout) -> None:
    """Warn of a column that would be a feature, but has the name of a time and rises within each sequence."""
    ids = [0] * len(table) if layout.id is None else table.columns[layout.id]
    for name in list_value_columns(table, layout):
        if name.strip().lower() in TIME_NAMES:
            values = table.numbers(name)
            pairs = itertools.pairwise(range(len(table)))
            rises = [values[later] > values[row] for row, later in pairs if ids[row] == ids[later]]
            if rises and all(rises):
                words = f"{name!r} looks like a time, but is read as a feature: name it as the time, or ignore it"
                warnings.warn(f"{table.source}: {words}", stacklevel=2)


def _separates(table: Table, name: str, time: str) -> bool:
    """Return whether no value of a column has a time twice, though times repeat: the column is an id of sequences."""
    ids, times = list(map(str, table.columns[name])), list(map(str, table.columns[time]))
    pairs = set(zip(ids, times, strict=True))
    return len(set(times)) < len(pairs) == len(ids) >= 2 * len(set(ids))


def _has_dates(table: Table, name: str) -> bool:
    first = next((value for value in table.columns[name] if value is not None and str(value).strip()), None)
    return is_only_date(first)


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
                values = np.array([parse_number(value) for value in table.cells(other)])
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
        return len(numbers[0]) == 1 or any(step <= later for step, later in itertools.pairwise(numbers[0]))
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
