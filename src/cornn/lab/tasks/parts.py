"""Helpers of several tasks: held-out validation splits, losses and scores."""

import torch
from torch import Tensor

__all__ = ["accuracy", "binary_accuracy", "cross_entropy", "hold_out", "logistic", "most_frequent"]


def hold_out(size: int, count: int, random: torch.Generator, run: int = 1) -> tuple[Tensor, Tensor]:
    """Draw `count` of `size` sequences for validation.

    Args:
        size: Number of sequences.
        count: Number of sequences to hold out.
        random: The generator.
        run: Draw blocks of this many consecutive sequences, so that held-out sequences have few neighbours in the
            training split. The last block is cut when `count` is reached, and the rest of it is trained on.

    Returns:
        Sorted indices of the training and of the validation sequences.
    """
    if not 0 < count < size:
        raise ValueError(f"validation must be above 0 and below the number of sequences, {size:,}, got {count:,}")
    runs = torch.randperm(-(-size // run), generator=random)
    drawn = (runs.unsqueeze(1) * run + torch.arange(run)).flatten()
    drawn = drawn[drawn < size]
    return drawn[count:].sort().values, drawn[:count].sort().values


def cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(prediction, target)


def accuracy(prediction: Tensor, target: Tensor) -> Tensor:
    """Return 100 where the most likely class is correct, else 0, (batch): the mean is the accuracy in percent."""
    return 100.0 * (prediction.argmax(-1) == target)


def logistic(prediction: Tensor, target: Tensor) -> Tensor:
    """Return the cross entropy of one logit per sequence, (batch, 1), with targets 0 and 1, (batch)."""
    return torch.nn.functional.binary_cross_entropy_with_logits(prediction.squeeze(-1), target)


def binary_accuracy(prediction: Tensor, target: Tensor) -> Tensor:
    """Return 100 where the sign of the logit is correct, else 0, (batch)."""
    return 100.0 * ((prediction.squeeze(-1) > 0) == (target > 0.5))


def most_frequent(labels: Tensor) -> float:
    """Return the accuracy of always answering the most frequent label, in percent."""
    return 100.0 * labels.long().bincount().max().item() / len(labels)
