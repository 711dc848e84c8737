"""The version of the package. setuptools reads it from here without importing anything."""

__all__ = ["__version__"]

__version__ = "0.2.0.dev0"
