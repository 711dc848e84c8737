"""TF32 on NVIDIA GPUs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

__all__ = ["no_tf32"]


@contextmanager
def no_tf32() -> Iterator[None]:
    """Disable TF32 inside the context, so that a GPU multiplies in full float32."""
    flags: tuple[Any, Any] = (torch.backends.cudnn, torch.backends.cuda.matmul)
    before = [flag.allow_tf32 for flag in flags]
    for flag in flags:
        flag.allow_tf32 = False
    try:
        yield
    finally:
        for flag, value in zip(flags, before, strict=True):
            flag.allow_tf32 = value
