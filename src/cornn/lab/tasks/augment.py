"""Augmentation of training images and signals, off by default."""

import math

import torch
from torch import Tensor
from torch.nn.functional import affine_grid, grid_sample, pad

from cornn._arguments import ArgumentError, Setting


def check_changes(side: int, shift: int, warp: float, cutout: int = 0) -> None:
    """Reject changes that are not defined, or that leave nothing of images of `side` pixels."""
    for name, value in {"shift": shift, "cutout": cutout}.items():
        if value >= side:
            problem = f" must be below the {side} pixels of a side of the images, got {value}"
            raise ArgumentError(Setting(name), problem)
    if warp >= 1:
        problem = f" must be below 1, got {warp}: it is a fraction, 0.15 warps by up to 15 %"
        raise ArgumentError(Setting("warp"), problem)


def describe_changes(shift: int = 0, warp: float = 0.0, mirror: bool = False, cutout: int = 0) -> tuple[str, ...]:
    """Describe the augmentation as a note, or return none if there is no augmentation."""
    words = [f"shifted by up to {shift} pixels"] if shift else []
    words += ["mirrored with probability 1/2"] if mirror else []
    words += [f"rotated, scaled and sheared by up to {100 * warp:g} % at the edge"] if warp else []
    words += [f"erased in a square of {cutout} pixels"] if cutout else []
    return (f"training images are {' and '.join(words)}",) if words else ()


def augment_images(
    images: Tensor,
    random: torch.Generator,
    shift: int = 0,
    warp: float = 0.0,
    mirror: bool = False,
    cutout: int = 0,
) -> Tensor:
    """Warp, shift, mirror and cut out each image of (batch, rows, channels, columns) at random, as the options ask."""
    if warp:
        images = warp_images(images, warp, random)
    if shift:
        images = shift_images(images, shift, random)
    if mirror:
        images = mirror_images(images, random)
    if cutout:
        images = cut_out(images, cutout, random)
    return images


def shift_images(images: Tensor, limit: int, random: torch.Generator) -> Tensor:
    """Shift each image of (batch, rows, channels, columns) by up to `limit` pixels in each direction, padded with 0."""
    batch, rows, _, columns = images.shape
    frame = pad(images, (limit, limit, 0, 0, limit, limit))
    down, right = torch.randint(2 * limit + 1, (2, batch, 1), generator=random, device=images.device)
    row = down + torch.arange(rows, device=images.device)
    column = right + torch.arange(columns, device=images.device)
    return frame.take_along_dim(row[:, :, None, None], 1).take_along_dim(column[:, None, None, :], 3)


def warp_images(images: Tensor, limit: float, random: torch.Generator) -> Tensor:
    """Rotate, scale and shear each image of (batch, rows, channels, columns) about its centre, as floats padded with 0.

    The entries of the linear map differ by at most `limit` from the identity's: a pixel at the edge moves by up to that
    fraction of half the image in each direction.
    """
    matrix = 2 * torch.rand(len(images), 2, 2, generator=random, device=images.device) - 1
    matrix = matrix * limit + torch.eye(2, device=images.device)
    pictures = images.transpose(1, 2).float()  # (batch, channels, rows, columns)
    grid = affine_grid(pad(matrix, (0, 1)), list(pictures.shape), align_corners=False)
    return grid_sample(pictures, grid, align_corners=False).transpose(1, 2)


def mirror_images(images: Tensor, random: torch.Generator) -> Tensor:
    """Mirror each image of (batch, rows, channels, columns) with probability 1/2."""
    coin = torch.randint(2, (len(images), 1, 1, 1), generator=random, device=images.device, dtype=torch.bool)
    return torch.where(coin, images.flip(-1), images)


def cut_out(images: Tensor, side: int, random: torch.Generator) -> Tensor:
    """Replace a random square of each image of (batch, rows, channels, columns) by the image's mean colour, as floats.

    The centre of the square is any pixel, so part of the square may lie outside the image.
    """
    batch, rows, _, columns = images.shape
    down, right = torch.rand(2, batch, 1, generator=random, device=images.device)

    def inside(share: Tensor, size: int) -> Tensor:
        first = (share * size).floor() - side // 2
        positions = torch.arange(size, device=images.device)
        return (positions >= first) & (positions < first + side)

    square = inside(down, rows)[:, :, None, None] & inside(right, columns)[:, None, None, :]
    pictures = images.float()
    return torch.where(square, pictures.mean((1, 3), keepdim=True), pictures)


def add_noise(signals: Tensor, deviation: float, random: torch.Generator) -> Tensor:
    """Add normal noise of this standard deviation to every value."""
    noise = torch.randn(signals.shape, generator=random, device=signals.device, dtype=signals.dtype)
    return torch.add(signals, noise, alpha=deviation)


def rotate_axes(signals: Tensor, degrees: float, random: torch.Generator) -> Tensor:
    """Rotate the x, y and z axes of each window of (batch, steps, sensors, 3), in its units, all sensors alike.

    For small angles, `degrees` is the standard deviation of the angle about each axis.
    """
    half = torch.randn(3, len(signals), generator=random, device=signals.device) * (math.radians(degrees) / 2)
    x, y, z = half  # of the quaternion 1 + ix + jy + kz, which is not normalised
    norm = 1 + x * x + y * y + z * z
    rows = (
        (1 + x * x - y * y - z * z, 2 * (x * y - z), 2 * (x * z + y)),
        (2 * (x * y + z), 1 - x * x + y * y - z * z, 2 * (y * z - x)),
        (2 * (x * z - y), 2 * (y * z + x), 1 - x * x - y * y + z * z),
    )
    rotation = torch.stack([torch.stack(row) for row in rows]) / norm  # (3, 3, batch)
    return torch.einsum("btsj,ijb->btsi", signals, rotation.to(signals.dtype))


def stretch_time(signals: Tensor, limit: float, random: torch.Generator) -> Tensor:
    """Speed each window of (batch, steps, features) up or down by a factor between 1 - limit and 1 + limit.

    Values between two steps are interpolated linearly. A window that is sped up continues with its mirror image.
    """
    batch, steps, _ = signals.shape
    speed = 1 + limit * (2 * torch.rand(batch, 1, generator=random, device=signals.device) - 1)
    last = steps - 1
    time = torch.arange(steps, device=signals.device) * speed
    time = last - (last - time).abs()
    first = time.floor().clamp(0, last - 1)
    share = (time - first).to(signals.dtype).unsqueeze(-1)
    index = first.long().unsqueeze(-1)
    return torch.lerp(signals.take_along_dim(index, 1), signals.take_along_dim(index + 1, 1), share)
