"""Independent random generators derived from one seed and a purpose, and the initialisation of weights."""

import hashlib
from collections.abc import Callable

import torch
from torch import Tensor

__all__ = ["derive_seed", "fill_", "generator", "normal_", "uniform_"]


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Derive a seed for a purpose: `derive_seed(0, "test")` is independent of `derive_seed(0, "training")`."""
    text = "/".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1


def generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    return torch.Generator(device=device).manual_seed(derive_seed(seed, *purpose))


@torch.no_grad()
def fill_(tensor: Tensor | None, draw: Callable[[Tensor], Tensor]) -> None:
    """Fill a tensor from `draw`; on the CPU, so that the same seed gives the same weights on any device."""
    if tensor is not None and not tensor.is_meta:
        tensor.copy_(draw(torch.empty(tensor.shape, dtype=tensor.dtype, device="cpu")))


def normal_(tensor: Tensor | None, deviation: float, generator: torch.Generator | None) -> None:
    """Fill a tensor from N(0, deviation²), as `fill_` does."""
    fill_(tensor, lambda fresh: fresh.normal_(0.0, deviation, generator=generator))


def uniform_(tensor: Tensor | None, low: float, high: float, generator: torch.Generator | None) -> None:
    """Fill a tensor from U(low, high), as `fill_` does."""
    fill_(tensor, lambda fresh: fresh.uniform_(low, high, generator=generator))
