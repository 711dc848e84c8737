"""Recurrent networks of coupled oscillators for PyTorch."""

from cornn import functional

__version__ = "0.1.0"
__all__ = ["__version__", "functional"]
