"""Forecasting."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cornn.estimators.base import Estimator, PredictionStream, uniform_sampler
from cornn.estimators.network import outputs
from cornn.estimators.output import OutputSpec
from cornn.estimators.preparation import Preparation, fill_missing
from cornn.estimators.sequences import SequenceData

__all__ = ["CoRNNForecaster"]


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNForecaster(Estimator):
    """Forecast the next values of sequences with a coRNN that is read at every step.

    At every step the network predicts by how much each of the next `horizon` values differs from the last known one.
    One long sequence is enough for training. The other settings are those of `cornn.estimators.base.Estimator`.

    Args:
        horizon: Number of steps to forecast.
        targets: Features to forecast, by index, or by name if X is a long-form DataFrame. Defaults to all of them. The
            other features are only used as inputs.
        window: Maximum number of steps of a training sequence; longer ones are cut into pieces.

    Attributes:
        targets_: Indices of the features that are forecast.
        model_: The trained `cornn.SequenceModel`.
        history_: The losses, one dictionary per epoch.

    Examples:
        >>> forecaster = CoRNNForecaster(horizon=5, random_state=0).fit(X)  # X: (sequences, time, features)
        >>> forecaster.predict(X)  # (sequences, 5, features)
    """

    horizon: int = 1
    targets: Sequence[int | str] | None = None
    window: int = 200

    def fit(self, X: Any, y: Any = None, timespans: Any = None) -> Self:
        """Train on sequences.

        Args:
            X: Sequences: an array (sequences, time, features) or (sequences, time), a list of arrays (time, features)
                or (time,) of any lengths, a list of `Series`, or a DataFrame in long form. NaN marks a missing value.
            y: Ignored; it exists for scikit-learn's conventions.
            timespans: Times since the previous sample, in the layout of X without features, as an alternative to
                `Series` with times.

        Returns:
            The fitted forecaster.
        """
        if self.bidirectional:
            raise ValueError("a forecaster must not see the values that it forecasts: set bidirectional=False")
        for name in ("horizon", "window"):
            if not isinstance(getattr(self, name), Integral) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a positive integer, got {getattr(self, name)!r}")
        sequences, _ = self._read(X, None, timespans)
        pieces = [piece for sequence in sequences for piece in self._pieces(sequence)]
        if not pieces:
            longest = max(len(sequence.values) for sequence in sequences)
            raise ValueError(
                f"the longest sequence has {longest} steps: forecasts need sequences of at least two steps"
            )
        self.targets_ = self._resolve_targets(pieces[0][0].values.shape[1])

        def loss(data, preparation):
            targets, known = (part.to(data.input.device) for part in self._targets(pieces, preparation))
            self._check_known(known)

            def of(model, batch, rows):
                steps = len(batch.input)
                error = (outputs(model, batch, every=True) - targets[:steps, rows]) * known[:steps, rows]
                return error.square().sum() / known[:steps, rows].sum().clamp(min=1)

            return of

        self._train(
            [piece for piece, _ in pieces], self.horizon * len(self.targets_), loss, uniform_sampler(len(pieces))
        )
        return self

    def predict(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """Forecast the values that follow each sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Forecasts, shape (sequences, horizon, targets), or (sequences, horizon) if X is an array (sequences, time).
        """
        sequences = self._validate_input(X, timespans)
        last = np.stack([fill_missing(sequence.values, self.preparation_.mean)[-1] for sequence in sequences])
        found = self._ahead(self._outputs(sequences), last)
        flat = isinstance(X, np.ndarray) and X.ndim == 2
        return found[:, :, 0] if flat and found.shape[2] == 1 else found

    def score(self, X: Any, y: Any = None, timespans: Any = None) -> float:
        """Compute the coefficient of determination R² of the forecasts.

        Args:
            X: Sequences, as for `fit`.
            y: The values that follow X, in the shape that `predict` returns. If None, the forecasts from every step
                of X are compared with the later values of X.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            R², at most 1.
        """
        if y is not None:
            found = self.predict(X, timespans)
            columns = found.shape[2] if found.ndim == 3 else 1
            truth = np.asarray(y, np.float64).reshape(found.shape)
            return _r2(truth.reshape(-1, columns), found.reshape(-1, columns))
        sequences = self._validate_input(X, timespans)
        truths, founds = [], []
        for sequence, found in zip(sequences, self._at_every_step(sequences), strict=True):
            for ahead in range(1, self.horizon + 1):
                truths.append(sequence.values[ahead:, self.targets_])
                founds.append(found[: max(0, len(found) - ahead), ahead - 1])
        return _r2(np.concatenate(truths), np.concatenate(founds))

    def predict_every_step(self, X: Any, timespans: Any = None) -> list[NDArray[np.float64]]:
        """Forecast from every step of every sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            One array (time, horizon, targets) per sequence.
        """
        return self._at_every_step(self._validate_input(X, timespans))

    def stream(self) -> PredictionStream:
        """Open a stream that forecasts after each sample.

        Returns:
            A stream: `forecast = stream(sample)`, shape (horizon, targets).
        """
        return self._stream(lambda answer, stream: self._ahead(answer[None], stream.seen[None])[0])

    def _at_every_step(self, sequences: list[SequenceData]) -> list[NDArray[np.float64]]:
        every = self._outputs(sequences, every=True)
        values = [fill_missing(sequence.values, self.preparation_.mean) for sequence in sequences]
        return [self._ahead(every[: len(own), number], own) for number, own in enumerate(values)]

    def _resolve_targets(self, features: int) -> list[int]:
        """Return `targets` as indices of features."""
        if self.targets is None:
            return list(range(features))
        names = self.columns_ or []
        found: list[Any] = [names.index(name) if name in names else name for name in self.targets]
        for name in found:
            if not isinstance(name, Integral) or not 0 <= int(name) < features:
                there = ", ".join(names) or f"0 to {features - 1}"
                raise ValueError(f"targets contains {name!r}, which is not a feature: the features are {there}")
        if not found:
            raise ValueError("targets is empty: name at least one feature, or omit it to forecast all features")
        return [int(number) for number in found]

    def _ahead(self, answers: NDArray, last: NDArray) -> NDArray[np.float64]:
        """Convert outputs (rows, horizon * targets) to forecasts, given the last values (rows, features)."""
        change = answers.reshape(len(answers), self.horizon, -1) * self.preparation_.scale[self.targets_]
        return last[:, None, self.targets_] + change

    def _pieces(self, sequence: SequenceData) -> list[tuple[SequenceData, NDArray]]:
        """Cut a sequence into pieces of at most `window` steps, each with the values of its steps and its horizon.

        The horizon of a piece overlaps the next piece, so that validation pieces are not fully independent of training
        pieces.
        """
        found, length = [], len(sequence.values)
        for start in range(0, length - 1, self.window):
            end = min(start + self.window, length - 1)
            gaps = None if sequence.gaps is None else sequence.gaps[start:end]
            found.append((SequenceData(sequence.values[start:end], gaps), sequence.values[start : end + self.horizon]))
        return found

    def _targets(self, pieces: list[tuple[SequenceData, NDArray]], preparation: Preparation) -> tuple[Tensor, Tensor]:
        """Return the targets of every step, and 1 where they are known: both (time, pieces, horizon * targets)."""
        steps, own = max(len(piece.values) for piece, _ in pieces), self.targets_
        targets = np.full((steps, len(pieces), self.horizon, len(own)), np.nan, np.float32)
        for number, (piece, whole) in enumerate(pieces):
            now = fill_missing(piece.values, preparation.mean)[:, own]
            for ahead in range(1, self.horizon + 1):
                later = whole[ahead : ahead + len(now), own]
                targets[: len(later), number, ahead - 1] = (later - now[: len(later)]) / preparation.scale[own]
        table = torch.from_numpy(targets).flatten(2)
        return table.nan_to_num(), (~table.isnan()).float()

    def _check_known(self, known: Tensor) -> None:
        """Check that every target has a known value. `known`: (time, pieces, horizon * targets)."""
        never = ~known.any(0).any(0).view(self.horizon, -1)
        if not never.any():
            return
        ahead, column = (int(number) for number in never.nonzero()[0])
        feature = self.targets_[column]
        name = self.columns_[feature] if self.columns_ else f"feature {feature}"
        if ahead == 0:
            remedy = "pass longer sequences with values of it, or remove it from targets"
        else:
            remedy = f"choose a horizon of at most {ahead}, or pass longer sequences"
        raise ValueError(f"no training sequence has a value of {name} {ahead + 1} steps ahead: {remedy}")

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted forecaster mean: standardised changes from the last known values."""
        check_is_fitted(self, "targets_")
        scale = np.tile(np.asarray(self.preparation_.scale, float)[self.targets_], self.horizon)
        return OutputSpec("changes", scale, np.zeros(len(scale)))

    def _output_size(self) -> int:
        return self.horizon * len(self.targets_)

    def _fitted_state(self) -> dict[str, Any]:
        return {"targets": self.targets_}

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        self.targets_ = learned["targets"]
        if not all(isinstance(own, int) and 0 <= own < self.n_features_in_ for own in self.targets_):
            raise ValueError(f"its targets are {self.targets_}, but there are {self.n_features_in_} features")


def _r2(truth: NDArray, found: NDArray) -> float:
    """Compute R² over all known values. Both arguments: (rows, features)."""
    known = ~np.isnan(truth)
    if known.sum() < 2:
        raise ValueError("fewer than two known values to score: pass longer sequences")
    error = ((truth - found)[known] ** 2).sum()
    total = ((truth - np.nanmean(truth, 0))[known] ** 2).sum()
    return float(1 - error / total) if total else float(error == 0)
