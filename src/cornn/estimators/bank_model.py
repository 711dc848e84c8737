"""Fit a bank and its readout to sequences, and choose between candidates inside the training data."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from cornn._checked import convert
from cornn.engine.bank import GROUP, Bank
from cornn.estimators.attributions import attribute_bank
from cornn.estimators.bank import FittedBank, draw_bank
from cornn.estimators.bank_inputs import BankInputs
from cornn.estimators.bank_readout import Readout, Standardiser, fit_from_chunks, fit_from_kernel, make_folds
from cornn.estimators.series import SequenceData

__all__ = ["LARGE", "BankModel", "BankSettings", "fit_bank_model", "shrink_bank_model"]

LARGE = 4000
"""Smallest number of sequences for which features are capped and computed in chunks."""
LARGE_WIDTH = 3072  # maximum number of features of a large problem
CHOICE = 1500  # maximum number of sequences for the choice between candidates
CHUNK_BYTES = 1 << 25  # of features at a time; a dozen copies of them exist at once
SIGNIFICANT = 2.0  # standard errors by which a candidate must be better than all views together


@dataclass(frozen=True)
class BankSettings:
    """Settings of `fit_bank_model`; those of `draw_bank`.

    Attributes:
        candidates: Scalings to choose from; the first is all of them, which wins ties.
    """

    neurons: int
    candidates: tuple[tuple[str, ...], ...]
    differences: bool
    thresholds: int
    plain: bool
    seed: int
    device: str = "cpu"


@dataclass(frozen=True, eq=False)
class BankModel:
    """A fitted bank with its readout.

    Attributes:
        bank: The bank.
        readout: Readout of its features.
        penalty: Relative penalty of the ridge.
    """

    bank: FittedBank
    readout: Readout
    penalty: float

    @property
    def features(self) -> int:
        """Number of features of a sequence."""
        return self.bank.inputs.features

    @property
    def unit(self) -> float | None:
        """Median time between the samples of the training data; None if they have no times."""
        return self.bank.inputs.unit

    @property
    def outputs(self) -> int:
        """Number of scores."""
        return len(self.readout.bias)

    @property
    def parameters(self) -> int:
        """Number of trained numbers: those of the readout."""
        return self.readout.weight.size + self.readout.bias.size

    def describe(self) -> list[tuple[str, str]]:
        """Describe the model, as rows of a name and a text."""
        scalings = dict.fromkeys(scaling for scaling, _ in self.bank.inputs.views if scaling != "gaps")
        return [
            ("method", "oscillator bank with a ridge readout"),
            ("neurons", f"{self.bank.bank.neurons:,}, untrained"),
            ("features", f"{self.bank.width:,} per sequence"),
            ("scaling", " and ".join(scalings)),
            ("causal", "yes" if self.bank.causal else "no: it needs the whole sequence"),
            ("parameters", f"{self.parameters:,} in the readout"),
        ]

    def __call__(self, sequences: Sequence[SequenceData], device: torch.device | str = "cpu") -> NDArray[np.float64]:
        """Return the scores, shape `(sequences, outputs)`."""
        return np.concatenate([self.readout(features) for _, features in _chunks(self.bank, sequences, str(device))])

    def attribute(
        self, sequences: Sequence[SequenceData], weights: NDArray[np.float64], device: torch.device
    ) -> NDArray[np.float64]:
        """Attribute a weighted sum of the scores to the values, on the CPU; weights: `(sequences, outputs)`."""
        return attribute_bank(self.bank, self.readout, sequences, weights)

    def to_file(self) -> tuple[dict[str, Any], dict[str, NDArray]]:
        """Return entries of the header of an estimator's file, and arrays."""
        inputs, bank = self.bank.inputs, self.bank.bank
        about = {
            "unit": inputs.unit,
            "views": [list(view) for view in inputs.views],
            "plain": bank.plain,
            "penalty": self.penalty,
        }
        arrays = {name: getattr(inputs, name) for name in ("mean", "scale", "step")}
        arrays |= {name: getattr(bank, name) for name in BANK_ARRAYS}
        arrays |= {"weight": self.readout.weight, "offset": self.readout.bias}
        return {"bank": about}, {f"bank.{name}": array for name, array in arrays.items()}

    @classmethod
    def from_file(cls, about: dict[str, Any], arrays: dict[str, NDArray]) -> "BankModel":
        """Return the model of `to_file`."""
        about = about["bank"]
        arrays = {name.removeprefix("bank."): value for name, value in arrays.items() if name.startswith("bank.")}
        views = tuple((str(scaling), bool(differences)) for scaling, differences in about["views"])
        inputs = BankInputs(
            arrays["mean"], arrays["scale"], arrays["step"], convert(float | None, about["unit"], "unit"), views
        )
        bank = Bank(**{name: arrays[name] for name in BANK_ARRAYS}, plain=bool(about["plain"]))
        readout = Readout(arrays["weight"], arrays["offset"])
        model = cls(FittedBank(inputs, bank), readout, float(about["penalty"]))
        model._check_shapes()
        return model

    def _check_shapes(self) -> None:
        """Check that the shapes of all arrays belong together, as the C code relies on them."""
        inputs, bank, features = self.bank.inputs, self.bank.bank, self.bank.inputs.features
        groups, neurons = len(bank.first), len(bank.first) * GROUP
        shapes = {
            "mean": (inputs.mean, (features,)),
            "scale": (inputs.scale, (features,)),
            "step": (inputs.step, (features,)),
            "direction": (bank.direction, (groups, features)),
            "gain": (bank.gain, (neurons,)),
            "bias": (bank.bias, (neurons,)),
            "constants": (bank.constants, (3, neurons)),
            "levels": (bank.levels, (2, bank.levels.shape[1], neurons)),
            "weight": (self.readout.weight, (self.bank.width, len(self.readout.bias))),
        }
        for name, (array, shape) in shapes.items():
            if array.shape != shape:
                raise ValueError(f"{name} has shape {array.shape}, expected {shape}")
        last = len(inputs.views) * features - features
        if bank.first.dtype != np.int64 or bank.first.min() < 0 or bank.first.max() > last:
            raise ValueError(f"first names channels that the {len(inputs.views)} views do not have")
        if not 1 <= bank.levels.shape[1] <= 4:
            raise ValueError(f"levels has {bank.levels.shape[1]} thresholds, expected 1 to 4")


