"""The data folder, and errors about missing and damaged files."""

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path


def find_folder(data: Path | None = None) -> Path:
    """Return the data folder: the given one, else CORNN_DATA, else ./data."""
    return Path(data or os.environ.get("CORNN_DATA") or "data")


def missing_set(title: str, name: str, where: Path, detail: str = "") -> FileNotFoundError:
    """Return the error for a missing data set."""
    detail = f" ({detail})" if detail else ""
    prefix = "" if where == Path() else f"{where}/"
    return FileNotFoundError(
        f'no {title} in {prefix or "the current folder"}{detail}: run "cornn data get {name}", or set CORNN_DATA'
    )


def damaged_set(path: Path | str, reason: object, name: str) -> ValueError:
    """Return the error for a damaged file of a data set."""
    return ValueError(f'{path} is damaged ({reason}): remove it and run "cornn data get {name}"')


def check_md5(content: bytes, file: str, sums: Mapping[str, str], where: Path | str, name: str) -> bytes:
    """Return the content of a file after checking its md5 sum."""
    checksum = hashlib.md5(content, usedforsecurity=False).hexdigest()
    if checksum != sums[file]:
        raise damaged_set(where, f"the md5 sum of {file} is {checksum}, its publisher's is {sums[file]}", name)
    return content
