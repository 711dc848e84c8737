"""Sequence classification."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d
from torch import Tensor

from cornn._arguments import choose
from cornn._machine import resolve_device
from cornn.estimators.bank_readout import calibrate
from cornn.estimators.bank_stream import BankStream
from cornn.estimators.methods import SequenceEstimator, drop_unweighted
from cornn.estimators.network_stream import PredictionStream
from cornn.estimators.output import OutputSpec
from cornn.estimators.rows import read_weights
from cornn.estimators.values import format_value, read_labels

__all__ = ["CoRNNClassifier", "draw_stratified"]

MIN_SHARE = 1e-3  # of a class, in the initial bias of the head
MAX_NAMED = 10  # labels in an error message


@dataclass(kw_only=True, eq=False, repr=False)
class CoRNNClassifier(ClassifierMixin, SequenceEstimator):
    """Classify sequences: an oscillator bank with a ridge readout, or a trained coRNN.

    The other settings are those of `cornn.estimators.methods.SequenceEstimator`.

    Args:
        class_weight: None, "balanced", or a dictionary with the weight of each label.

    Attributes:
        classes_: The labels, shape (classes,), sorted.
        method_: "bank" or "network".
        bank_: The fitted bank and its readout, with the method "bank".
        model_: The trained `cornn.SequenceModel`, with the method "network".
        history_: The losses, one dictionary per epoch; empty for the bank.

    Examples:
        >>> classifier = CoRNNClassifier(random_state=0).fit(X, y)  # X: (sequences, time, features)
        >>> classifier.predict(X)
    """

    class_weight: str | Mapping[Any, float] | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None, *, timespans: Any = None, groups: Any = None) -> Self:
        """Fit to sequences and their labels.

        Args:
            X: Sequences: an array (sequences, time, features) or (sequences, time), a list of arrays (time, features)
                or (time,) of any lengths, a list of `Series`, or a DataFrame in long form. NaN marks a missing value.
            y: Labels, shape (sequences,), or the name of a column of a long-form DataFrame.
            sample_weight: Weight of each sequence, shape (sequences,).
            timespans: Times since the previous sample, in the layout of X without features, as an alternative to
                `Series` with times.
            groups: Group of each sequence, shape (sequences,), if those of one group are not independent, such as those
                of one subject or overlapping windows. Choices inside the training data then leave out whole groups.

        Returns:
            The fitted classifier.
        """
        self.check()
        sequences, y = self._read(X, y, timespans)
        y = read_labels(column_or_1d(y, warn=True), "y", "label", "sequence")
        if len(y) != len(sequences):
            raise ValueError(
                f"X has {len(sequences)} sequences and y has {len(y)} targets: inconsistent numbers of samples"
            )
        if not isinstance(y[0], str):  # texts are never numbers to regress
            check_classification_targets(y)
        self.classes_, target = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"all {len(y)} sequences are of 1 class, {format_value(self.classes_[0])}: Classifier can't train when "
                "only one class is present, pass sequences of at least two"
            )
        weights = read_weights(sample_weight, len(y))
        if self.class_weight is not None:
            weights = weights * compute_class_weight(self.class_weight, classes=self.classes_, y=y)[target]
        sequences, target, weights, groups = drop_unweighted(sequences, target, weights, groups)
        signs = np.where(np.arange(len(self.classes_)) == target[:, None], 1.0, -1.0)
        self._fit_methods(sequences, signs, weights, groups)
        return self

    def _draw_rows(self, target: NDArray, count: int, random: torch.Generator) -> Tensor:
        return draw_stratified(target.argmax(1), count, random)

    def _compute_losses(self, outputs: Tensor, target: Tensor) -> Tensor:
        return torch.nn.functional.cross_entropy(outputs, target.argmax(1), reduction="none")

    def _constant_answer(self, target: NDArray, weights: NDArray) -> NDArray[np.float64]:
        shares = np.bincount(target.argmax(1), weights, target.shape[1]) / weights.sum()
        return np.log(np.maximum(shares, MIN_SHARE))

    def _finish_bank(self, held_out: NDArray, target: NDArray, weights: NDArray) -> None:
        self.score_scale_ = calibrate(held_out, target.argmax(1), weights)

    def output_scaling(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the factor that turns the scores of the readout into logits, and no offset."""
        count = len(self.classes_)
        return np.full(count, self.score_scale_), np.zeros(count)

    def ridge_target(self, y: Any) -> NDArray[np.float64]:
        """Return labels as +1 for the class and -1 for the others, shape (sequences, classes)."""
        unknown = set(np.asarray(y).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(
                f"the labels contain {format_value(unknown.pop())}, which the training data lack: remove the sequences"
            )
        return np.where(self.classes_ == np.asarray(y)[:, None], 1.0, -1.0)

    def held_out_score(self, scores: NDArray, target: NDArray) -> tuple[str, float]:
        """Return the accuracy."""
        return "accuracy", float((scores.argmax(1) == target.argmax(1)).mean())

    def _calibrate(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        return scores * self.score_scale_

    def _validation_loss(self, outputs: NDArray, target: NDArray, weights: NDArray) -> float:
        chances = softmax(outputs, axis=1)[np.arange(len(outputs)), target.argmax(1)]
        return float(np.average(-np.log(np.maximum(chances, 1e-12)), weights=weights))

    def _use_network(self) -> None:
        super()._use_network()
        self.score_scale_ = 1.0

    def _logits(self, X: Any, timespans: Any) -> NDArray[np.float64]:
        return self._calibrate(self._outputs(self.validate_input(X, timespans)))

    def decision_function(self, X: Any, *, timespans: Any = None) -> NDArray[np.float64]:
        """Compute the logits.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Logits, shape (sequences, classes); with two classes the log odds of the second, shape (sequences,).
        """
        logits = self._logits(X, timespans)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def predict_proba(self, X: Any, *, timespans: Any = None) -> NDArray[np.float64]:
        """Compute the probability of each class.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Probabilities, shape (sequences, classes), in the order of `classes_`.
        """
        return softmax(self._logits(X, timespans), axis=1)

    def predict(self, X: Any, *, timespans: Any = None) -> NDArray:
        """Predict the label of each sequence.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            Labels, shape (sequences,).
        """
        sequences = self.validate_input(X, timespans)
        return self.classes_[self._outputs(sequences).argmax(1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, timespans: Any = None) -> float:
        """Compute the accuracy of the predictions.

        Args:
            X: Sequences, as for `fit`.
            y: Labels, as for `fit`.
            sample_weight: Weight of each sequence, shape (sequences,).
            timespans: Times since the previous sample, as for `fit`.

        Returns:
            The accuracy, at most 1.
        """
        predictions = self.predict(X, timespans=timespans)
        return float(accuracy_score(self._read_answers(X, y), predictions, sample_weight=sample_weight))

    def attributions(self, X: Any, *, timespans: Any = None, label: Any = None) -> NDArray[np.float64]:
        """Compute how much each value contributed to the prediction, as input times gradient, by one backward pass.

        The score that is explained is the logit of the label minus the mean logit of the others: with two classes the
        log odds. Positive attributions support the label, negative ones oppose it. With the method "network" they
        add up to the score minus that of a constant sequence, to 1 % of the sum of their sizes, or a warning is given;
        with "bank" they do not.

        Args:
            X: Sequences, as for `fit`.
            timespans: Times since the previous sample, as for `fit`.
            label: The label to explain. Defaults to the predicted label of each sequence.

        Returns:
            Attributions, shape (sequences, steps, features), where steps is the longest of X; 0 past the end of a
            shorter sequence.

        Examples:
            >>> classifier.attributions(X)[0].sum(1)  # one number per step of the first sequence
        """
        sequences = self.validate_input(X, timespans)
        if label is None:
            chosen = self._outputs(sequences).argmax(1)
        else:
            places = np.flatnonzero(self.classes_ == label)
            if len(places) != 1:
                names = ", ".join(map(format_value, self.classes_[:MAX_NAMED]))
                more = ", …" if len(self.classes_) > MAX_NAMED else ""
                raise ValueError(f"unknown label {format_value(label)}: the labels are {names}{more}")
            chosen = np.full(len(sequences), places[0])
        count = len(self.classes_)
        weights = np.where(np.arange(count) == chosen[:, None], 1.0, -1 / (count - 1))
        return self._fitted.attribute(sequences, weights * self.score_scale_, resolve_device(self.device))

    def stream(self, method: str = "predict", sensors: int | None = None) -> PredictionStream | BankStream:
        """Open a stream that predicts from one sample at a time.

        Args:
            method: "predict" for the label so far, or "predict_proba" for the probabilities of all classes.
            sensors: Number of sequences that are streamed side by side, with the method "bank"; None for one.

        Returns:
            A stream: `prediction = stream(sample)`.
        """
        finish = {
            "predict": lambda answer, stream: self.classes_[answer.argmax()],
            "predict_proba": lambda answer, stream: _softmax_row(answer.tolist()),
        }
        finish_all = {
            "predict": lambda scores: self.classes_[scores.argmax(1)],
            "predict_proba": lambda scores: softmax(scores * self.score_scale_, axis=1),
        }
        choose("method", method, finish)
        return self._open_stream(finish[method], finish_all[method], sensors)

    def output_spec(self) -> OutputSpec:
        """Return what the outputs of the fitted classifier mean: one logit per class."""
        check_is_fitted(self)
        count = len(self.classes_)
        return OutputSpec("classes", np.ones(count), np.zeros(count), tuple(self.classes_.tolist()))

    def _fitted_state(self) -> dict[str, Any]:
        classes = self.classes_
        if classes.dtype.kind not in "biufUO" or not all(
            isinstance(v, bool | int | float | str) for v in classes.tolist()
        ):
            raise TypeError(f"labels of type {classes.dtype} cannot be saved: use numbers or strings")
        return {"classes": classes.tolist(), "type": classes.dtype.str, "score_scale": self.score_scale_}

    def _restore_fitted_state(self, learned: dict[str, Any]) -> None:
        self.classes_ = np.array(learned["classes"], dtype=np.dtype(learned["type"]))
        self.score_scale_ = float(learned.get("score_scale", 1.0))  # files of networks did not always have it


def _softmax_row(logits: list[float]) -> NDArray[np.float64]:
    """Compute the softmax of one row. For a few classes numpy's calls would take longer than the step itself."""
    peak = max(logits)
    powers = [math.exp(logit - peak) for logit in logits]
    total = sum(powers)
    return np.array([power / total for power in powers])


def draw_stratified(target: NDArray, count: int, random: torch.Generator) -> Tensor:
    """Draw about `count` rows: of each class its share, rounded down, and never all of them."""
    order = torch.randperm(len(target), generator=random)
    kept = []
    for number, total in enumerate(np.bincount(target)):
        of_class = order[torch.from_numpy(target)[order] == number]
        kept.append(of_class[: int(total * count / len(target))])
    return torch.cat(kept)
