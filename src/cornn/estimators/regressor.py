"""Sequence-to-scalar regression."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from cornn.estimators.base import Estimator, PredictionStream, uniform_sampler
from cornn.estimators.network import outputs
from cornn.estimators.output import OutputSpec
from cornn.estimators.preparation import mean_and_scale
from cornn.estimators.sequences import to_float_array

__all__ = ["CoRNNRegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNRegressor(RegressorMixin, Estimator):
    """Predict one or several numbers per sequence with a coRNN that is read at the end of each sequence.

    Targets are standardised for training; predictions are in the units of y. The settings are those of
    `cornn.estimators.base.Estimator`.

    Attributes:
        model_: The trained `cornn.SequenceModel`.
        history_: The losses, one dictionary per epoch.

    Examples:
        >>> regressor = CoRNNRegressor(random_state=0).fit(X, y)  # X: (sequences, time, features)
        >>> regressor.predict(X)
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, timespans: Any = None) -> Self:
        """Train on sequences and their targets.

        Args:
            X: Sequences: an array (sequences, time, features) or (sequences, time), a list of arrays (time, features)
                or (time,) of any lengths, a list of `Series`, or a DataFrame in long form. NaN marks a missing value.
            y: Targets, shape (sequences,) or (sequences, targets), or the name of a column of a long-form DataFrame.
            timespans: Times since the previous sample, in the layout of X without features, as an alternative to
                `Series` with times.

        Returns:
            The fitted regressor.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        sequences, y = self._read(X, y, timespans)
        y = to_float_array(y, "y")
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
        table = y.reshape(len(y), -1)
        self.target_mean_, self.target_scale_ = mean_and_scale(table)
        target = ((table - self.target_mean_) / self.target_scale_).astype(np.float32)

        def loss(data, preparation):
            targets = torch.from_numpy(target).to(data.input.device)
            return lambda model, batch, rows: torch.nn.functional.mse_loss(
                outputs(model, batch, every=False), targets[rows]
            )

        self._train(sequences, target.shape[1], loss, uniform_sampler(len(y)))
        return self

    def predict(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """Predict the targets of each sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Predictions, shape (sequences,) or (sequences, targets), like y.
        """
        found = self._outputs(self._validate_input(X, timespans)) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self.single_ else found

    def stream(self) -> PredictionStream:
        """Open a stream that predicts from one sample at a time.

        Returns:
            A stream: `prediction = stream(sample)`.
        """

        def finish(answer: NDArray, stream: Any) -> Any:
            found = answer * self.target_scale_ + self.target_mean_
            return found[0] if self.single_ else found

        return self._stream(finish)

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted regressor mean: the standardised targets."""
        check_is_fitted(self, "target_scale_")
        return OutputSpec("numbers", np.asarray(self.target_scale_, float), np.asarray(self.target_mean_, float))

    def _output_size(self) -> int:
        return len(self.target_mean_)

    def _fitted_state(self) -> dict[str, Any]:
        mean, scale = self.target_mean_.tolist(), self.target_scale_.tolist()
        return {"single": self.single_, "mean": mean, "scale": scale}

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        self.single_ = learned["single"]
        self.target_mean_, self.target_scale_ = np.array(learned["mean"]), np.array(learned["scale"])
