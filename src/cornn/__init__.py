"""Recurrent networks of coupled oscillators for PyTorch.

`CoRNN` is a drop-in replacement for `nn.LSTM`, `CoRNNCell` computes one step of it, and `SequenceModel` adds a linear
head. `functional` contains the reference equations. The subpackages `theory` (checks and bounds for a layer) and
`estimators` (scikit-learn estimators) are imported when they are first used.

Example:
    >>> import torch
    >>> from cornn import CoRNN
    >>> layer = CoRNN(input_size=3, hidden_size=128)
    >>> output, (y, z) = layer(torch.randn(100, 8, 3))  # (time, batch, features)
    >>> output.shape
    torch.Size([100, 8, 128])
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from cornn import functional
from cornn.layers import CoRNN, CoRNNCell
from cornn.models import SequenceModel

if TYPE_CHECKING:
    from cornn import estimators, theory

__version__ = "0.1.0"
__all__ = ["CoRNN", "CoRNNCell", "SequenceModel", "__version__", "estimators", "functional", "theory"]

_ON_ACCESS = ("estimators", "theory")


def __getattr__(name: str) -> ModuleType:
    if name in _ON_ACCESS:
        return importlib.import_module(f"cornn.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_ON_ACCESS})
