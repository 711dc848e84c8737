"""The type of a recipe."""

from dataclasses import dataclass
from typing import Literal

from cornn.lab.config import Train

__all__ = ["Origin", "Recipe"]

Origin = Literal["paper", "ours", "memory", "ringing", "better"]
"""paper: the paper's values. ours: for tasks the paper gives no settings for, or none that work. memory and ringing:
our constants on the paper's tasks. better: the best accuracy for the same size."""


@dataclass(frozen=True)
class Recipe:
    """A complete configuration, and where its values come from."""

    train: Train
    source: str
    origin: Origin
