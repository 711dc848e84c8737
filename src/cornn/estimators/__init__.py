"""Scikit-learn estimators for sequences: classification, regression and forecasting."""

from cornn._extras import missing_extra

try:
    import sklearn  # noqa: F401
except ImportError as error:
    raise missing_extra("estimators", "the estimators need scikit-learn") from error

from cornn.estimators.bank import OscillatorBank
from cornn.estimators.classifier import CoRNNClassifier
from cornn.estimators.forecaster import CoRNNForecaster
from cornn.estimators.regressor import CoRNNRegressor
from cornn.estimators.saving import read_file
from cornn.estimators.series import Series

__all__ = ["ESTIMATORS", "CoRNNClassifier", "CoRNNForecaster", "CoRNNRegressor", "OscillatorBank", "Series", "load"]

ESTIMATORS = {kind.__name__: kind for kind in (CoRNNClassifier, CoRNNRegressor, CoRNNForecaster)}


def load(path) -> CoRNNClassifier | CoRNNRegressor | CoRNNForecaster:
    """Load an estimator that was saved with `save`, whatever its class.

    Nothing in the file is executed.

    Args:
        path: The file that `save` wrote.

    Returns:
        The fitted estimator, with its settings, weights and scaling.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged or does not contain an estimator.

    Examples:
        >>> classifier.save("waves.safetensors")
        >>> load("waves.safetensors").predict(X)
    """
    kind = read_file(path)[0]["kind"]
    if kind not in ESTIMATORS:
        raise ValueError(f"{path} contains an unknown estimator {kind!r}: known ones are {', '.join(ESTIMATORS)}")
    return ESTIMATORS[kind].load(path)
