"""Images and signals that are shown a little different every time: for training alone, and off by default."""

import torch
from torch import Tensor
from torch.nn.functional import pad

__all__ = ["check_not_negative", "jittered", "mirrored", "shifted"]


def check_not_negative(**options: float) -> None:
    for name, value in options.items():
        if value < 0:
            raise ValueError(f"{name} must not be below 0, got {value}")


def shifted(images: Tensor, most: int, random: torch.Generator) -> Tensor:
    """Images (batch, rows, channels, columns), each moved by up to `most` pixels up or down and left or right.

    What comes in from outside is 0.
    """
    batch, rows, _, columns = images.shape
    frame = pad(images, (most, most, 0, 0, most, most))
    down, right = torch.randint(2 * most + 1, (2, batch, 1), generator=random, device=images.device)
    row = down + torch.arange(rows, device=images.device)
    column = right + torch.arange(columns, device=images.device)
    return frame.take_along_dim(row[:, :, None, None], 1).take_along_dim(column[:, None, None, :], 3)


def mirrored(images: Tensor, random: torch.Generator) -> Tensor:
    """Images (batch, rows, channels, columns), every other one, by chance, with left and right exchanged."""
    coin = torch.randint(2, (len(images), 1, 1, 1), generator=random, device=images.device, dtype=torch.bool)
    return torch.where(coin, images.flip(-1), images)


def jittered(signals: Tensor, deviation: float, random: torch.Generator) -> Tensor:
    """Signals with normal noise of this standard deviation on every value."""
    noise = torch.randn(signals.shape, generator=random, device=signals.device, dtype=signals.dtype)
    return torch.add(signals, noise, alpha=deviation)
