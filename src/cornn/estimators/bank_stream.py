"""Predict with a bank from one sample at a time, for one sequence or many."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save

from cornn.engine.bank import Memory, Sequences, pool
from cornn.estimators.bank_inputs import RunningInputs
from cornn.estimators.bank_model import BankModel
from cornn.estimators.times import complete_spans, scale_timespan
from cornn.streaming import check_not_negative, check_state, unpack_state

__all__ = ["BankStream"]


class BankStream:
    """Predict from one sample at a time, in a time that does not grow with the length of the sequence.

    After n samples the prediction equals that of `predict` for the sequence of these n samples. The readout was trained
    on complete sequences, so predictions are valid at the end of a sequence; before it they are predictions for the
    shorter sequence. Create one with the estimator's `stream` method.

    Examples:
        >>> stream = classifier.stream("predict_proba")
        >>> for sample in sequence:  # (time, features)
        ...     probabilities = stream(sample)
    """

    def __init__(self, model: BankModel, finish: Callable[[NDArray], Any], sensors: int | None) -> None:
        if not model.bank.causal:
            raise ValueError(
                "this model scales each sequence by itself, which needs all of it: fit it with causal=True, or "
                'with scaling="set" or "running"'
            )
        if sensors is not None and sensors < 1:
            raise ValueError(f"sensors must be a positive integer, got {sensors!r}")
        self._model, self._finish, self._sensors = model, finish, sensors
        self.reset()

    def __call__(self, sample: Any, timespan: Any = None) -> Any:
        """Process one sample of every sequence and return the predictions so far.

        Args:
            sample: The sample, shape (features,), or a number if there is one feature; with several sensors, shape
                (sensors, features). NaN marks a missing value.
            timespan: The time since the previous sample, in the unit of the training data; one per sensor, or one for
                all. Defaults to the median of the training data, as does NaN.

        Returns:
            The prediction for the sequence up to this sample; with several sensors, one per sensor.
        """
        inputs = self._model.bank.inputs
        count = self._sensors or 1
        values = np.asarray(sample, np.float64)
        if values.size != count * inputs.features or (self._sensors is not None and len(values) != count):
            expected = (inputs.features,) if self._sensors is None else (count, inputs.features)
            raise ValueError(f"the sample has shape {values.shape}, expected {expected}")
        if np.isinf(values).any():
            raise ValueError("the sample contains infinity: replace it, or pass NaN if the value is missing")
        spans = None
        if timespan is not None:
            spans = np.broadcast_to(scale_timespan(timespan, inputs.unit), (count,))
            spans = complete_spans(spans, not self.steps)
        channels = self._inputs(values.reshape(count, -1), spans)
        data = Sequences(channels, np.arange(count + 1), spans)
        scores = self._model.readout(pool(self._model.bank.bank, data, self._memory).reshape(count, -1))
        return self._finish(scores)[0] if self._sensors is None else self._finish(scores)

    @property
    def steps(self) -> int:
        """Number of samples since the start of the sequence."""
        return int(self._inputs.steps[0])

    def reset(self) -> None:
        """Start new sequences."""
        count = self._sensors or 1
        self._inputs = RunningInputs(self._model.bank.inputs, count)
        self._memory = Memory.empty(self._model.bank.bank, count)

    def to_bytes(self) -> bytes:
        """Return the state as bytes, for `restore`."""
        return save(self._state())

    def _state(self) -> dict[str, NDArray]:
        return {**self._inputs.arrays(), "bank": self._memory.sums, "elapsed": self._memory.elapsed}

    def restore(self, state: bytes | bytearray | memoryview) -> None:
        """Resume from a state that `to_bytes` returned, from a stream of the same estimator."""
        restored = unpack_state(state)
        check_state(restored, self._state())
        for name in ("steps", "elapsed"):
            check_not_negative(restored, name)
        self._inputs.restore(restored)
        self._memory = Memory(restored["bank"].copy(), restored["elapsed"].copy())
