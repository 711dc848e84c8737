"""A cache of parsed data next to its source, named by the checksum of the source.

A cache contains plain arrays only. If it is damaged or its source has changed, the source is parsed again; read-only
folders work without a cache.
"""

import contextlib
import hashlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from cornn._atomic import write_atomically

CACHE = ".cornn-cache"
FORMAT = 1
"""Version of the parsers, part of every key. Raise it when a parser returns other arrays for the same files."""

Arrays = dict[str, np.ndarray]


def read_cached(folder: Path, name: str, files: Sequence[Path], build: Callable[[], Arrays], about: str = "") -> Arrays:
    """Return what `build()` makes of `files`, from the cache under `folder` if possible.

    A new cache replaces an older one of the same name. `about` is what the arrays depend on in addition to the files.
    """
    cache_folder = folder / CACHE
    path = cache_folder / f"{name}-{_key(cache_folder, name, files, about)}.npz"
    arrays = _read(path)
    if arrays is None:
        # In the memory layout of cached arrays, so that results are the same to the last bit.
        arrays = {name: np.require(array, requirements=["C", "W", "O"]) for name, array in build().items()}
        with contextlib.suppress(OSError):
            memory = io.BytesIO()
            np.savez(memory, **arrays)  # pyright: ignore[reportArgumentType]
            _write(path, memory.getvalue())
            for old in cache_folder.glob(f"{name}-{'?' * KEY}.npz"):
                if old != path:
                    old.unlink()
    return arrays


KEY = 32  # characters of a checksum in a file's name


def _key(place: Path, name: str, files: Sequence[Path], about: str) -> str:
    """Return a checksum of the names and contents of the files.

    It is stored with their sizes and times, so that unchanged files are not read again.
    """
    stamp = hashlib.sha256(f"{FORMAT}/{about}".encode())
    for file in files:
        status = file.stat()
        stamp.update(f"\0{file.parent.name}/{file.name} {status.st_size} {status.st_mtime_ns}".encode())
    index = place / f"{name}.json"
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        entry = json.loads(index.read_text(encoding="utf8"))
        # It becomes part of a file's name, so nothing but a checksum is accepted.
        if entry["stamp"] == stamp.hexdigest() and re.fullmatch(f"[0-9a-f]{{{KEY}}}", entry["checksum"]):
            return entry["checksum"]
    checksum = hashlib.sha256(f"{FORMAT}/{about}".encode())
    for file in files:
        with open(file, "rb") as opened:
            content = hashlib.file_digest(opened, "sha256").hexdigest()
        checksum.update(f"\0{file.parent.name}/{file.name} {content}".encode())
    key = checksum.hexdigest()[:KEY]
    text = json.dumps({"stamp": stamp.hexdigest(), "checksum": key})
    with contextlib.suppress(OSError):
        _write(index, text.encode())
    return key


def _read(path: Path) -> Arrays | None:
    try:
        # The zip format checks every array's sum. A file that is opened here is closed if it is none.
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as content:
            return {name: content[name] for name in content.files}
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError):
        return None


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    write_atomically(path, content)
