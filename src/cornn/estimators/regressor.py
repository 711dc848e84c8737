"""Sequence-to-scalar regression."""

from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cornn._machine import resolve_device
from cornn.estimators.bank_stream import BankStream
from cornn.estimators.methods import SequenceEstimator, drop_unweighted
from cornn.estimators.network_stream import PredictionStream
from cornn.estimators.output import OutputSpec
from cornn.estimators.preparation import mean_and_scale
from cornn.estimators.rows import read_weights
from cornn.estimators.values import to_float_array

__all__ = ["CoRNNRegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNRegressor(RegressorMixin, SequenceEstimator):
    """Predict one or several numbers per sequence: an oscillator bank with a ridge readout, or a trained coRNN.

    Targets are standardised for training; predictions are in the units of y. The settings are those of
    `cornn.estimators.methods.SequenceEstimator`.

    Attributes:
        method_: "bank" or "network".
        bank_: The fitted bank and its readout, with the method "bank".
        model_: The trained `cornn.SequenceModel`, with the method "network".
        history_: The losses, one dictionary per epoch; empty for the bank.

    Examples:
        >>> regressor = CoRNNRegressor(random_state=0).fit(X, y)  # X: (sequences, time, features)
        >>> regressor.predict(X)
    """

    plain_by_default: ClassVar[bool] = True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, timespans: Any = None, groups: Any = None) -> Self:
        """Fit to sequences and their targets.

        Args:
            X: Sequences: an array (sequences, time, features) or (sequences, time), a list of arrays (time, features)
                or (time,) of any lengths, a list of `Series`, or a DataFrame in long form. NaN marks a missing value.
            y: Targets, shape (sequences,) or (sequences, targets), or the name of a column of a long-form DataFrame.
            sample_weight: Weight of each sequence, shape (sequences,).
            timespans: Times since the previous sample, in the layout of X without features, as an alternative to
                `Series` with times.
            groups: Group of each sequence, shape (sequences,), if those of one group are not independent, such as those
                of one subject or overlapping windows. Choices inside the training data then leave out whole groups.

        Returns:
            The fitted regressor.
        """
        self.check()
        sequences, y = self._read(X, y, timespans)
        y = to_float_array(y, "y", "sequence")
        if y.ndim not in (1, 2) or len(y) != len(sequences):
            raise ValueError(
                f"y has shape {y.shape}, expected ({len(sequences)},) or ({len(sequences)}, targets): y and X have "
                "inconsistent numbers of samples, or y has too many dimensions"
            )
        if np.isnan(y).any():
            raise ValueError(
                f"Input y contains NaN: the target of sequence {np.argwhere(np.isnan(y))[0][0]} is missing"
            )
        self.single_ = y.ndim == 1
        sequences, table, weights, groups = drop_unweighted(
            sequences, y.reshape(len(y), -1), read_weights(sample_weight, len(y)), groups
        )
        self.target_mean_, self.target_scale_ = mean_and_scale(table)
        target = (table - self.target_mean_) / self.target_scale_
        self._fit_methods(sequences, target, weights, groups)
        return self

    def _compute_losses(self, outputs: Tensor, target: Tensor) -> Tensor:
        return (outputs - target).square().mean(1)

    def _to_units(self, outputs: NDArray) -> NDArray[np.float64]:
        """Return the predictions of standardised outputs (sequences, targets), in the shape of y."""
        predictions = outputs * self.target_scale_ + self.target_mean_
        return predictions[:, 0] if self.single_ else predictions

    def output_scaling(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return factor and offset from standardised targets to their units."""
        return self.target_scale_, self.target_mean_

    def ridge_target(self, y: Any) -> NDArray[np.float64]:
        """Return standardised targets, shape (sequences, targets)."""
        table = to_float_array(y, "y", "sequence").reshape(len(y), -1)
        if table.shape[1] != len(self.target_mean_):
            raise ValueError(
                f"y has {table.shape[1]} targets per sequence, expected {len(self.target_mean_)} as in `fit`"
            )
        return (table - self.target_mean_) / self.target_scale_

    def held_out_score(self, scores: NDArray, target: NDArray) -> tuple[str, float]:
        """Return the mean R² of the targets."""
        spread = np.maximum(np.square(target - target.mean(0)).sum(0), np.finfo(float).tiny)
        return "R²", float((1 - np.square(scores - target).sum(0) / spread).mean())

    def _validation_loss(self, outputs: NDArray, target: NDArray, weights: NDArray) -> float:
        return float(np.average(np.square(outputs - target).mean(1), weights=weights))

    def predict(self, X: Any, *, timespans: Any = None) -> NDArray[np.float64]:
        """Predict the targets of each sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Predictions, shape (sequences,) or (sequences, targets), like y.
        """
        return self._to_units(self._outputs(self.validate_input(X, timespans)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, timespans: Any = None) -> float:
        """Compute the coefficient of determination R² of the predictions.

        Args:
            X: Sequences, as for `fit`.
            y: Targets, as for `fit`.
            sample_weight: Weight of each sequence, shape (sequences,).
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            The R², at most 1.
        """
        outputs = self._outputs(self.validate_input(X, timespans))
        # R² does not depend on the units; squares of large numbers would overflow.
        return float(r2_score(self.ridge_target(self._read_answers(X, y)), outputs, sample_weight=sample_weight))

    def attributions(self, X: Any, *, timespans: Any = None, target: int | None = None) -> NDArray[np.float64]:
        """Compute how much each value contributed to the prediction, as input times gradient, by one backward pass.

        Attributions have the units of y. With the method "network" they add up to the prediction minus that for a
        constant sequence, to 1 % of the sum of their sizes, or a warning is given; with "bank" they do not.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.
            target: Column of y to explain; required if y has several.

        Returns:
            Attributions, shape (sequences, steps, features), where steps is the longest of X; 0 past the end of a
            shorter sequence.
        """
        sequences = self.validate_input(X, timespans)
        count = len(self.target_mean_)
        if target is None and count > 1:
            raise ValueError(f"y has {count} columns: choose one with target=0 to {count - 1}")
        if not 0 <= (target or 0) < count:
            raise ValueError(f"target must be from 0 to {count - 1}, got {target}")
        weights = np.tile(np.arange(count) == (target or 0), (len(sequences), 1)).astype(np.float64)
        standardised = self._fitted.attribute(sequences, weights, resolve_device(self.device))
        return standardised * self.target_scale_[target or 0]

    def stream(self, sensors: int | None = None) -> PredictionStream | BankStream:
        """Open a stream that predicts from one sample at a time.

        Args:
            sensors: Number of sequences that are streamed side by side, with the method "bank"; None for one.

        Returns:
            A stream: `prediction = stream(sample)`.
        """

        # A copy of `_to_units` for one row: another dimension would cost half as much time as the step itself.
        def finish(answer: NDArray, stream: Any) -> Any:
            prediction = answer * self.target_scale_ + self.target_mean_
            return prediction[0] if self.single_ else prediction

        return self._open_stream(finish, self._to_units, sensors)

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted regressor mean: the standardised targets."""
        check_is_fitted(self)
        return OutputSpec("numbers", *self.output_scaling())

    def _fitted_state(self) -> dict[str, Any]:
        mean, scale = self.target_mean_.tolist(), self.target_scale_.tolist()
        return {"single": self.single_, "mean": mean, "scale": scale}

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        self.single_ = learned["single"]
        self.target_mean_, self.target_scale_ = np.array(learned["mean"]), np.array(learned["scale"])
