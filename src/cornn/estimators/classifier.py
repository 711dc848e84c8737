"""Classes of sequences."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from cornn.estimators.base import Estimator, PredictionStream
from cornn.estimators.network import outputs
from cornn.estimators.sequences import shown

__all__ = ["CoRNNClassifier", "stratified"]


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNClassifier(ClassifierMixin, Estimator):
    """Which class a sequence is of, read at its end: `CoRNNClassifier().fit(X, y).predict(X)`.

    X: (sequences, time, features), (sequences, time), a list of arrays of any lengths or of `Series`, or a frame in
    long form. y: (sequences), labels of any kind; with a frame also the name of a column.

    class_weight: None, "balanced", or a weight for each label.
    The other settings are those of `cornn.estimators.base.Estimator`.
    """

    class_weight: str | Mapping[Any, float] | None = None

    def fit(self, X: Any, y: Any, timespans: Any = None) -> Self:
        """timespans: the time since the sample before, for each sequence; in place of `Series` with times."""
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        sequences, y = self._read(X, y, timespans)
        y = column_or_1d(y, warn=True)
        _check_count(len(sequences), y)
        check_classification_targets(y)
        self.classes_, target = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all {len(y)} sequences are of 1 class, {shown(self.classes_[0])}: Classifier can't train when only "
                "one class is present, give sequences of at least two"
            )
        weight = None
        if self.class_weight is not None:
            weight = compute_class_weight(self.class_weight, classes=self.classes_, y=y).astype(np.float32)

        def loss(data, preparation):
            device = data.input.device
            targets = torch.from_numpy(target).to(device)
            weights = None if weight is None else torch.from_numpy(weight).to(device)
            return lambda model, batch, rows: torch.nn.functional.cross_entropy(
                outputs(model, batch, every=False), targets[rows], weight=weights
            )

        self._train(sequences, len(self.classes_), loss, lambda count, random: stratified(target, count, random))
        return self

    def decision_function(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """Logarithms of the classes' odds: (sequences, classes), or (sequences) with two classes."""
        logits = self._outputs(self._again(X, timespans))
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """(sequences, classes), in the order of `classes_`."""
        return _softmax(self._outputs(self._again(X, timespans)))

    def predict(self, X: Any, timespans: Any = None) -> NDArray:
        """The label of each sequence: (sequences)."""
        sequences = self._again(X, timespans)
        return self.classes_[self._outputs(sequences).argmax(1)]

    def stream(self, method: str = "predict") -> PredictionStream:
        """One sample at a time: the label so far, or with method="predict_proba" the probabilities of all."""
        finish = {
            "predict": lambda answer, stream: self.classes_[answer.argmax()],
            "predict_proba": lambda answer, stream: _chances(answer.tolist()),
        }
        if method not in finish:
            raise ValueError(f"unknown method {method!r}: choose one of {', '.join(finish)}")
        return self._stream(finish[method])

    def _answers(self) -> int:
        return len(self.classes_)

    def _learned(self) -> dict[str, Any]:
        classes = self.classes_
        if classes.dtype.kind not in "biufUO" or not all(
            isinstance(v, bool | int | float | str) for v in classes.tolist()
        ):
            raise TypeError(f"labels of type {classes.dtype} cannot be saved: use numbers or texts")
        return {"classes": classes.tolist(), "type": classes.dtype.str}

    def _learn(self, learned: dict[str, Any]) -> None:
        self.classes_ = np.array(learned["classes"], dtype=np.dtype(learned["type"]))


def _check_count(count: int, y: NDArray) -> None:
    if len(y) != count:
        raise ValueError(f"X has {count} sequences and y {len(y)} targets: they have inconsistent numbers of samples")


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _chances(logits: list[float]) -> NDArray[np.float64]:
    """`_softmax` of one row: for a handful of classes numpy's calls would take longer than the step itself."""
    peak = max(logits)
    powers = [math.exp(logit - peak) for logit in logits]
    total = sum(powers)
    return np.array([power / total for power in powers])


def stratified(target: NDArray, count: int, random: torch.Generator) -> Tensor:
    """About `count` rows, of each class its share rounded down, and never all of it."""
    drawn = torch.randperm(len(target), generator=random)
    kept = []
    for number, total in enumerate(np.bincount(target)):
        own = drawn[torch.from_numpy(target)[drawn] == number]
        kept.append(own[: int(total * count / len(target))])
    return torch.cat(kept)
