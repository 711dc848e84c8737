"""One seed, many independent streams of random numbers, each named for what it is drawn for."""

import hashlib

import torch

__all__ = ["generator", "stream"]


def stream(seed: int, *purpose: str | int) -> int:
    """The seed of one stream: `stream(0, "test")` has nothing to do with `stream(0, "training")`."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(stream(seed, *purpose))
