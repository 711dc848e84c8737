"""Recurrent networks of coupled oscillators for PyTorch.

`CoRNN` is a drop-in replacement for `nn.LSTM`, `CoRNNCell` computes one step of it, and `SequenceModel` adds a linear
head. `HORN` is another oscillator network, and `CustomRNN` a layer with an update of your own. `functional` contains
the reference equations, `theory` checks and bounds for a layer, `estimators` scikit-learn estimators. Each is imported
when it is first used.

Example:
    >>> import torch
    >>> from cornn import CoRNN
    >>> layer = CoRNN(input_size=3, hidden_size=128)
    >>> output, (y, z) = layer(torch.randn(100, 8, 3))  # (time, batch, features)
    >>> output.shape
    torch.Size([100, 8, 128])
"""

import importlib
from typing import TYPE_CHECKING, Any

from cornn._version import __version__

if TYPE_CHECKING:
    from cornn import estimators, functional, theory
    from cornn.baselines import HORN, CustomRNN
    from cornn.layers import CoRNN, CoRNNCell
    from cornn.models import SequenceModel

__all__ = [
    "HORN",
    "CoRNN",
    "CoRNNCell",
    "CustomRNN",
    "SequenceModel",
    "__version__",
    "estimators",
    "functional",
    "theory",
]

# Imported on first access, so that `cornn --help` does not wait for torch.
_CLASSES = {
    "HORN": "baselines",
    "CoRNN": "layers",
    "CoRNNCell": "layers",
    "CustomRNN": "baselines",
    "SequenceModel": "models",
}
_MODULES = ("estimators", "functional", "theory")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"cornn.{name}")
    if name in _CLASSES:
        value = getattr(importlib.import_module(f"cornn.{_CLASSES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
