"""Linear readout of a bank: ridge regression whose penalty is chosen by leave-one-out error, and calibration.

With few sequences the ridge is solved from the products of sequences (their kernel), whose sum over parts of the
features is the kernel of all of them; so candidates that use different parts cost one small eigenvalue problem each.
With many sequences it is solved from the products of features, accumulated in chunks.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["Readout", "Standardiser", "calibrate", "fit_from_chunks", "fit_from_kernel", "make_folds"]

PENALTIES = np.logspace(-5, 3, 17)  # relative to the mean squared length of a row of standardised features
CONSTANT = 1e-6  # a feature that varies less than this share of its size counts as constant
FOLDS = 10
MIN_LEFT = 1e-9  # of a prediction's own share that leaving it out takes away
LARGEST_SCALE = 50.0  # of scores, in calibration


@dataclass(frozen=True, eq=False)
class Readout:
    """scores = features @ weight + bias.

    Attributes:
        weight: Shape `(features, outputs)`.
        bias: Shape `(outputs)`.
    """

    weight: NDArray[np.float32]
    bias: NDArray[np.float64]

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the scores of features, shape `(rows, outputs)`."""
        # In float64, so that to float32's precision the result does not depend on the other rows.
        return features.astype(np.float64) @ self.weight.astype(np.float64) + self.bias


