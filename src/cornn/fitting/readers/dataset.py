"""The data set that every reader returns: sequences with names and their positions in the file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._arguments import Argument, ArgumentError
from cornn.estimators.series import ValidSeries
from cornn.fitting.readers.calendar import Calendar
from cornn.fitting.readers.decimals import has_decimal_comma

__all__ = ["FORMS", "Dataset", "Layout", "name_features"]

FORMS = ("wide", "long", "series")
"""One row per sequence; one row per sample, with the id of its sequence; one row per sample of a single sequence."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a table, or arrays of an .npz file, contain what.

    Args:
        form: "wide", "long" or "series". None means long if ids repeat, else wide.
        id: The column of the sequence's id.
        time: The column of the sample's time.
        values: The columns of the features. Empty means all columns that are not named elsewhere.
        target: The column or columns to learn.
        ignore: Columns to ignore.
        group: The column of the group, such as a person, whose sequences are never split between training and test.
        axes: Order of the axes of three-dimensional arrays: "ntc" (sequences, time, features) or "nct", as in aeon.
        steps: Numbers of the steps in training, if numbered columns are the steps.
        dated: Whether the times of the training data are dates; None if unknown.
    """

    form: str | None = None
    id: str | None = None
    time: str | None = None
    values: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    group: str | None = None
    axes: str = "ntc"
    steps: tuple[int, ...] = ()
    dated: bool | None = None


def name_features(count: int) -> tuple[str, ...]:
    """Return the names of features of a file without names of columns."""
    return ("value",) if count == 1 else tuple(f"feature {number}" for number in range(count))


@dataclass(frozen=True, eq=False)
class Dataset:
    """Sequences of a file, with their ids and targets."""

    source: str  # path of the file
    layout: Layout  # resolved, so that other files are read in the same way
    features: tuple[str, ...]
    sequences: list[ValidSeries]  # values (time, features); times in seconds, or in the file's own unit
    ids: list[Any]
    id_name: str
    target: list[tuple] | None  # as in the file: one tuple per sequence, strings or numbers, None if missing
    places: list[str]  # position of each sequence in the file
    groups: list[Any] | None = None  # group of each sequence
    calendar: Calendar | None = None  # of times that are dates
    decimal_commas: bool = False  # whether targets that are numbers may have decimal commas
    notes: tuple[str, ...] = ()  # assumptions of the reader, for the user to check
    companion: "Dataset | None" = None  # test data in the same file
    remedy: tuple[str | Argument, ...] = ("choose its column with ", Argument("target"))  # if there is no target

    def __len__(self) -> int:
        return len(self.sequences)

    def select(self, rows: Sequence[int] | NDArray) -> "Dataset":
        """Return a data set of some of the sequences."""

        def pick(items: list) -> list:
            return [items[row] for row in rows]

        return replace(
            self,
            sequences=pick(self.sequences),
            ids=pick(self.ids),
            target=None if self.target is None else pick(self.target),
            places=pick(self.places),
            groups=None if self.groups is None else pick(self.groups),
        )

    def numbers(self) -> NDArray[np.float64]:
        """Return the targets as numbers, shape (sequences,) or (sequences, targets)."""
        numbers = []
        for row, place in zip(self._present(), self.places, strict=True):
            try:
                numbers.append([self._parse(value) for value in row])
            except ValueError:
                problem = f"{self.source}, {place}: the target {row[0]!r} is not a number: "
                remedy = ("correct it, or learn classes with ", Argument("task", "classify"))
                raise ArgumentError(problem, *remedy) from None
            if not np.isfinite(numbers[-1]).all():
                raise ValueError(f"{self.source}, {place}: the target is infinite: correct or remove it")
        table = np.array(numbers)
        return table[:, 0] if table.shape[1] == 1 else table

    def labels(self, known: Sequence[Any] = ()) -> NDArray:
        """Return the targets as labels: integers if all are integers, else strings.

        Args:
            known: The classes of a model. A label that is spelled like one of them is that class, whatever the other
                labels of this data set are: the strings "1" and "x" of a model are not compared with the integer 1.
        """
        rows = self._present()
        if len(rows[0]) > 1:
            target, task = Argument("target"), Argument("task", "regress")
            raise ArgumentError("classes are read from one column: name a single ", target, ", or use ", task)
        values = [row[0] for row in rows]
        if len(known):
            classes = {_spell(label): label for label in known}
            labels = [classes.get(_spell(value), value) for value in values]
            # An array of labels of several types would convert them to strings.
            return np.array(labels) if set(labels) <= set(classes.values()) else np.array(labels, object)
        if all(isinstance(value, str) for value in values):
            try:
                # Only if they are printed in the same way: "01" stays a string.
                integers = [int(value) for value in values]
                values = integers if [str(number) for number in integers] == values else values
            except ValueError:
                pass
        elif all(isinstance(value, float) and value.is_integer() for value in values):
            values = [int(value) for value in values]
        return np.array(values)

    def infer_task(self) -> str:
        """Return "regress" for fractions or more than twenty distinct numbers, else "classify"."""
        rows = self._present()
        if len(rows[0]) > 1:
            return "regress"
        try:
            numbers = {self._parse(row[0]) for row in rows}
        except ValueError:
            return "classify"
        few = len(numbers) <= 20 and all(number.is_integer() for number in numbers)
        return "classify" if few else "regress"

    def _parse(self, value: Any) -> float:
        return float(value.replace(",", ".") if self.decimal_commas and isinstance(value, str) else value)

    def _present(self) -> list[tuple]:
        if self.target is None:
            raise ArgumentError(f"{self.source} has no target: ", *self.remedy)
        for row, place in zip(self.target, self.places, strict=True):
            if any(value is None for value in row):
                raise ValueError(
                    f"{self.source}, {place}: the target is missing: fill it in, or remove the row; an empty "
                    "cell, NA, #N/A, NaN, none, null and ? are missing values, not classes"
                )
        return self.target


def _spell(label: Any) -> str:
    """Return a label as text; a whole number has no fraction, and others have a decimal point."""
    text = str(int(label)) if isinstance(label, float) and label.is_integer() else str(label)
    return text.replace(",", ".") if has_decimal_comma(text) else text
