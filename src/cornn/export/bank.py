"""What the exports of an oscillator bank share: its step over any time, and sequences to compare on."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cornn.engine.bank import Bank
from cornn.estimators.bank_inputs import BankInputs
from cornn.estimators.series import SequenceData
from cornn.functional import coefficients

__all__ = ["StepParts", "decompose_steps", "draw_sequences"]

SPREAD = 0.5
"""Standard deviation of the logarithm of drawn times; every tenth is 0, and the first is unknown."""


@dataclass(frozen=True, eq=False)
class StepParts:
    """The step of each neuron such that its powers have a formula: that of `functional.transition`.

    M^s = v + f (M - a), where f is (slow^s - fast^s) / 2 / root and v is slow^s. If the neuron rings, slow is the
    modulus of its eigenvalues; f is slow^s sin(s angle) / root, and v is slow^s cos(s angle).

    Attributes:
        rings: Whether the eigenvalues are complex.
        root: Half the distance of the eigenvalues.
        slow: The larger eigenvalue, or the modulus.
        fast: The smaller eigenvalue; 1 if the neuron rings.
        angle: Angle of the eigenvalues; 0 if the neuron does not ring.
        less: M less a on the diagonal for y and z, and M beside it: yy, yz, zy, zz.
        gamma: Stiffness.
    """

    rings: NDArray[np.bool_]
    root: NDArray[np.float64]
    slow: NDArray[np.float64]
    fast: NDArray[np.float64]
    angle: NDArray[np.float64]
    less: tuple[NDArray[np.float64], ...]
    gamma: NDArray[np.float64]


def decompose_steps(bank: Bank) -> StepParts:
    """Decompose the step of each neuron."""
    dt, gamma, _ = bank.constants
    keep, _, pull, _ = coefficients(*bank.constants)
    half = (1 + keep - dt * pull) / 2
    square = half**2 - keep
    rings, root = square < 0, np.sqrt(np.maximum(np.abs(square), 1e-12))
    at = np.where(rings, half, half + root)
    return StepParts(
        rings,
        root,
        np.where(rings, np.sqrt(np.abs(keep)), half + root),
        np.where(rings, 1, half - root),
        np.where(rings, np.arctan2(root, half), 0),
        (1 - dt * pull - at, dt * keep, -pull, keep - at),
        gamma,
    )


def draw_sequences(inputs: BankInputs, count: int, steps: int, seed: int = 0) -> list[SequenceData]:
    """Draw sequences with the scale of the training data, at uneven times if the model has times.

    Args:
        inputs: Preprocessing of the bank.
        count: Number of sequences.
        steps: Number of steps.
        seed: Random seed.

    Returns:
        The sequences, exact in float32.
    """
    random = np.random.default_rng(seed)
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
