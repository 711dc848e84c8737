"""Baselines that a model is compared with: a constant answer, and a ridge on simple statistics of each sequence."""

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.preparation import mean_and_scale
from cornn.fitting.readers import Dataset

__all__ = ["STATISTICS", "compute_statistics", "predict_with_ridge"]

STATISTICS = "ridge on simple statistics"
"""Name of the second baseline."""
ALPHAS = np.logspace(-3, 4, 15)
LARGEST = 1e100  # so that squares are finite


def compute_statistics(data: Dataset) -> NDArray[np.float64]:
    """Compute simple statistics of each sequence, shape (sequences, statistics).

    Per feature: mean, standard deviation, minimum, maximum, first and last value, mean absolute difference, and the
    share of missing values; and the number of steps.
    """
    rows = []
    for series in data.sequences:
        row = [float(len(series.values))]
        for column in series.values.T:
            known = np.clip(column[~np.isnan(column)], -LARGEST, LARGEST)
            steps = np.abs(np.diff(known)).mean() if len(known) > 1 else 0.0
            if len(known):
                row += [known.mean(), known.std(), known.min(), known.max(), known[0], known[-1], steps]
            else:
                row += [np.nan] * 7
            row.append(1 - len(known) / len(column))
        rows.append(row)
    return np.array(rows)


def predict_with_ridge(task: str, training: Dataset, test: Dataset) -> NDArray:
    """Fit a ridge to statistics of the training split, with leave-one-out for its penalty, and predict the test split.

    Args:
        task: "classify" or "regress".
        training: The training split.
        test: The test split.

    Returns:
        The labels, or the numbers (sequences, targets).
    """
    from sklearn.linear_model import RidgeClassifierCV, RidgeCV

    inputs, others = compute_statistics(training), compute_statistics(test)
    known = ~np.isnan(inputs)
    mean = np.where(known, inputs, 0).sum(0) / np.maximum(known.sum(0), 1)
    inputs, others = np.where(known, inputs, mean), np.where(np.isnan(others), mean, others)
    scale = inputs.std(0)
    scale[scale <= 1e-12 * np.abs(mean)] = np.inf  # a constant is not informative
    inputs, others = (inputs - mean) / scale, (others - mean) / scale
    if task == "classify":
        return np.asarray(RidgeClassifierCV(ALPHAS).fit(inputs, training.labels()).predict(others))
    target = training.numbers().reshape(len(training), -1)
    mean, scale = mean_and_scale(target)
    predictions = np.asarray(RidgeCV(ALPHAS).fit(inputs, (target - mean) / scale).predict(others))
    return predictions.reshape(len(test), -1) * scale + mean