BANK_ARRAYS = ("first", "direction", "gain", "bias", "constants", "levels")


def fit_bank_model(
    sequences: Sequence[SequenceData],
    target: NDArray[np.float64],
    weights: NDArray[np.float64],
    groups: NDArray | None,
    settings: BankSettings,
) -> tuple[BankModel, NDArray[np.float64]]:
    """Fit a bank and its readout.

    Args:
        sequences: Training sequences.
        target: Targets, shape `(sequences, outputs)`.
        weights: Weight of each sequence.
        groups: Group of each sequence, if sequences of one group are not independent; or None.
        settings: Size of the bank, and the candidates.

    Returns:
        The model, and for each training sequence the scores of a readout that did not see it (or its fold of groups).
    """
    weights = weights / weights.mean()
    folds = make_folds(groups, len(sequences), settings.seed)
    scalings = tuple(dict.fromkeys(name for candidate in settings.candidates for name in candidate))
    drawn = {name: getattr(settings, name) for name in ("neurons", "differences", "thresholds", "plain", "seed")}
    full_bank = draw_bank(sequences, scalings=scalings, **drawn)
    if len(sequences) > LARGE:
        return _fit_large(full_bank, sequences, target, weights, folds, settings)
    features = full_bank.features(sequences, settings.device)
    chosen, fit, scaler = _choose(full_bank, features, target, weights, folds, settings.candidates)
    groups_kept = _groups_of(full_bank, chosen)
    columns = _columns(full_bank, groups_kept)
    near = features if len(groups_kept) == len(full_bank.bank.first) else features[:, columns]
    scaler = Standardiser(scaler.mean[columns], scaler.factor[columns])
    weight = scaler.factor[:, None] * (scaler(near).T @ fit.dual.astype(np.float32))
    readout = Readout(weight.astype(np.float32), fit.bias - scaler.mean.astype(np.float64) @ weight)
    return BankModel(full_bank.select(groups_kept), readout, fit.penalty), fit.held_out


def shrink_bank_model(
    model: BankModel, sequences: Sequence[SequenceData], target: NDArray[np.float64], groups: int
) -> tuple[BankModel, NDArray[np.float64], NDArray[np.float64]]:
    """Drop groups of neurons until `groups` are left, and fit the readout again.

    In each round, the fifth of the groups whose weights on standardised features are smallest is dropped, and penalty
    and readout are fitted again by leave-one-out error.

    Args:
        model: The model.
        sequences: Sequences to fit to, those of the training.
        target: Targets of the ridge, shape `(sequences, outputs)`.
        groups: Number of groups of 16 neurons to keep.

    Returns:
        The smaller model, and the leave-one-out scores before and after, shape `(sequences, outputs)`.
    """
    if len(sequences) > LARGE:
        sequences, target = sequences[:LARGE], target[:LARGE]
    features, weights = model.bank.features(sequences), np.ones(len(sequences))
    scaler = Standardiser.fit(features, weights)
    near = scaler(features)
    kept, before = np.arange(len(model.bank.bank.first)), None
    while True:
        columns = _columns(model.bank, kept)
        selected = near[:, columns]
        fit = fit_from_kernel((selected @ selected.T).astype(np.float64), target, weights, None)
        before = fit.held_out if before is None else before
        slopes = selected.T @ fit.dual.astype(np.float32)
        if len(kept) <= groups:
            break
        sizes = np.square(slopes).sum(1).reshape(model.bank.bank.stats, -1, GROUP).sum((0, 2))
        left = max(groups, int(0.8 * len(kept)))
        kept = np.sort(kept[np.argsort(-sizes, kind="stable")[:left]])
    weight = scaler.factor[columns, None] * slopes
    readout = Readout(weight.astype(np.float32), fit.bias - scaler.mean[columns].astype(np.float64) @ weight)
    return BankModel(model.bank.select(kept), readout, fit.penalty), before, fit.held_out


