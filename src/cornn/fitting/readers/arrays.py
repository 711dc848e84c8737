"""Read numpy arrays: `numpy.savez("data.npz", X=…, y=…)`."""

import zipfile
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cornn._arguments import Argument, ArgumentError
from cornn.estimators.series import ValidSeries
from cornn.estimators.times import compute_gaps
from cornn.fitting.readers.dataset import Dataset, Layout, name_features
from cornn.fitting.readers.table import shorten

__all__ = ["read_npy", "read_npz"]


def read_npz(path: Path, layout: Layout, *, require_target: bool = True) -> Dataset:
    """Read an .npz file.

    The arrays are X (sequences, time, features) or (sequences, time), padded at the end if there are `lengths`
    (sequences,); and optionally y, the targets, `times` (sequences, time) and `ids` (sequences,). The layout
    may give other names of X and y.
    """
    arrays = _load_arrays(path)
    if layout.form is not None and not {*layout.values, *layout.target} & set(arrays):
        # The names of columns are those of a model fitted to a table, or there are none.
        layout = Layout(form="series" if layout.form == "series" else None, axes=layout.axes)
    names = {"X": layout.values[0] if layout.values else "X", "y": layout.target[0] if layout.target else "y"}
    if not layout.values and "X" not in arrays and "X_train" in arrays:
        names = {"X": "X_train", "y": layout.target[0] if layout.target else "y_train"}
    if len(layout.values) > 1 or len(layout.target) > 1:
        values, target = Argument("values"), Argument("target")
        raise ArgumentError(f"{path}: ", values, " and ", target, " name one array each (default X and y)")
    for name, argument in ((names["X"], "values"), (names["y"], "target")):
        required = argument == "values" or (require_target and layout.target)
        if required and name not in arrays:
            advice = ("; choose one with ", Argument(argument)) if require_target else ()
            raise ArgumentError(f"{path} has no array {name!r}: the arrays are {shorten(list(arrays))}", *advice)
    data = _read_arrays(path, arrays, names, layout)
    if names["X"] != "X_train" or not {"X_test", "y_test"} <= set(arrays):
        return data
    return replace(data, companion=read_npz(path, replace(layout, values=("X_test",), target=("y_test",))))


def _read_arrays(path: Path, arrays: dict[str, NDArray], names: dict[str, str], layout: Layout) -> Dataset:
    """Return the data set of arrays; names: those of X and y."""
    X, notes = _arrange(path, arrays[names["X"]], names["X"], layout)
    X = X.astype(np.float64).reshape(*X.shape[:2], -1)
    lengths = _read_lengths(path, arrays.get("lengths"), X)
    for name in ("times", "ids", names["y"]):
        if name in arrays and (arrays[name].ndim == 0 or len(arrays[name]) != len(X)):
            raise ValueError(f"{path}: {name} has shape {arrays[name].shape}, but there are {len(X)} sequences")
    times = seconds = arrays.get("times")
    if times is not None and times.shape != X.shape[:2]:
        raise ValueError(f"{path}: times has shape {times.shape}, expected {X.shape[:2]}")
    if times is not None and times.dtype.kind == "M":
        seconds = (times - np.datetime64(0, "s")) / np.timedelta64(1, "s")
    sequences = []
    for row, length in enumerate(lengths):
        values, own_times = X[row, :length], None
        if np.isinf(values).any():
            step = int(np.argwhere(np.isinf(values))[0][0])
            raise ValueError(
                f"{path}, row {row + 1}, step {step + 1} contains infinity: replace it; NaN marks a missing value"
            )
        if np.isnan(values).all():
            raise ValueError(f"{path}, row {row + 1} has no values: remove the empty sequence")
        if times is not None and seconds is not None:
            own_times = seconds[row, :length].astype(np.float64)
            compute_gaps(own_times, f"{path}, row {row + 1}", times[row, :length])
        sequences.append(ValidSeries(values, own_times))
    ids = arrays["ids"].tolist() if "ids" in arrays else list(range(1, len(X) + 1))
    return Dataset(
        str(path),
        layout,
        name_features(X.shape[2]),
        sequences,
        ids,
        "id" if "ids" in arrays else "row",
        _read_target(path, arrays.get(names["y"])),
        [f"row {row + 1}" for row in range(len(X))],
        notes=notes,
    )


