"""Sequences on which the exports of an oscillator bank are compared."""

import numpy as np

from cornn.estimators.bank_inputs import BankInputs
from cornn.estimators.series import SequenceData

__all__ = ["draw_sequences"]

SPREAD = 0.5
"""Standard deviation of the logarithm of drawn times; every tenth is 0, and the first is unknown."""


def draw_sequences(inputs: BankInputs, count: int, steps: int) -> list[SequenceData]:
    """Draw sequences with the scale of the training data, exact in float32, at uneven times if the model has times."""
    random = np.random.default_rng(0)
    values = (random.normal(size=(count, steps, inputs.features)) * inputs.scale + inputs.mean).astype(np.float32)
    if inputs.unit is None:
        return [SequenceData(sequence.astype(np.float64), None) for sequence in values]
    gaps = inputs.unit * np.exp(SPREAD * random.normal(size=(count, steps)))
    gaps[random.random(gaps.shape) < 0.1] = 0
    gaps[:, 0] = np.nan
    return [
        SequenceData(sequence.astype(np.float64), spans.astype(np.float32).astype(np.float64))
        for sequence, spans in zip(values, gaps, strict=True)
    ]
