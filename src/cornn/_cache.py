"""The folder for what can be computed again: compiled kernels and generated data."""

import os
import sys
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder(part: str = "") -> Path:
    """Return the cache folder: CORNN_CACHE if it is set, else a part of the user's cache directory."""
    if setting := os.environ.get("CORNN_CACHE"):
        return Path(setting)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "cornn" / part
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cornn" / part
