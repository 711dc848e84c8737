"""Numbers that belong to sequences."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin

from cornn.estimators.base import Estimator, PredictionStream, drawn
from cornn.estimators.network import outputs
from cornn.estimators.preparation import spread
from cornn.estimators.sequences import numbers

__all__ = ["CoRNNRegressor"]


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNRegressor(RegressorMixin, Estimator):
    """One or several numbers for a sequence, read at its end: `CoRNNRegressor().fit(X, y).predict(X)`.

    X: (sequences, time, features), (sequences, time), a list of arrays of any lengths or of `Series`, or a frame in
    long form. y: (sequences) or (sequences, numbers); with a frame also the name of a column. Targets are standardised
    for training and given back in their own units.

    The other settings are those of `cornn.estimators.base.Estimator`.
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def fit(self, X: Any, y: Any, timespans: Any = None) -> Self:
        """timespans: the time since the sample before, for each sequence; in place of `Series` with times."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        sequences, y = self._read(X, y, timespans)
        y = numbers(y, "y")
        if y.ndim not in (1, 2) or len(y) != len(sequences):
            raise ValueError(
                f"y has shape {y.shape}, expected ({len(sequences)},) or ({len(sequences)}, numbers): y and X have "
                "inconsistent numbers of samples, or y too many dimensions"
            )
        if np.isnan(y).any():
            raise ValueError(
                f"Input y contains NaN: the target of sequence {np.argwhere(np.isnan(y))[0][0]} is missing"
            )
        self.single_ = y.ndim == 1
        table = y.reshape(len(y), -1)
        self.target_mean_, self.target_scale_ = spread(table)
        target = ((table - self.target_mean_) / self.target_scale_).astype(np.float32)

        def loss(data, preparation):
            targets = torch.from_numpy(target).to(data.input.device)
            return lambda model, batch, rows: torch.nn.functional.mse_loss(
                outputs(model, batch, every=False), targets[rows]
            )

        self._train(sequences, target.shape[1], loss, drawn(len(y)))
        return self

    def predict(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """(sequences), or (sequences, numbers), as y was."""
        found = self._outputs(self._again(X, timespans)) * self.target_scale_ + self.target_mean_
        return found[:, 0] if self.single_ else found

    def stream(self) -> PredictionStream:
        """One sample at a time: the prediction so far."""

        def finish(answer: NDArray, stream: Any) -> Any:
            found = answer * self.target_scale_ + self.target_mean_
            return found[0] if self.single_ else found

        return self._stream(finish)

    def _answers(self) -> int:
        return len(self.target_mean_)

    def _learned(self) -> dict[str, Any]:
        mean, scale = self.target_mean_.tolist(), self.target_scale_.tolist()
        return {"single": self.single_, "mean": mean, "scale": scale}

    def _learn(self, learned: dict[str, Any]) -> None:
        self.single_ = learned["single"]
        self.target_mean_, self.target_scale_ = np.array(learned["mean"]), np.array(learned["scale"])
