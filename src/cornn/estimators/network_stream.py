"""Predict with a trained network from one sample at a time."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.estimators.preparation import Preparation
from cornn.estimators.times import LONGEST, complete_spans, scale_timespan
from cornn.streaming import Stream

__all__ = ["PredictionStream"]


class PredictionStream:
    """Predict from one sample at a time, with the state kept between calls.

    After n samples the prediction equals that of `predict` for the sequence of these n samples. Create one with the
    estimator's `stream` method.

    Examples:
        >>> stream = classifier.stream("predict_proba")
        >>> for sample in sequence:  # (time, features)
        ...     probabilities = stream(sample)
    """

    def __init__(self, stream: Stream, preparation: Preparation, finish: Callable[[NDArray, Stream], Any]) -> None:
        self.stream = stream
        self._preparation, self._finish = preparation, finish

    def __call__(self, sample: Any, timespan: float | None = None) -> Any:
        """Process one sample and return the prediction so far.

        Args:
            sample: The sample, shape (features,), or a number if there is one feature; NaN marks a missing value.
            timespan: The time since the previous sample, in the unit of the training data. Defaults to the median of
                the training data, as does NaN.

        Returns:
            The prediction for the sequence up to this sample.
        """
        answer = self.stream(sample, self._limit(self._count_steps(timespan)))
        if not math.isfinite(sum(answer.tolist())):
            raise ValueError(
                "the network's output is not finite: a sample is too far from the training data, or the weights are "
                "damaged; correct the sample and `reset` the stream, or fit again"
            )
        return self._finish(answer, self.stream)

    def _count_steps(self, timespan: float | None) -> float:
        """Return the time since the previous sample in steps."""
        if timespan is None:
            return 1.0
        steps = float(scale_timespan(timespan, self._preparation.unit))
        if 0 < steps <= LONGEST:  # the usual case: for one number, NumPy would take half as long as the step itself
            return steps
        return float(complete_spans(np.asarray(steps), not self.stream.steps))

    def _limit(self, steps: float) -> float:
        """Return the factor on dt of a step."""
        return min(steps, self._preparation.longest)

    def reset(self) -> None:
        """Start a new sequence."""
        self.stream.reset()

    def to_bytes(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        return self.stream.to_bytes()

    def restore(self, state: bytes | bytearray | memoryview) -> None:
        """Resume from a state that `to_bytes` returned, from a stream of the same estimator."""
        self.stream.restore(state)
