"""The type of a recipe."""

from dataclasses import dataclass
from typing import Literal

from cornn.lab.config import Train

Origin = Literal["paper", "ours", "memory", "ringing", "better"]
"""paper: the paper's values. ours: for tasks the paper gives no settings for, or none that work. memory and ringing:
our constants on the paper's tasks. better: the best accuracy for the same size."""


@dataclass(frozen=True)
class Recipe:
    """A complete configuration, and where its values come from."""

    train: Train
    source: str
    origin: Origin
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    """Seeds of its reported runs; those of the protocol for a recipe that a protocol has chosen."""
