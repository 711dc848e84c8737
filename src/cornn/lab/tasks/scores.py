"""Labels, losses and scores of several tasks."""

import numpy as np
import torch
from torch import Tensor


def as_tensors(images: np.ndarray, labels: np.ndarray) -> tuple[Tensor, Tensor]:
    """Return images, and labels as indices of classes."""
    return torch.from_numpy(images), torch.from_numpy(labels).long()


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
