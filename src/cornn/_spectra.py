"""The spectrum of a cell's constants, which durations need: computed once for constants that do not change."""

import torch
from torch import Tensor

from cornn import functional
from cornn._constants import Oscillators
from cornn._torch_private import is_eager
from cornn.engine.contract import wants_gradient

__all__ = ["compute_spectrum", "is_cacheable"]


def compute_spectrum(constants: Oscillators, damping: str) -> Tensor:
    """Return `functional.spectrum` of the constants in their type, (10, hidden)."""
    return torch.stack(functional.spectrum(*constants, damping=damping)).to(constants.dt.dtype)


def is_cacheable(constants: Oscillators) -> bool:
    """Return whether the spectrum of these tensors may be kept: PyTorch counts their changes, and records nothing."""
    return not (
        wants_gradient(constants)
        or not is_eager(constants)
        or any(value.is_inference() for value in constants)
        or (constants.dt.is_cuda and torch.cuda.is_current_stream_capturing())  # a graph must not depend on a cache
    )
