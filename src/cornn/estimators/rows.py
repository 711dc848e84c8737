"""Which sequences train a network, which validate it, and their weights."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._random import generator

__all__ = ["LARGEST_BATCH", "ValidationSampler", "read_weights", "split_rows"]

VALIDATION_SHARE = 0.1  # default
FEWEST_FOR_VALIDATION = 50  # sequences; with fewer, training misses them more than it gains
LARGEST_BATCH = 32  # sequences, default

ValidationSampler = Callable[[int, torch.Generator], Tensor]
"""Function (count, generator) -> row indices of the validation sequences."""


def split_rows(size: int, share: float | None, sampler: ValidationSampler, seed: int) -> tuple[Tensor, Tensor]:
    """Split `size` rows into training and validation rows."""
    if share is None:
        share = VALIDATION_SHARE if size >= FEWEST_FOR_VALIDATION else 0.0
    count = round(share * size)
    validation = sampler(count, generator(seed, "validation")) if count else torch.empty(0, dtype=torch.int64)
    training = torch.tensor(sorted(set(range(size)) - set(validation.tolist())), dtype=torch.int64)
    if not len(training):
        raise ValueError(f"validation_share={share:g} leaves none of {size} sequences for training: lower it")
    return training, validation


def read_weights(sample_weight: Any, count: int) -> NDArray[np.float64]:
    """Return the weight of each sequence; 1 if None."""
    if sample_weight is None:
        return np.ones(count)
    weights = np.asarray(sample_weight, np.float64)
    if weights.ndim == 0:
        weights = np.full(count, float(weights))
    if weights.shape != (count,):
        raise ValueError(
            f"sample_weight has shape {weights.shape}, expected ({count},): Sample weights must be 1D array"
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("sample_weight must be finite and not negative, and contain at least one non-zero number")
    return weights