def _fit_large(full_bank, sequences, target, weights, folds, settings) -> tuple[BankModel, NDArray[np.float64]]:
    """Choose on a sample, cap the features, and accumulate their products in chunks."""
    chosen = settings.candidates[0]
    if len(settings.candidates) > 1:
        sample = np.sort(np.random.default_rng([settings.seed % 2**63, 26]).permutation(len(sequences))[:CHOICE])
        features = full_bank.features([sequences[row] for row in sample], settings.device)
        part = None if folds is None else np.unique(folds[sample], return_inverse=True)[1]
        chosen, _, _ = _choose(full_bank, features, target[sample], weights[sample], part, settings.candidates)
    groups = _groups_of(full_bank, chosen)
    limit = max(len(full_bank.inputs.views), LARGE_WIDTH // (GROUP * full_bank.bank.stats))
    bank = full_bank.select(groups[:limit])
    readout, held_out, penalty = fit_from_chunks(
        lambda: _chunks(bank, sequences, settings.device), target, weights, folds
    )
    return BankModel(bank, readout, penalty), held_out


def _chunks(bank: FittedBank, sequences: Sequence[SequenceData], device: str) -> Iterator[tuple[slice, NDArray]]:
    count = max(1, CHUNK_BYTES // (4 * bank.width))
    for start in range(0, len(sequences), count):
        rows = slice(start, min(start + count, len(sequences)))
        yield rows, bank.features(sequences[rows], device)


def _groups_of(bank: FittedBank, scalings: Sequence[str]) -> NDArray[np.int64]:
    """Return the groups that are driven by one of the scalings, or by the marks of missing values."""
    views = bank.inputs.views
    kept = [number for number, (scaling, _) in enumerate(views) if scaling in scalings or scaling == "gaps"]
    return np.flatnonzero(np.isin(bank.bank.first // bank.inputs.features, kept))


def _columns(bank: FittedBank, groups: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return the columns of the features that belong to some groups."""
    if len(groups) == len(bank.bank.first):
        return slice(None)
    neurons = (groups[:, None] * GROUP + np.arange(GROUP)).ravel()
    return (np.arange(bank.bank.stats)[:, None] * bank.bank.neurons + neurons).ravel()


def _choose(full_bank, features, target, weights, folds, candidates):
    """Fit every candidate, and return the best with its fit and the standardiser of all features.

    Another candidate replaces the first only if its errors are lower by more than chance would explain: the first uses
    all views, which costs little where one of them is useless. Of the others the simpler one, listed earlier, wins.
    """
    scaler = Standardiser.fit(features, weights)
    near = scaler(features)
    kernels: dict[bytes, NDArray] = {}

    def kernel(groups: NDArray[np.int64]) -> NDArray[np.float64]:
        """Sum the kernels of the views, each computed once."""
        total = np.zeros((len(near), len(near)))
        views = full_bank.bank.first[groups]
        for view in np.unique(views):
            members = groups[views == view]
            if members.tobytes() not in kernels:
                part = near[:, _columns(full_bank, members)]
                kernels[members.tobytes()] = (part @ part.T).astype(np.float64)
            total += kernels[members.tobytes()]
        return total

    if len(candidates) == 1:
        return candidates[0], fit_from_kernel((near @ near.T).astype(np.float64), target, weights, folds), scaler
    fits = [
        fit_from_kernel(kernel(_groups_of(full_bank, candidate)), target, weights, folds) for candidate in candidates
    ]
    best, base = 0, fits[0].errors
    for number, fit in enumerate(fits[1:], 1):
        gain = base - fit.errors
        error = gain.std() / np.sqrt(len(gain))
        if gain.mean() > SIGNIFICANT * error and fit.errors.mean() < fits[best].errors.mean():
            best = number
    return candidates[best], fits[best], scaler
