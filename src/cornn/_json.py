"""Reading files, and JSON in particular."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["naming", "parse_json", "parse_json_lines", "read_bytes", "read_json"]


def read_bytes(path: Path) -> bytes:
    """Read a file; an error names it in one sentence."""
    # A link in a folder from elsewhere may lead to a device or a pipe, which has no end.
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise OSError(f"cannot read {path} (it is a device or a pipe, not a file)")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} does not exist") from None
    except OSError as error:
        raise OSError(f"cannot read {path} ({error.strerror or error})") from error


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object from a file; an error names the file in one sentence."""
    return parse_json(read_bytes(path), path)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Re-raise errors of decoding with the name of the file, in one sentence."""
    try:
        yield
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RuntimeError) as error:
        # A damaged file can raise any of these; PyTorch's messages have several lines.
        raise ValueError(f"{path} is damaged: {' '.join(str(error).split())}") from error


def parse_json(content: bytes, path: Path) -> dict[str, Any]:
    """Parse the content of a JSON file, which must be an object."""
    try:
        value = json.loads(content.decode("utf8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged: it is not a JSON object")
    return value


def parse_json_lines(content: bytes, path: Path) -> list[dict[str, Any]]:
    """Parse one JSON object per line. A last line without a newline is incomplete and left out."""
    lines = content.split(b"\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            rows.append(json.loads(line.decode("utf8")))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{path}, line {number} is damaged: {error}") from error
        if not isinstance(rows[-1], dict):
            raise ValueError(f"{path}, line {number} is not a JSON object")
    return rows
