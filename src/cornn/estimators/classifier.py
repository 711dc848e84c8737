"""Sequence classification."""

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
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from cornn.estimators.base import Estimator, PredictionStream
from cornn.estimators.network import outputs
from cornn.estimators.output import OutputSpec
from cornn.estimators.sequences import format_value

__all__ = ["CoRNNClassifier", "draw_stratified"]


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNClassifier(ClassifierMixin, Estimator):
    """Classify sequences with a coRNN that is read at the end of each sequence.

    The other settings are those of `cornn.estimators.base.Estimator`.

    Args:
        class_weight: None, "balanced", or a dictionary with the weight of each label.

    Attributes:
        classes_: The labels, shape (classes,), sorted.
        model_: The trained `cornn.SequenceModel`.
        history_: The losses, one dictionary per epoch.

    Examples:
        >>> classifier = CoRNNClassifier(random_state=0).fit(X, y)  # X: (sequences, time, features)
        >>> classifier.predict(X)
    """

    class_weight: str | Mapping[Any, float] | None = None

    def fit(self, X: Any, y: Any, timespans: Any = None) -> Self:
        """Train on sequences and their labels.

        Args:
            X: Sequences: an array (sequences, time, features) or (sequences, time), a list of arrays (time, features)
                or (time,) of any lengths, a list of `Series`, or a DataFrame in long form. NaN marks a missing value.
            y: Labels, shape (sequences,), or the name of a column of a long-form DataFrame.
            timespans: Times since the previous sample, in the layout of X without features, as an alternative to
                `Series` with times.

        Returns:
            The fitted classifier.
        """
        if y is None:
            raise ValueError("requires y to be passed, but the target y is None")
        sequences, y = self._read(X, y, timespans)
        y = column_or_1d(y, warn=True)
        _check_count(len(sequences), y)
        check_classification_targets(y)
        self.classes_, target = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all {len(y)} sequences are of 1 class, {format_value(self.classes_[0])}: Classifier can't train when "
                "only one class is present, pass sequences of at least two"
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

        self._train(sequences, len(self.classes_), loss, lambda count, random: draw_stratified(target, count, random))
        return self

    def decision_function(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """Compute the logits.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Logits, shape (sequences, classes); with two classes the log odds of the second, shape (sequences,).
        """
        logits = self._outputs(self._validate_input(X, timespans))
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any, timespans: Any = None) -> NDArray[np.float64]:
        """Compute the probability of each class.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Probabilities, shape (sequences, classes), in the order of `classes_`.
        """
        return _softmax(self._outputs(self._validate_input(X, timespans)))

    def predict(self, X: Any, timespans: Any = None) -> NDArray:
        """Predict the label of each sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Labels, shape (sequences,).
        """
        sequences = self._validate_input(X, timespans)
        return self.classes_[self._outputs(sequences).argmax(1)]

    def stream(self, method: str = "predict") -> PredictionStream:
        """Open a stream that predicts from one sample at a time.

        Args:
            method: "predict" for the label so far, or "predict_proba" for the probabilities of all classes.

        Returns:
            A stream: `prediction = stream(sample)`.
        """
        finish = {
            "predict": lambda answer, stream: self.classes_[answer.argmax()],
            "predict_proba": lambda answer, stream: _softmax_row(answer.tolist()),
        }
        if method not in finish:
            raise ValueError(f"unknown method {method!r}: choose one of {', '.join(finish)}")
        return self._stream(finish[method])

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted classifier mean: one logit per class."""
        check_is_fitted(self, "classes_")
        count = len(self.classes_)
        return OutputSpec("classes", np.ones(count), np.zeros(count), tuple(self.classes_.tolist()))

    def _output_size(self) -> int:
        return len(self.classes_)

    def _fitted_state(self) -> dict[str, Any]:
        classes = self.classes_
        if classes.dtype.kind not in "biufUO" or not all(
            isinstance(v, bool | int | float | str) for v in classes.tolist()
        ):
            raise TypeError(f"labels of type {classes.dtype} cannot be saved: use numbers or strings")
        return {"classes": classes.tolist(), "type": classes.dtype.str}

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        self.classes_ = np.array(learned["classes"], dtype=np.dtype(learned["type"]))


def _check_count(count: int, y: NDArray) -> None:
    if len(y) != count:
        raise ValueError(f"X has {count} sequences and y has {len(y)} targets: inconsistent numbers of samples")


def _softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    powers = np.exp(logits - logits.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def _softmax_row(logits: list[float]) -> NDArray[np.float64]:
    """Compute `_softmax` of one row. For a few classes numpy's calls would take longer than the step itself."""
    peak = max(logits)
    powers = [math.exp(logit - peak) for logit in logits]
    total = sum(powers)
    return np.array([power / total for power in powers])


def draw_stratified(target: NDArray, count: int, random: torch.Generator) -> Tensor:
    """Draw about `count` rows: of each class its share, rounded down, and never all of them."""
    drawn = torch.randperm(len(target), generator=random)
    kept = []
    for number, total in enumerate(np.bincount(target)):
        own = drawn[torch.from_numpy(target)[drawn] == number]
        kept.append(own[: int(total * count / len(target))])
    return torch.cat(kept)
