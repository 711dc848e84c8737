"""Read and check the inputs of estimators: arrays, lists, `Series` and DataFrames. Errors name sequence and step."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from cornn.estimators.dated_index import are_even, index_times, is_dated, read_date_gaps
from cornn.estimators.frames import Columns, read_long, select_columns
from cornn.estimators.series import SequenceData, Series, ValidSeries, check_known
from cornn.estimators.times import compute_gaps, read_gaps
from cornn.estimators.values import is_frame, is_missing, to_array, to_float_array
from cornn.estimators.wide_frames import check_index, check_order, check_rows, check_same_order
from cornn.forecasting.series import describe_other_unit

__all__ = ["check_as_trained", "is_single", "read_sequences", "warn_of_empty_features", "warn_of_other_unit"]


LAYOUTS = ("ntc", "nct")


def read_sequences(X: Any, columns: Columns, timespans: Any = None, *, warn: bool = False) -> list[SequenceData]:
    """Read and validate sequences.

    Args:
        X: An array (sequences, time, features) or (sequences, time), a list of arrays, `Series` or pandas objects, or a
            DataFrame. Dates or floats in the index of pandas objects are times if those of any sequence are not evenly
            spaced; in a list dates may be texts.
        columns: Columns of DataFrames, and the order of axes.
        timespans: Times since the previous sample, in the layout of X without features, or (time,) for all sequences.
        warn: Whether to warn if a three-dimensional array has fewer steps than features.

    Returns:
        One entry per sequence.
    """
    if is_frame(X) and columns.id is not None:
        if timespans is not None:
            raise ValueError("a long-form DataFrame has its times in a column: set time_column and omit timespans")
        return read_long(X, columns)
    if hasattr(X, "toarray") or hasattr(X, "todense"):
        raise TypeError("sparse input is not supported: pass a dense array, X.toarray()")
    if columns.layout not in LAYOUTS:
        raise ValueError(f"unknown layout {columns.layout!r}: choose one of {', '.join(LAYOUTS)}")
    if columns.single and (series := _read_single(X)) is not None:
        X = [series]
    if is_frame(X):
        if columns.single:
            check_rows(X)
        check_order(X)
        check_same_order(X, columns.steps or ())
        X = np.asarray(X)
    if not isinstance(X, list | tuple):
        X = to_array(X)
        if np.iscomplexobj(X):
            raise ValueError("Complex data not supported: pass real numbers, for instance real and imaginary parts")
        if X.ndim == 0 or (X.ndim == 1 and X.dtype != object):
            raise ValueError(
                f"X has shape {X.shape}, expected (sequences, time, features) or (sequences, time). Reshape your data "
                "with X.reshape(1, -1) if it is a single sequence"
            )
    if len(X) == 0:
        raise ValueError("X contains no sequences: 0 sample(s) were passed, at least 1 is required")
    if isinstance(X, np.ndarray) and X.ndim > 1 and 0 in X.shape[1:]:
        raise ValueError(f"X has no steps: 0 feature(s) (shape={X.shape}) while a minimum of 1 is required.")
    if isinstance(X, np.ndarray) and X.ndim == 3:
        X = X.swapaxes(1, 2) if columns.layout == "nct" else X
        if warn and X.shape[1] < X.shape[2]:
            warnings.warn(
                f"X has {X.shape[1]} steps of {X.shape[2]} features: if its axes are (sequences, features, time), use "
                "layout='nct'"
                if columns.layout == "ntc"
                else f"X has {X.shape[1]} steps of {X.shape[2]} features: if its axes are (sequences, time, features), "
                "use layout='ntc'",
                stacklevel=3,
            )
    sequences = [_sequence(item, number, columns.values) for number, item in enumerate(X)]
    dates = read_date_gaps(X) if timespans is None else []
    if any(gaps is not None and not are_even(gaps) for gaps in dates):
        pairs = zip(sequences, dates, strict=True)
        sequences = [sequence if gaps is None else sequence._replace(gaps=gaps) for sequence, gaps in pairs]
    if not columns.single:
        for number, sequence in enumerate(sequences):
            check_known(sequence, f"sequence {number}")
    if timespans is not None:
        single = isinstance(timespans, np.ndarray) and timespans.ndim == 1 and timespans.dtype != object
        if not single and len(timespans) != len(sequences):
            raise ValueError(f"X has {len(sequences)} sequences and timespans {len(timespans)}: pass one entry each")
        timespans = [timespans] * len(sequences) if single else timespans
        sequences = [
            sequence._replace(gaps=read_gaps(timespans, number, sequence)) for number, sequence in enumerate(sequences)
        ]
    _check_alike(sequences)
    return sequences


def is_single(X: Any) -> bool:
    """Return whether X is one series by itself: a one-dimensional array, a pandas Series, or a frame by dates."""
    return _read_single(X) is not None


def _read_single(X: Any) -> "Series | None":
    """Return one series that is given by itself: a one-dimensional array, a pandas Series, or a frame by dates."""
    if is_frame(X):
        return Series(X, index_times(X.index)) if is_dated(X) else None
    if not is_dated(X):
        check_index(X)
    if isinstance(X, list | tuple | range) and len(X) and all(map(_is_number, X)):
        return Series(np.asarray(X))
    if getattr(X, "ndim", None) == 1 and (
        getattr(X, "dtype", np.dtype(object)).kind != "O" or (len(X) and all(map(_is_number, X)))
    ):
        return Series(np.asarray(X), index_times(X.index) if is_dated(X) else None)
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) or is_missing(value)


def _sequence(item: Any, number: int, names: Sequence[Any] | None = None) -> SequenceData:
    if isinstance(item, ValidSeries):
        return SequenceData(item.values, None if item.times is None else np.diff(item.times, prepend=np.nan))
    series = item if isinstance(item, Series) else Series(item)
    if is_frame(series.values) and names:
        values = select_columns(series.values, names, f"sequence {number}, ")
    else:
        values = to_float_array(series.values, f"sequence {number}")
    if values.ndim == 1:
        values = values[:, None]
    if values.ndim != 2:
        raise ValueError(f"sequence {number} has shape {values.shape}, expected (time, features) or (time)")
    if len(values) == 0:
        raise ValueError(f"sequence {number} is empty: remove it, a sequence needs at least one step")
    gaps = None if series.times is None else compute_gaps(series.times, f"sequence {number}")
    if gaps is not None and len(gaps) != len(values):
        raise ValueError(f"sequence {number} has {len(values)} steps but {len(gaps)} times: pass one time per step")
    return SequenceData(values, gaps)


def warn_of_empty_features(sequences: Sequence[SequenceData], names: Sequence[Any] | None) -> None:
    """Warn of features of the training data without a known value, as nothing can be learned from them.

    Args:
        sequences: The sequences.
        names: Names of the features, or None.
    """
    empty = np.ones(sequences[0].values.shape[1], bool)
    for sequence in sequences:
        # The first sequences decide for almost all features.
        empty &= np.isnan(sequence.values).all(0)
        if not empty.any():
            return
    where = [f"{number}" if names is None else repr(str(names[number])) for number in np.flatnonzero(empty).tolist()]
    warnings.warn(
        f"the training data have no values of feature {', '.join(where)}: leave it out, as predictions from data with "
        "such values are unreliable",
        stacklevel=2,
    )


def check_as_trained(sequences: Sequence[SequenceData], features: int, *, timed: bool) -> None:
    """Check that sequences match the training data of an estimator.

    Args:
        sequences: The sequences.
        features: Number of features in training.
        timed: Whether the estimator was fitted with times.
    """
    for number, sequence in enumerate(sequences):
        if sequence.values.shape[1] != features:
            raise ValueError(
                f"sequence {number} of X has {sequence.values.shape[1]} features, but this estimator is expecting "
                f"{features} features as input, as in training"
            )
        if (sequence.gaps is not None) != timed:
            fitted, verb = ("with", "lacks") if timed else ("without", "has")
            remedy = "pass times too" if timed else "fit with times too, or fill the gaps with rows of missing values"
            raise ValueError(f"this estimator was fitted {fitted} times, but sequence {number} {verb} them: {remedy}")


def warn_of_other_unit(sequences: Sequence[SequenceData], unit: float) -> None:
    """Warn if times seem to be in another unit than those of the training data.

    This is not an error: the sequences of the training data may differ as much from each other.

    Args:
        sequences: Sequences with times.
        unit: Median time between the samples of the training data.
    """
    gaps = np.concatenate([np.asarray(sequence.gaps)[1:] for sequence in sequences])
    if problem := describe_other_unit(gaps[gaps > 0], unit):
        warnings.warn(problem, stacklevel=2)


def _check_alike(sequences: list[SequenceData]) -> None:
    first = sequences[0]
    for number, sequence in enumerate(sequences):
        if sequence.values.shape[1] != first.values.shape[1]:
            raise ValueError(
                f"sequence {number} has {sequence.values.shape[1]} features, sequence 0 has {first.values.shape[1]}: "
                "all must have the same (features are columns, steps are rows)"
            )
        if (sequence.gaps is None) != (first.gaps is None):
            raise ValueError(
                f"only one of sequence {number} and sequence 0 has times: pass times for all sequences or for none"
            )
