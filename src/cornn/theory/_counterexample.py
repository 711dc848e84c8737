"""The type of a counterexample, and the input that most of them share."""

from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Counterexample", "zero_input"]


@dataclass(frozen=True)
class Counterexample:
    """A claimed value next to the measured one.

    Attributes:
        setting: The network and its input, in words.
        claimed: The claimed bound.
        measured: The measured value.
        reach: How far it goes: which sizes, times and constants it needs.
        is_lower_bound: Whether the claim is a lower bound; otherwise it is an upper bound.
    """

    setting: str
    claimed: float
    measured: float
    reach: str
    is_lower_bound: bool = False

    @property
    def is_valid(self) -> bool:
        """Whether the measured value contradicts the claim."""
        return self.measured < self.claimed if self.is_lower_bound else self.measured > self.claimed


def zero_input(steps: int, features: int = 1) -> Tensor:
    return torch.zeros(steps, 1, features, dtype=torch.float64)
