"""Recurrent networks of coupled oscillators for PyTorch."""

from cornn import functional
from cornn.layers import CoRNN, CoRNNCell

__version__ = "0.1.0"
__all__ = ["CoRNN", "CoRNNCell", "__version__", "functional"]
