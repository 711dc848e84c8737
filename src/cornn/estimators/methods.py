"""Base class of classifier and regressor: an oscillator bank with a ridge readout, or a trained network."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from cornn._machine import resolve_device
from cornn._random import generator
from cornn.estimators.bank import check_bank_settings, read_scalings
from cornn.estimators.bank_model import BankModel, BankSettings, fit_bank_model
from cornn.estimators.bank_stream import BankStream
from cornn.estimators.base import NETWORK_ATTRIBUTES, Estimator
from cornn.estimators.network import apply_model, make_dropout
from cornn.estimators.network_model import NetworkModel
from cornn.estimators.network_stream import PredictionStream
from cornn.estimators.random_state import read_seed
from cornn.estimators.rows import ValidationSampler
from cornn.estimators.series import SequenceData
from cornn.estimators.settings import NETWORK_ARGUMENTS, check_settings, resolve_method
from cornn.estimators.values import read_labels

__all__ = ["BANK_ARGUMENTS", "METHODS", "SequenceEstimator", "drop_unweighted"]

METHODS = ("bank", "network", "auto")
BANK_ARGUMENTS = ("neurons", "scaling", "differences", "thresholds", "statistics", "causal")
AUTO_FEWEST = 2000  # smallest number of sequences for which "auto" also tries the network
AUTO_SHARE = 0.2  # of the sequences, on which it compares the two

ALL_SCALINGS = (("set", "sequence"), ("set",), ("sequence",))
CAUSAL_SCALINGS = (("set", "running"), ("set",), ("running",))


@dataclass(kw_only=True, eq=False, repr=False)
class SequenceEstimator(Estimator):
    """Base class of the estimators with one answer per sequence.

    `method="bank"` pools the states of untrained oscillators and fits a ridge regression to them; it needs no gradient.
    `method="network"` trains a coRNN. `method="auto"` uses the bank; from 2,000 sequences on it also trains the
    network, both on four fifths of the sequences, and keeps the one with the smaller loss on the others, weighted as in
    training. If that is the bank, it is fitted again to all sequences; the network is not. The settings of the network
    are those of `cornn.estimators.base.Estimator`.

    Args:
        method: "bank", "network" or "auto". Defaults to "network" if one of its settings is given, else to "bank".
        neurons: Number of neurons of the bank, rounded up to a multiple of 16, at least 16 per view of the input: one
            view per scaling that it chooses from, twice as many with `differences`, and one of missing values if the
            training data have some. Default: 2048.
        scaling: How the bank's inputs are scaled: by the training "set", by the "running" samples of the sequence so
            far, by the whole "sequence", or several of these. Default: chosen by leave-one-out error.
        differences: Whether half of the bank's neurons are driven by differences of the values. Default: True.
        thresholds: Number of thresholds per variable of the bank, 1 to 4. Default: 2.
        statistics: Whether the bank's features contain maximum, mean, root mean square and last value. Default: False
            for classes, True for numbers.
        causal: Whether to choose only from scalings that need no later samples, as streams and C code do. Default:
            False.
    """

    method: Literal["bank", "network", "auto"] | None = None
    neurons: int | None = None
    scaling: str | Sequence[str] | None = None
    differences: bool | None = None
    thresholds: int | None = None
    statistics: bool | None = None
    causal: bool | None = None

    arguments_of: ClassVar[Mapping[str, tuple[str, ...]]] = {"bank": BANK_ARGUMENTS, "network": NETWORK_ARGUMENTS}
    plain_by_default: ClassVar[bool] = False

    def check(self) -> None:
        """Validate the settings before any work is done."""
        resolve_method(self, METHODS)
        check_bank_settings(
            1 if self.neurons is None else self.neurons, 1 if self.thresholds is None else self.thresholds
        )
        if self.scaling is not None:
            read_scalings(self.scaling, bool(self.causal))
        check_settings(self)

    def output_scaling(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return factor and offset that turn the scores of the readout into logits or into the units of the targets."""
        raise NotImplementedError

    def ridge_target(self, y: Any) -> NDArray[np.float64]:
        """Return labels or targets as the ridge of the fitted estimator sees them, shape (sequences, outputs)."""
        raise NotImplementedError

    def held_out_score(self, scores: NDArray, target: NDArray) -> tuple[str, float]:
        """Return the name and the value of a score of `ridge_target`: accuracy or R²."""
        raise NotImplementedError

    def _bank_settings(self, seed: int) -> BankSettings:
        candidates = CAUSAL_SCALINGS if self.causal else ALL_SCALINGS
        if self.scaling is not None:
            candidates = (read_scalings(self.scaling, bool(self.causal)),)
        return BankSettings(
            neurons=int(2048 if self.neurons is None else self.neurons),
            candidates=candidates,
            differences=self.differences is None or bool(self.differences),
            thresholds=int(2 if self.thresholds is None else self.thresholds),
            plain=self.plain_by_default if self.statistics is None else bool(self.statistics),
            seed=seed,
            device=str(resolve_device(self.device)),
        )

    def _fit_methods(
        self,
        sequences: list[SequenceData],
        target: NDArray[np.float64],
        weights: NDArray[np.float64],
        groups: Any,
    ) -> None:
        """Fit by the chosen method.

        Args:
            sequences: Training sequences.
            target: Targets of the ridge, shape `(sequences, outputs)`.
            weights: Weight of each sequence.
            groups: Group of each sequence, or None.
        """
        seed = read_seed(self.random_state)
        method = resolve_method(self, METHODS)
        groups = _read_groups(groups, len(sequences))
        rows = list(range(len(sequences)))
        if method == "network":
            self._fit_network(sequences, target, weights, groups, rows)
            self._use_network()
            return
        if method == "auto" and len(sequences) >= AUTO_FEWEST:
            count = round(AUTO_SHARE * len(rows))
            apart = set(self._choose_sampler(groups, target)(count, generator(seed, "validation")).tolist())
            kept = [row for row in rows if row not in apart]
            held = sorted(apart)
            if groups is not None and len(np.unique(groups[kept])) < 2:
                raise ValueError("groups has two values only, method='auto' needs three: choose another method")
            later = [sequences[row] for row in held]
            # Without any weight among them, all count alike.
            importance = weights[held] if weights[held].any() else np.ones(len(held))
            self._fit_bank(sequences, target, weights, groups, seed, kept)
            device = resolve_device(self.device)
            by_bank = self._validation_loss(self._calibrate(self.bank_(later, device)), target[held], importance)
            self._fit_network(sequences, target, weights, groups, kept)
            if self._validation_loss(self._network(later, device), target[held], importance) < by_bank:
                self._use_network()
                return
        self._fit_bank(sequences, target, weights, groups, seed, rows)
        self._forget(*NETWORK_ATTRIBUTES)
        self.method_ = "bank"

    def _use_network(self) -> None:
        self._forget("bank_")
        self.method_ = "network"

    def _fit_bank(self, sequences, target, weights, groups, seed, rows) -> None:
        selected = [sequences[row] for row in rows]
        part = None if groups is None else groups[rows]
        bank, held_out = fit_bank_model(selected, target[rows], weights[rows], part, self._bank_settings(seed))
        self._set_bank(bank)
        self._finish_bank(held_out, target[rows], weights[rows])

    def _fit_network(self, sequences, target, weights, groups, rows) -> None:
        drop = make_dropout(self._setting("dropout"), read_seed(self.random_state))
        truth, scale = target[rows].astype(np.float32), (weights[rows] / weights[rows].mean()).astype(np.float32)

        def loss(data, preparation):
            targets, factors = (torch.from_numpy(part).to(data.input.device) for part in (truth, scale))

            def mean_loss(model, batch, index):
                losses = self._compute_losses(apply_model(model, batch, every=False, drop=drop), targets[index])
                return (losses * factors[index]).mean()

            return mean_loss

        sampler = self._choose_sampler(None if groups is None else groups[rows], truth)
        selected = [sequences[row] for row in rows]
        self._train(selected, target.shape[1], loss, sampler, self._constant_answer(truth, scale))

    def _choose_sampler(self, groups: NDArray | None, target: NDArray) -> ValidationSampler:
        """Return a sampler of the rows of a target; with groups it draws whole groups."""
        return partial(self._draw_rows, target) if groups is None else partial(_draw_groups, groups)

    def _draw_rows(self, target: NDArray, count: int, random: torch.Generator) -> Tensor:
        """Draw about `count` rows of a target."""
        return torch.randperm(len(target), generator=random)[:count]

    def _compute_losses(self, outputs: Tensor, target: Tensor) -> Tensor:
        """Return the loss of each sequence for the training of the network."""
        raise NotImplementedError

    def _constant_answer(self, target: NDArray, weights: NDArray) -> NDArray[np.float64] | None:
        """Return the outputs with which the training of the network starts; None for 0."""

    def _set_bank(self, bank: BankModel) -> None:
        """Set the fitted attributes of the method "bank"."""
        self.bank_, self.history_, self.n_iter_, self.n_features_in_ = bank, [], 0, bank.features

    @property
    def _fitted(self) -> BankModel | NetworkModel:
        return self.bank_ if self.method_ == "bank" else self._network

    def _finish_bank(self, held_out: NDArray, target: NDArray, weights: NDArray) -> None:
        """Fit what depends on the scores of held-out sequences, such as a calibration."""

    def _calibrate(self, scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the scores of the bank in the units of the outputs of the network."""
        return scores

    def _validation_loss(self, outputs: NDArray, target: NDArray, weights: NDArray) -> float:
        """Return the mean loss of outputs in the units of the network, with a weight per sequence."""
        raise NotImplementedError

    def _open_stream(
        self, finish: Callable, finish_all: Callable[[NDArray], Any], sensors: int | None
    ) -> PredictionStream | BankStream:
        check_is_fitted(self)
        if self.method_ == "bank":
            return BankStream(self.bank_, finish_all, sensors)
        if sensors is not None:
            raise ValueError('sensors belongs to method="bank": omit it, and open one stream per sensor')
        return PredictionStream(self._network.open_stream(), self.preparation_, finish)

    def _restore_model(self, about: dict[str, Any], arrays: dict[str, NDArray]) -> None:
        if self.method_ == "bank":
            self._set_bank(BankModel.from_file(about, arrays))
        else:
            super()._restore_model(about, arrays)


def _read_groups(groups: Any, count: int) -> NDArray | None:
    if groups is None:
        return None
    if np.shape(groups) != (count,):
        raise ValueError(f"groups has shape {np.shape(groups)}, expected ({count},): one group per sequence")
    groups = read_labels(groups, "groups", "group", "sequence")
    if len(np.unique(groups)) < 2:
        raise ValueError("groups has one value only: pass at least two groups, or omit it")
    return groups


def drop_unweighted(
    sequences: list[SequenceData], target: NDArray, weights: NDArray[np.float64], groups: Any
) -> tuple[list[SequenceData], NDArray, NDArray[np.float64], Any]:
    """Return the sequences with a weight above 0 and what belongs to them: the others must not even set the scale."""
    used = np.flatnonzero(weights)
    groups = _read_groups(groups, len(sequences))
    kept = [sequences[row] for row in used]
    return kept, target[used], weights[used], None if groups is None else groups[used]


def _draw_groups(groups: NDArray, count: int, random: torch.Generator) -> Tensor:
    """Draw the rows of whole groups, about `count` in all."""
    _, number = np.unique(groups, return_inverse=True)
    sizes = np.bincount(number)
    order = torch.randperm(len(sizes), generator=random).numpy()
    chosen = order[: max(1, int((np.cumsum(sizes[order]) <= count).sum()))]
    return torch.from_numpy(np.flatnonzero(np.isin(number, chosen)))
