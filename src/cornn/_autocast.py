"""Autocast, which the recurrence ignores: it would round the state at every step."""

import contextlib

import torch

__all__ = ["autocast_to_bfloat16", "no_autocast"]

_AS_IT_IS = contextlib.nullcontext()
_WITH_AUTOCAST = ("cpu", "cuda")


def no_autocast(device: str) -> contextlib.AbstractContextManager:
    """Return a context manager in which operations run in the types of their arguments."""
    # Only other devices may lack autocast; the compiler of PyTorch 2.11 cannot trace the query.
    if device not in _WITH_AUTOCAST and not torch.amp.is_autocast_available(device):
        return _AS_IT_IS
    return torch.autocast(device, enabled=False) if torch.is_autocast_enabled(device) else _AS_IT_IS


def autocast_to_bfloat16() -> bool:
    """Return whether autocast to bfloat16 is enabled on GPUs."""
    return torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.bfloat16