@dataclass(frozen=True, eq=False)
class Standardiser:
    """(features - mean) * factor; the factor of a constant feature is 0."""

    mean: NDArray[np.float32]
    factor: NDArray[np.float32]

    @classmethod
    def fit(cls, features: NDArray[np.float32], weights: NDArray[np.float64]) -> "Standardiser":
        """Fit to weighted rows."""
        share = (weights / weights.sum()).astype(np.float32)
        mean = share @ features
        deviation = np.sqrt(share @ (features - mean) ** 2)
        varies = deviation > CONSTANT * (np.abs(mean) + 1e-3)
        return cls(mean, np.where(varies, 1 / np.where(varies, deviation, 1), 0).astype(np.float32))

    def __call__(self, features: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return standardised features."""
        return (features - self.mean) * self.factor


def make_folds(groups: NDArray | None, count: int, seed: int) -> NDArray[np.int64] | None:
    """Return the fold of each row, so that no group is in two folds; None if rows are independent."""
    if groups is None:
        return None
    _, number = np.unique(groups, return_inverse=True)
    total = number.max() + 1
    sizes = np.bincount(number)
    order = np.random.default_rng([seed % 2**63, 25]).permutation(total)
    order = order[np.argsort(-sizes[order], kind="stable")]
    folds = np.zeros(min(FOLDS, total), np.int64)
    fold_of = np.empty(total, np.int64)
    for group in order:
        fold_of[group] = folds.argmin()
        folds[fold_of[group]] += sizes[group]
    return fold_of[number]


@dataclass(frozen=True, eq=False)
class Fit:
    """A ridge fit of one penalty.

    Attributes:
        dual: Weights of the rows, shape `(rows, outputs)`, for a fit from the kernel.
        bias: Output at the mean of the features.
        held_out: Prediction for each row from the others (or from the other folds), shape `(rows, outputs)`.
        errors: Squared error of these, weighted, shape `(rows)`.
        penalty: The penalty, relative.
    """

    dual: NDArray[np.float64]
    bias: NDArray[np.float64]
    held_out: NDArray[np.float64]
    errors: NDArray[np.float64]
    penalty: float


def fit_from_kernel(
    kernel: NDArray[np.float64],
    target: NDArray[np.float64],
    weights: NDArray[np.float64],
    folds: NDArray[np.int64] | None,
) -> Fit:
    """Fit a ridge regression to the kernel of standardised features.

    Args:
        kernel: Products of the rows, shape `(rows, rows)`; the weighted mean of the features is 0.
        target: Shape `(rows, outputs)`.
        weights: Weight of each row, mean 1.
        folds: Fold of each row, or None for leave-one-out.

    Returns:
        The fit with the penalty of the least error for rows that were left out.
    """
    count, root = weights.sum(), np.sqrt(weights)[:, None]
    share = weights / count
    size = float(share @ np.diag(kernel)) or 1.0  # 0 if no feature varies
    values, vectors = np.linalg.eigh(root * kernel * root.T / size)
    values = np.maximum(values, 0)
    bias = share @ target
    projected = vectors.T @ (root * (target - bias))
    best: Fit | None = None
    for penalty in PENALTIES:
        left = values + penalty * count
        fitted = vectors @ ((values / left)[:, None] * projected) / np.maximum(root, 1e-12) + bias
        residual = target - fitted
        if folds is None:
            leverage = np.square(vectors) @ (values / left) + share
            errors = residual / np.maximum(1 - leverage, MIN_LEFT)[:, None]
        else:
            errors = np.empty_like(residual)
            for fold in range(folds.max() + 1):
                rows = folds == fold
                # In the weighted coordinates the hat matrix is symmetric.
                hat = (vectors[rows] * (values / left)) @ vectors[rows].T + np.outer(
                    root[rows], root[rows]
                ) / weights.sum()
                kept = np.eye(rows.sum()) - hat
                errors[rows] = np.linalg.lstsq(kept, root[rows] * residual[rows], rcond=None)[0] / np.maximum(
                    root[rows], 1e-12
                )
        squared = weights * np.square(errors).sum(1)
        if best is None or squared.mean() < best.errors.mean():
            dual = root * (vectors @ (projected / left[:, None])) / size
            best = Fit(dual, bias, target - errors, squared, float(penalty))
    assert best is not None
    return best


def fit_from_chunks(
    chunks: Callable[[], Iterable[tuple[slice, NDArray[np.float32]]]],
    target: NDArray[np.float64],
    weights: NDArray[np.float64],
    folds: NDArray[np.int64] | None,
) -> tuple[Readout, NDArray[np.float64], float]:
    """Fit a ridge regression to features that come in chunks of rows.

    Args:
        chunks: Return an iterator over (rows, features); it is called two or three times.
        target: Shape `(rows, outputs)`.
        weights: Weight of each row, mean 1.
        folds: Fold of each row, or None for leave-one-out.

    Returns:
        The readout, the predictions for rows that were left out, and the relative penalty.
    """
    first: Standardiser | None = None
    count = weights.sum()
    bias = weights @ target / count
    number = 1 if folds is None else int(folds.max()) + 1
    products: NDArray = np.zeros(0)
    for rows, features in chunks():
        if first is None:
            # The first chunk's mean and scale keep the products small; the exact ones follow from the sums.
            first = Standardiser.fit(features, weights[rows])
            width = features.shape[1] + 1 + target.shape[1]
            products = np.zeros((number, width, width))
        near = first(features)
        table = np.concatenate([near, np.ones((len(near), 1), np.float32), (target[rows] - bias).astype(np.float32)], 1)
        table *= np.sqrt(weights[rows]).astype(np.float32)[:, None]
        for fold in range(number):
            part = table if folds is None else table[folds[rows] == fold]
            products[fold] += part.T @ part
    assert first is not None
    width = len(first.mean)
    totals = products.sum(0)
    total = totals[width, width]
    shift = totals[:width, width] / total
    deviation = np.sqrt(np.maximum(np.diag(totals)[:width] / total - shift**2, 0))
    varies = (deviation > CONSTANT) & (first.factor > 0)
    factor = np.where(varies, 1 / np.where(varies, deviation, 1), 0)

    def centred(part: NDArray) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """Return X'X and X'Y about the means of the rows, and these means, of features scaled by `factor`."""
        sums, weight = part[:width, width], part[width, width]
        mean, answer = sums / weight, part[width, width + 1 :] / weight
        square = part[:width, :width] - np.outer(mean, sums)
        cross = part[:width, width + 1 :] - np.outer(sums, answer)
        return factor[:, None] * square * factor, factor[:, None] * cross, factor * (mean - shift), answer + bias

    gram, moment, _, _ = centred(totals)
    size = float(np.trace(gram) / count) or 1.0
    standardiser = Standardiser(
        (first.mean + shift / np.where(first.factor > 0, first.factor, 1)).astype(np.float32),
        (first.factor * factor).astype(np.float32),
    )
    held_out = np.empty((len(PENALTIES), *target.shape))
    values, vectors = np.linalg.eigh(gram / size)
    values = np.maximum(values, 0)
    left = values[:, None] + PENALTIES * count
    projected = vectors.T @ moment / size
    if folds is None:
        rotate = vectors.astype(np.float32)
        for rows, features in chunks():
            rotated = (standardiser(features) @ rotate).astype(np.float64)
            leverage = (
                np.square(rotated) @ (1 / left) / size * weights[rows, None] + (weights[rows] / weights.sum())[:, None]
            )
            for place in range(len(PENALTIES)):
                residual = target[rows] - bias - rotated @ (projected / left[:, place, None])
                held_out[place, rows] = target[rows] - residual / np.maximum(1 - leverage[:, place], MIN_LEFT)[:, None]
    else:
        fits = []
        for fold in range(number):
            system, aim, mean, answer = centred(totals - products[fold])
            solutions = []
            for penalty in PENALTIES:
                loaded = system.copy()
                loaded[np.diag_indices(width)] += penalty * count * size
                solutions.append(np.linalg.solve(loaded, aim))
            fits.append((np.stack(solutions), mean, answer))
        for rows, features in chunks():
            near = standardiser(features).astype(np.float64)
            for fold, (solutions, mean, answer) in enumerate(fits):
                places = np.flatnonzero(folds[rows] == fold)
                at = rows.start + places
                held_out[:, at] = np.einsum("rf,pfo->pro", near[places] - mean, solutions, optimize=True) + answer
    errors = weights * np.square(target - held_out).sum(2)
    best = int(errors.mean(1).argmin())
    weight = standardiser.factor[:, None] * (vectors @ (projected / left[:, best, None]))
    readout = Readout(weight.astype(np.float32), bias - standardiser.mean @ weight)
    return readout, held_out[best], float(PENALTIES[best])


def calibrate(scores: NDArray[np.float64], target: NDArray[np.int64], weights: NDArray[np.float64]) -> float:
    """Fit the factor on scores whose softmax gives the least log loss.

    Args:
        scores: Scores of rows that were left out of the fit, shape `(rows, classes)`.
        target: Number of the class of each row.
        weights: Weight of each row.

    Returns:
        The factor. One pseudo-observation that says nothing keeps it finite where all scores are right.
    """
    count, classes = scores.shape
    aim = np.zeros_like(scores)
    aim[np.arange(count), target] = 1
    aim = (count * aim + 1 / classes) / (count + 1)

    def loss(scale: float) -> float:
        shifted = scale * (scores - scores.max(1, keepdims=True))
        return float(weights @ (np.log(np.exp(shifted).sum(1)) - (aim * shifted).sum(1)))

    # The loss is convex in the factor.
    low, high = 0.0, LARGEST_SCALE
    golden = (5**0.5 - 1) / 2
    inner = [high - golden * (high - low), low + golden * (high - low)]
    values = [loss(point) for point in inner]
    while high - low > 1e-4 * max(1.0, low):
        if values[0] < values[1]:
            high, inner[1], values[1] = inner[1], inner[0], values[0]
            inner[0] = high - golden * (high - low)
            values[0] = loss(inner[0])
        else:
            low, inner[0], values[0] = inner[0], inner[1], values[1]
            inner[1] = low + golden * (high - low)
            values[1] = loss(inner[1])
    return (low + high) / 2
