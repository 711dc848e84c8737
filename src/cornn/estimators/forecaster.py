"""How sequences go on."""

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn.estimators.base import Estimator, PredictionStream, drawn
from cornn.estimators.network import outputs
from cornn.estimators.preparation import Preparation, filled
from cornn.estimators.sequences import Read

__all__ = ["CoRNNForecaster"]


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNForecaster(Estimator):
    """The values that follow a sequence: `CoRNNForecaster(horizon=5).fit(X).predict(X)`, (sequences, 5, features).

    X: (sequences, time, features), (sequences, time), a list of arrays of any lengths or of `Series`, or a frame in
    long form; one long sequence will do. It is trained at every step on the values that follow; what it predicts is by
    how much they differ from the last known ones.

    horizon: how many steps ahead.
    targets: which features to forecast, by number, or by name where X is a frame in long form; None: all of them. The
        others are looked at only.
    window: longer sequences are cut into pieces of this many steps for training.
    The other settings are those of `cornn.estimators.base.Estimator`.
    """

    horizon: int = 1
    targets: Sequence[int | str] | None = None
    window: int = 200

    def fit(self, X: Any, y: Any = None, timespans: Any = None) -> Self:
        """y: not looked at; it is here for scikit-learn. timespans: the time since the sample before."""
        if self.bidirectional:
            raise ValueError("a forecaster must not see what it forecasts: bidirectional must be False")
        for name in ("horizon", "window"):
            if not isinstance(getattr(self, name), Integral) or getattr(self, name) < 1:
                raise ValueError(f"{name} must be a whole number above 0, got {getattr(self, name)!r}")
        sequences, _ = self._read(X, None, timespans)
        pieces = [piece for sequence in sequences for piece in self._pieces(sequence)]
        if not pieces:
            longest = max(len(sequence.values) for sequence in sequences)
            raise ValueError(
                f"the longest sequence has {longest} steps: nothing follows that horizon=1 could learn from"
            )
        self.targets_ = self._chosen(pieces[0][0].values.shape[1])

        def loss(data, preparation):
            targets, known = (part.to(data.input.device) for part in self._targets(pieces, preparation))
            self._check_known(known)

            def of(model, batch, rows):
                steps = len(batch.input)
                error = (outputs(model, batch, every=True) - targets[:steps, rows]) * known[:steps, rows]
                return error.square().sum() / known[:steps, rows].sum().clamp(min=1)

            return of

        self._train([piece for piece, _ in pieces], self.horizon * len(self.targets_), loss, drawn(len(pieces)))
        return self

    def predict(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """The next values of each sequence: (sequences, horizon, targets), or (sequences, horizon) if X is an array
        without features."""
        sequences = self._again(X, timespans)
        last = np.stack([filled(sequence.values, self.preparation_.mean)[-1] for sequence in sequences])
        found = self._ahead(self._outputs(sequences), last)
        flat = isinstance(X, np.ndarray) and X.ndim == 2
        return found[:, :, 0] if flat and found.shape[2] == 1 else found

    def score(self, X: Any, y: Any = None, timespans: Any = None) -> float:
        """R², 1 at best: of the forecasts at every step of X, or with y, what follows X, of those at its end."""
        if y is not None:
            found = self.predict(X, timespans)
            columns = found.shape[2] if found.ndim == 3 else 1
            truth = np.asarray(y, np.float64).reshape(found.shape)
            return _r2(truth.reshape(-1, columns), found.reshape(-1, columns))
        sequences = self._again(X, timespans)
        truths, founds = [], []
        for sequence, found in zip(sequences, self._at_every_step(sequences), strict=True):
            for ahead in range(1, self.horizon + 1):
                truths.append(sequence.values[ahead:, self.targets_])
                founds.append(found[: max(0, len(found) - ahead), ahead - 1])
        return _r2(np.concatenate(truths), np.concatenate(founds))

    def forecasts(self, X: Any, timespans: Any = None) -> list[NDArray[np.float64]]:
        """The forecasts from every step of every sequence: (time, horizon, targets) each."""
        return self._at_every_step(self._again(X, timespans))

    def stream(self) -> PredictionStream:
        """One sample at a time: the forecast from here, (horizon, targets)."""
        return self._stream(lambda answer, stream: self._ahead(answer[None], stream.seen[None])[0])

    def _at_every_step(self, sequences: list[Read]) -> list[NDArray[np.float64]]:
        every = self._outputs(sequences, every=True)
        values = [filled(sequence.values, self.preparation_.mean) for sequence in sequences]
        return [self._ahead(every[: len(own), number], own) for number, own in enumerate(values)]

    def _chosen(self, features: int) -> list[int]:
        """`targets` as numbers of features."""
        if self.targets is None:
            return list(range(features))
        names = self.columns_ or []
        found: list[Any] = [names.index(name) if name in names else name for name in self.targets]
        for name in found:
            if not isinstance(name, Integral) or not 0 <= int(name) < features:
                there = ", ".join(names) or f"0 to {features - 1}"
                raise ValueError(f"targets has {name!r}, which is no feature: there are {there}")
        if not found:
            raise ValueError("targets is empty: name at least one feature, or leave it out to forecast all")
        return [int(number) for number in found]

    def _ahead(self, answers: NDArray, last: NDArray) -> NDArray[np.float64]:
        """answers: (rows, horizon * targets). last: (rows, features)."""
        change = answers.reshape(len(answers), self.horizon, -1) * self.preparation_.scale[self.targets_]
        return last[:, None, self.targets_] + change

    def _pieces(self, sequence: Read) -> list[tuple[Read, NDArray]]:
        """Parts of at most `window` steps, each with the values of the steps of it and of the horizon behind it.

        That horizon is the next part's: what stops training early is not wholly apart from what is trained on.
        """
        found, length = [], len(sequence.values)
        for start in range(0, length - 1, self.window):
            end = min(start + self.window, length - 1)
            gaps = None if sequence.gaps is None else sequence.gaps[start:end]
            found.append((Read(sequence.values[start:end], gaps), sequence.values[start : end + self.horizon]))
        return found

    def _targets(self, pieces: list[tuple[Read, NDArray]], preparation: Preparation) -> tuple[Tensor, Tensor]:
        """What to answer at every step, and 1 where that is known: (time, pieces, horizon * targets)."""
        steps, own = max(len(piece.values) for piece, _ in pieces), self.targets_
        targets = np.full((steps, len(pieces), self.horizon, len(own)), np.nan, np.float32)
        for number, (piece, whole) in enumerate(pieces):
            now = filled(piece.values, preparation.mean)[:, own]
            for ahead in range(1, self.horizon + 1):
                later = whole[ahead : ahead + len(now), own]
                targets[: len(later), number, ahead - 1] = (later - now[: len(later)]) / preparation.scale[own]
        table = torch.from_numpy(targets).flatten(2)
        return table.nan_to_num(), (~table.isnan()).float()

    def _check_known(self, known: Tensor) -> None:
        """known: (time, pieces, horizon * targets)."""
        never = ~known.any(0).any(0).view(self.horizon, -1)
        if not never.any():
            return
        ahead, column = (int(number) for number in never.nonzero()[0])
        feature = self.targets_[column]
        name = self.columns_[feature] if self.columns_ else f"feature {feature}"
        if ahead == 0:
            remedy = "give longer sequences with values of it, or leave it out of targets"
        else:
            remedy = f"choose a horizon of at most {ahead}, or give longer sequences"
        raise ValueError(f"no training sequence has a value of {name}, {ahead + 1} ahead, to learn from: {remedy}")

    def _answers(self) -> int:
        return self.horizon * len(self.targets_)

    def _learned(self) -> dict[str, Any]:
        return {"targets": self.targets_}

    def _learn(self, learned: dict[str, Any]) -> None:
        self.targets_ = learned["targets"]
        if not all(isinstance(own, int) and 0 <= own < self.n_features_in_ for own in self.targets_):
            raise ValueError(f"it forecasts {self.targets_}, and there are {self.n_features_in_} features")


def _r2(truth: NDArray, found: NDArray) -> float:
    """One minus the share of the variance that is left, over all values that are known: (rows, features)."""
    known = ~np.isnan(truth)
    if known.sum() < 2:
        raise ValueError("fewer than two known values to score on: give longer sequences")
    error = ((truth - found)[known] ** 2).sum()
    total = ((truth - np.nanmean(truth, 0))[known] ** 2).sum()
    return float(1 - error / total) if total else float(error == 0)
