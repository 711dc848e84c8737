"""The spectrum of a cell's constants, which durations need: computed once for constants that do not change."""

from typing import NamedTuple

import torch
from torch import Tensor

from cornn import functional
from cornn._constants import Oscillators
from cornn._torch_private import is_eager
from cornn.engine.contract import wants_gradient

__all__ = ["KnownSpectrum", "compute_spectrum", "is_cacheable"]


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


class KnownSpectrum(NamedTuple):
    """The spectrum of constants, and what identifies them.

    It holds the tensors, so that no other tensor gets their address.
    """

    constants: Oscillators
    state: list[tuple[int, int]]  # address and version of each
    spectrum: Tensor

    @classmethod
    def compute(cls, constants: Oscillators, damping: str) -> "KnownSpectrum":
        """Compute the spectrum of constants for which `is_cacheable` holds."""
        with torch.inference_mode(False), torch.no_grad():
            return cls(constants, _identify(constants), compute_spectrum(constants, damping))

    def is_of(self, constants: Oscillators) -> bool:
        """Return whether this is the spectrum of these tensors with their present values."""
        same = all(a is b for a, b in zip(self.constants, constants, strict=True))
        return same and self.state == _identify(constants)


def _identify(constants: Oscillators) -> list[tuple[int, int]]:
    return [(value.data_ptr(), value._version) for value in constants]
