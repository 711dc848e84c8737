"""The weights of a bank of oscillators, its input, and its sums over the steps so far."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn.functional import coefficients

__all__ = ["GROUP", "LEVEL_STATS", "MOST_LEVELS", "PLAIN_STATS", "VARIABLES", "Bank", "Memory", "Sequences"]

GROUP = 16
VARIABLES = ("y", "z")
LEVEL_STATS = ("share", "time", "run")
"""Per threshold: share of the time above it, mean time above it, longest run above it, as shares of the duration."""
PLAIN_STATS = ("max", "mean", "rms", "last")
"""Per variable, if asked for."""
MOST_LEVELS = 4


@dataclass(frozen=True, eq=False)
class Bank:
    """The weights of a bank.

    Attributes:
        first: First input channel of each group's projection, shape `(groups)`.
        direction: Weights of the channels from there on, shape `(groups, width)`.
        gain: Factor on the projection, shape `(neurons)`.
        bias: Bias of the drive, shape `(neurons)`.
        constants: dt, gamma and epsilon in float64, shape `(3, neurons)`.
        levels: Thresholds of y and z, shape `(2, thresholds, neurons)`.
        plain: Whether to pool `PLAIN_STATS` too.
    """

    first: NDArray[np.int64]
    direction: NDArray[np.float32]
    gain: NDArray[np.float32]
    bias: NDArray[np.float32]
    constants: NDArray[np.float64]
    levels: NDArray[np.float32]
    plain: bool

    @property
    def neurons(self) -> int:
        """Number of neurons."""
        return len(self.gain)

    @property
    def stats(self) -> int:
        """Number of pooled numbers per neuron."""
        return len(VARIABLES) * (self.levels.shape[1] * len(LEVEL_STATS) + self.plain * len(PLAIN_STATS))

    def steps(self) -> NDArray[np.float32]:
        """Return keep, push, pull and dt of one step, shape `(4, neurons)`."""
        return np.stack(coefficients(*self.constants)).astype(np.float32)

    def select(self, groups: Any) -> "Bank":
        """Return the bank of some groups (an index or a slice)."""
        neurons = np.arange(self.neurons).reshape(-1, GROUP)[groups].ravel()
        return Bank(
            self.first[groups],
            self.direction[groups],
            self.gain[neurons],
            self.bias[neurons],
            self.constants[:, neurons],
            self.levels[:, :, neurons],
            self.plain,
        )


@dataclass(frozen=True, eq=False)
class Sequences:
    """Sequences one after the other.

    Attributes:
        input: Channels of all steps in float32, shape `(steps, channels)`.
        starts: First step of each sequence, and the number of steps, shape `(sequences + 1)`.
        spans: Duration of each step in units of the usual step, shape `(steps)`; None if all are 1.
    """

    input: NDArray[np.float32]
    starts: NDArray[np.int64]
    spans: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.starts) - 1

    def select(self, start: int, stop: int) -> "Sequences":
        """Return the sequences from `start` to `stop`."""
        rows = slice(self.starts[start], self.starts[stop])
        starts = self.starts[start : stop + 1] - self.starts[start]
        return Sequences(self.input[rows], starts, None if self.spans is None else self.spans[rows])


@dataclass(frozen=True, eq=False)
class Memory:
    """What is known of sequences so far, so that their next steps can follow: states and sums, changed in place."""

    sums: NDArray[np.float32]  # (sequences, numbers, neurons)
    elapsed: NDArray[np.float32]  # (sequences)

    @classmethod
    def empty(cls, bank: Bank, sequences: int) -> "Memory":
        """Return the memory of sequences that have not begun."""
        size = len(VARIABLES) * (1 + 4 * bank.levels.shape[1] + 3 * bank.plain)
        return cls(np.zeros((sequences, size, bank.neurons), np.float32), np.zeros(sequences, np.float32))

    def select(self, start: int, stop: int) -> "Memory":
        """Return the memory of the sequences from `start` to `stop`, without a copy."""
        return Memory(self.sums[start:stop], self.elapsed[start:stop])
