"""What several tasks share: a validation part held out of training, and the judging of classes and of two sides."""

import torch
from torch import Tensor

__all__ = ["cross_entropy", "hold_out", "logistic", "most_frequent", "right", "right_side"]


def hold_out(size: int, count: int, random: torch.Generator, run: int = 1) -> tuple[Tensor, Tensor]:
    """Numbers of the sequences to train on, and of `count` that are drawn for validation, both in order.

    run: they are drawn in runs of so many neighbours, so that what is held out has few neighbours outside. The last run
    drawn is cut where `count` is reached, and what is cut off is trained on.
    """
    if not 0 < count < size:
        raise ValueError(f"validation must be above 0 and below the {size:,} sequences there are, got {count:,}")
    runs = torch.randperm(-(-size // run), generator=random)
    drawn = (runs.unsqueeze(1) * run + torch.arange(run)).flatten()
    drawn = drawn[drawn < size]
    return drawn[count:].sort().values, drawn[:count].sort().values


def cross_entropy(prediction: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(prediction, target)


def right(prediction: Tensor, target: Tensor) -> Tensor:
    """100 where the most likely class is the right one, else 0: its mean is the accuracy in percent."""
    return 100.0 * (prediction.argmax(-1) == target)


def logistic(prediction: Tensor, target: Tensor) -> Tensor:
    """Cross entropy of one logit a sequence, (batch, 1), and targets of 0 and 1, (batch)."""
    return torch.nn.functional.binary_cross_entropy_with_logits(prediction.squeeze(-1), target)


def right_side(prediction: Tensor, target: Tensor) -> Tensor:
    """100 where the logit is on the side of its target, else 0."""
    return 100.0 * ((prediction.squeeze(-1) > 0) == (target > 0.5))


def most_frequent(labels: Tensor) -> float:
    """The accuracy, in percent, of always answering the most frequent label."""
    return 100.0 * labels.long().bincount().max().item() / len(labels)
