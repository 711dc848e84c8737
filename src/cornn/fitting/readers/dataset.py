"""What every reader gives: sequences with names, and where each stands in its file."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.sequences import Series

__all__ = ["FORMS", "Dataset", "Layout"]

FORMS = ("wide", "long", "series")
"""One row a sequence; one row a sample, with the id of its sequence; one row a sample of a single sequence."""


@dataclass(frozen=True)
class Layout:
    """Which columns of a table hold what; of an .npz, which arrays.

    form: one of FORMS; None: long where ids repeat, else wide.
    id, time: the columns of the sequence's id and of the sample's time.
    values: the features; none: all columns that are not named elsewhere.
    target: what is to be learned, one or several columns.
    ignore: columns to leave out.
    """

    form: str | None = None
    id: str | None = None
    time: str | None = None
    values: tuple[str, ...] = ()
    target: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


@dataclass(frozen=True, eq=False)
class Dataset:
    source: str  # the file, as it was named
    layout: Layout  # as it was understood: it reads other files alike
    features: tuple[str, ...]
    sequences: list[Series]  # values (time, features); times in seconds, or in the file's own unit
    ids: list[Any]
    id_name: str
    target: list[tuple] | None  # as the file has them: a tuple a sequence, texts or numbers, None where missing
    places: list[str]  # where each sequence stands in the file

    def __len__(self) -> int:
        return len(self.sequences)

    def part(self, rows: Sequence[int] | NDArray) -> "Dataset":
        """Some of the sequences."""

        def of(whole: list) -> list:
            return [whole[row] for row in rows]

        target = None if self.target is None else of(self.target)
        return Dataset(
            self.source, self.layout, self.features, of(self.sequences), of(self.ids), self.id_name, target,
            of(self.places),
        )  # fmt: skip

    def numbers(self) -> NDArray[np.float64]:
        """The targets as numbers: (sequences), or (sequences, numbers)."""
        found = []
        for row, place in zip(self._present(), self.places, strict=True):
            try:
                found.append([float(value) for value in row])
            except ValueError:
                raise ValueError(
                    f"{self.source}, {place}: the target {row[0]!r} is no number: correct it, or learn classes with "
                    "--task classify"
                ) from None
            if not np.isfinite(found[-1]).all():
                raise ValueError(f"{self.source}, {place}: the target is infinite: correct it or leave it out")
        table = np.array(found)
        return table[:, 0] if table.shape[1] == 1 else table

    def labels(self) -> NDArray:
        """The targets as classes: whole numbers where all are, else texts."""
        rows = self._present()
        if len(rows[0]) > 1:
            raise ValueError("classes are read from one column: name a single --target, or use --task regress")
        values = [row[0] for row in rows]
        if all(isinstance(value, str) for value in values):
            try:
                # Only as they would be printed: "01" stays a text.
                whole = [int(value) for value in values]
                values = whole if [str(number) for number in whole] == values else values
            except ValueError:
                pass
        elif all(isinstance(value, float) and value.is_integer() for value in values):
            values = [int(value) for value in values]
        return np.array(values)

    def kind(self) -> str:
        """classify or regress: numbers with a fraction, or of more than twenty values, are to be regressed."""
        rows = self._present()
        if len(rows[0]) > 1:
            return "regress"
        try:
            numbers = {float(row[0]) for row in rows}
        except ValueError:
            return "classify"
        few = len(numbers) <= 20 and all(number.is_integer() for number in numbers)
        return "classify" if few else "regress"

    def _present(self) -> list[tuple]:
        if self.target is None:
            raise ValueError(f"{self.source} has no target: name its column with --target")
        for row, place in zip(self.target, self.places, strict=True):
            if any(value is None for value in row):
                raise ValueError(f"{self.source}, {place}: the target is missing: fill it in, or leave the row out")
        return self.target