def _arrange(path: Path, X: NDArray, name: str, layout: Layout) -> tuple[NDArray, tuple[str, ...]]:
    """Return an array as (sequences, time, features) or (sequences, time), and a note if the axes look exchanged."""
    if layout.form == "series" and X.ndim == 1:
        X = X[None]
    if X.dtype.kind not in "fiub" or X.ndim not in (2, 3) or 0 in X.shape:
        raise ValueError(
            f"{path}: {name} is {X.dtype} of shape {X.shape}, expected numbers, (sequences, time, features) or "
            "(sequences, time)"
        )
    if X.ndim == 2:
        return X, ()
    X = X.swapaxes(1, 2) if layout.axes == "nct" else X
    if X.shape[1] >= X.shape[2]:
        return X, ()
    other = "(sequences, features, time), set the layout to nct"
    other = other if layout.axes == "ntc" else "(sequences, time, features), set the layout to ntc"
    return X, (f"{name} has {X.shape[1]} steps of {X.shape[2]} features: if its axes are {other}",)


def read_npy(path: Path, layout: Layout) -> Dataset:
    """Read an .npy file: X alone, to forecast or to predict, or one series."""
    try:
        X = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(
            f"{path} is not an .npy file of numbers ({str(error)[:100]}): save it with numpy.save"
        ) from None
    arrays = {"the array": X[None] if X.ndim == 1 else X}
    data = _read_arrays(path, arrays, {"X": "the array", "y": "y"}, layout)
    return replace(data, remedy=("save X and y in an .npz file, or use ", Argument("task", "forecast")))


class _PythonObjectsError(ValueError):
    """An archive has arrays that only unpickling could read."""


def _load_arrays(path: Path) -> dict[str, NDArray]:
    try:
        # Unpickling objects could execute code.
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            try:
                return {name: file[name] for name in file.files}
            except ValueError:
                raise _PythonObjectsError(
                    f"{path} contains Python objects, which are not read because that could execute code: save arrays "
                    "of numbers or strings; pad sequences of unequal lengths and add an array `lengths`"
                ) from None
    except _PythonObjectsError:
        raise
    except ValueError:
        raise ValueError(f"{path} is not an .npz file: save it with numpy.savez") from None
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, KeyError, NotImplementedError, TypeError):
        raise ValueError(f"{path} is truncated or corrupt: save it again") from None


def _read_lengths(path: Path, lengths: NDArray | None, X: NDArray) -> list[int]:
    if lengths is None:
        return [X.shape[1]] * len(X)
    if lengths.shape != (len(X),) or lengths.dtype.kind not in "iu":
        raise ValueError(f"{path}: lengths has shape {lengths.shape}, expected integers of shape ({len(X)},)")
    wrong = np.flatnonzero((lengths < 1) | (lengths > X.shape[1]))
    if len(wrong):
        raise ValueError(
            f"{path}, row {wrong[0] + 1}: its length is {lengths[wrong[0]]}, expected 1 to {X.shape[1]}; remove empty "
            "sequences"
        )
    return lengths.tolist()


def _read_target(path: Path, target: NDArray | None) -> list[tuple] | None:
    if target is None:
        return None
    if target.ndim > 2 or target.dtype.kind not in "biufU":
        raise ValueError(
            f"{path}: targets are {target.dtype} of shape {target.shape}, expected numbers or strings, one per row"
        )

    def cell(value):
        return str(value) if isinstance(value, bool | str) else None if value != value else float(value)

    return [tuple(cell(value) for value in row) for row in target.reshape(len(target), -1).tolist()]
