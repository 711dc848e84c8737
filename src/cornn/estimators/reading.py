"""How the estimators read X: features by the names of their columns, which a fitted estimator remembers."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from cornn._arguments import to_names
from cornn.estimators.dated_index import is_dated, read_date_gaps
from cornn.estimators.frames import Columns, find_names, flatten_index, sequence_ids
from cornn.estimators.sequences import (
    check_as_trained,
    read_sequences,
    warn_of_empty_features,
    warn_of_other_unit,
)
from cornn.estimators.series import SequenceData
from cornn.estimators.values import is_frame

__all__ = ["SequenceReader"]


class SequenceReader:
    """Mix-in of the estimators that reads X and stores the names of its columns.

    Names of features are in `columns_`, names of steps in `steps_`.

    The columns of a long-form DataFrame, of a DataFrame with an index of dates and of a list of DataFrames have names.
    A DataFrame whose index has two levels, sequence and time, is in long form too.
    Once fitted, an estimator reads such X by these names: columns may be in another order, others are ignored, and a
    missing one is an error. X without names is read by position. So are the columns of a DataFrame in wide form, which
    are steps; those that were there in training must be in the same order.
    """

    id_column: str | None
    time_column: str | None
    value_columns: str | Sequence[str] | None
    layout: str
    n_features_in_: int

    accepts_one_series: ClassVar[bool] = False
    """Whether X may be one series by itself, as for forecasts."""
    fitted_by: ClassVar[str] = "method_"
    """The attribute that `fit` sets last."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()  # pyright: ignore[reportAttributeAccessIssue]
        tags.input_tags.three_d_array = tags.input_tags.two_d_array = tags.input_tags.allow_nan = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return self.fitted_by in vars(self)

    @property
    def feature_names_in_(self) -> NDArray:
        """Names of the features, shape (features,), if the columns of X in `fit` had names."""
        names = vars(self).get("columns_")
        if names is None:
            raise AttributeError("feature_names_in_ exists after `fit` with a DataFrame whose columns are features")
        return np.array(names, dtype=object)

    def ids(self, frame: Any) -> NDArray:
        """Return the ids of the sequences of a long-form DataFrame, in the order of `predict`.

        Args:
            frame: A DataFrame with the column `id_column`, or with an index of two levels.

        Returns:
            The ids, shape (sequences,), in order of first appearance.
        """
        frame, columns = self._flatten_index(frame)
        if columns.id is None:
            raise ValueError("set id_column to read a long-form DataFrame")
        return sequence_ids(frame, columns.id)[0]

    def _read_training(self, X: Any, timespans: Any, leave_out: Sequence[str] = ()) -> list[SequenceData]:
        """Read X for `fit`, and store the names of its features. Columns in `leave_out` are not features."""
        X, columns = self._flatten_index(X, self.value_columns)
        steps = self._find_steps(X, columns)
        names = find_names(X, columns, leave_out)
        sequences = read_sequences(X, columns._replace(values=names), timespans, warn=True)
        warn_of_empty_features(sequences, names)
        # From here on an earlier fit is replaced: if this one fails, the estimator is not fitted.
        vars(self).pop(self.fitted_by, None)
        self.columns_, self.steps_ = None if names is None else [str(name) for name in names], steps
        return sequences

    def _read_new(self, X: Any, timespans: Any = None) -> list[SequenceData]:
        """Read X for a fitted estimator, and check that it matches the training data."""
        check_is_fitted(self)
        X, columns = self._flatten_index(X, self.columns_ or self.value_columns)
        self._find_steps(X, columns)
        sequences = read_sequences(X, columns._replace(steps=self.steps_), timespans)
        dated = isinstance(X, list | tuple) or (columns.single and columns.id is None and is_dated(X))
        dates = read_date_gaps(X) if dated and timespans is None else []
        for number, gaps in enumerate(dates):
            if gaps is not None:
                sequences[number] = self._place_dates(sequences[number], gaps)
        check_as_trained(sequences, self.n_features_in_, timed=self._unit is not None)
        if self._unit is not None and not self.accepts_one_series:  # a forecaster compares each series
            warn_of_other_unit(sequences, self._unit)
        return sequences

    def _place_dates(self, sequence: SequenceData, gaps: NDArray[np.float64]) -> SequenceData:
        """Return a sequence with dates as those in training: evenly spaced dates are times if those have times.

        Args:
            sequence: The sequence.
            gaps: Time before each of its dates.
        """
        return sequence if self._unit is None else sequence._replace(gaps=gaps)

    @property
    def _unit(self) -> float | None:
        """Median time between the samples of the training data; None if they have no times."""
        raise NotImplementedError

    def _flatten_index(self, X: Any, values: str | Sequence[str] | None = None) -> tuple[Any, Columns]:
        """Return X and how it is read; a DataFrame whose index has two levels is brought into long form."""
        values = None if values is None else to_names(values)
        columns = Columns(self.id_column, self.time_column, values, layout=self.layout, single=self.accepts_one_series)
        return flatten_index(X, columns)

    def _is_long(self, X: Any) -> bool:
        """Return whether X is a DataFrame with one row per sample of several sequences."""
        return is_frame(X) and self._flatten_index(X)[1].id is not None

    def _find_steps(self, X: Any, columns: Columns) -> list[str] | None:
        """Return the names of the columns of a DataFrame in wide form; None for other X."""
        if not is_frame(X) or columns.id is not None or (columns.single and is_dated(X)):
            return None
        if self.value_columns is not None:
            raise ValueError(
                "value_columns are features, but the columns of this DataFrame are steps, with one row per sequence: "
                "set id_column if each row is a sample, or omit value_columns and pass the columns that are steps"
            )
        return [str(name) for name in X.columns]
