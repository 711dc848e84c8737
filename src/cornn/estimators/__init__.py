"""Fit, predict and score on your own sequences, by scikit-learn's conventions."""

from cornn._extras import missing_extra

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise missing_extra("estimators", "the estimators need scikit-learn") from error

from cornn.estimators.classifier import CoRNNClassifier
from cornn.estimators.forecaster import CoRNNForecaster
from cornn.estimators.regressor import CoRNNRegressor
from cornn.estimators.sequences import Series
from cornn.estimators.stored import read

__all__ = ["ESTIMATORS", "CoRNNClassifier", "CoRNNForecaster", "CoRNNRegressor", "Series", "load"]

ESTIMATORS = {kind.__name__: kind for kind in (CoRNNClassifier, CoRNNRegressor, CoRNNForecaster)}


def load(path) -> CoRNNClassifier | CoRNNRegressor | CoRNNForecaster:
    """The estimator that `save` wrote, of whichever kind it is. Nothing that the file holds is executed."""
    kind = read(path)[0]["kind"]
    if kind not in ESTIMATORS:
        raise ValueError(f"{path} holds a {kind!r}: known are {', '.join(ESTIMATORS)}")
    return ESTIMATORS[kind].load(path)
