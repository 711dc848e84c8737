"""The folder on disk with the compiled kernels."""

import contextlib
import time
from pathlib import Path

from cornn._atomic import TEMPORARY, write_atomically
from cornn._cache import cache_folder

__all__ = ["LEFTOVER_AGE", "folder", "write_kernel"]

LEFTOVER_AGE = 3600.0
"""Seconds after which a temporary file counts as a leftover."""


def folder() -> Path:
    """Return the folder of the compiled kernels: CORNN_CACHE if it is set, else in the user's cache directory."""
    return cache_folder("kernels")


def write_kernel(path: Path, content: bytes) -> None:
    """Write atomically: other processes never see a partial file. A read-only folder is not an error."""
    with contextlib.suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for left in path.parent.glob(f"{TEMPORARY}*"):  # of a process that was killed while it wrote
            if time.time() - left.stat().st_mtime > LEFTOVER_AGE:
                left.unlink()
        write_atomically(path, content)
