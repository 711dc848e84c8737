"""Checksums of saved files: JSON, safetensors and PyTorch checkpoints carry their own."""

import hashlib
import json
import struct
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cornn._atomic import write_atomically
from cornn._json import parse_json, read_bytes

__all__ = [
    "DamagedFileError",
    "UncheckedFileWarning",
    "compute_checksum",
    "pack_tensors",
    "read_sealed_json",
    "seal_json",
    "seal_zip",
    "unpack_tensors",
    "unseal_json",
    "unseal_zip",
    "warn_unchecked",
    "write_sealed_json",
]

KEY = "sha256"
TENSOR_KEY = "cornn.sha256"
ZIP_PREFIX = b"sha256="
ZIP_COMMENT = len(ZIP_PREFIX) + 64
HEADER_LIMIT = 100_000_000  # bytes, as safetensors has it


class DamagedFileError(ValueError):
    """A saved file is not as it was written."""


class UncheckedFileWarning(UserWarning):
    """A saved file has no checksum, such as files of version 0.1.0 and of other programs."""


def compute_checksum(content: bytes | memoryview) -> str:
    """Return the SHA-256 of some bytes, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def warn_unchecked(path: Path) -> None:
    """Warn in one line that a file, or the files of a folder, have no checksum."""
    warnings.warn(f"{path} has no checksum: damage would not be noticed", UncheckedFileWarning, stacklevel=3)


def seal_json(content: Mapping[str, Any]) -> bytes:
    """Return a JSON object as bytes, with the checksum of all other entries in the entry "sha256"."""
    content = json.loads(json.dumps(content, allow_nan=False))  # as it will be read back
    return (json.dumps({**content, KEY: _json_checksum(content)}, indent=2) + "\n").encode()


def unseal_json(content: bytes, path: Path, remedy: str = "") -> dict[str, Any]:
    """Verify the checksum of a JSON object and return the object without it. Warn if there is none."""
    values = parse_json(content, path)
    expected = values.pop(KEY, None)
    if expected is None:
        warn_unchecked(path)
    elif expected != _json_checksum(values):
        raise DamagedFileError(f"{path} is damaged: its content does not match its checksum{remedy and ': '}{remedy}")
    return values


def write_sealed_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write a JSON object with its checksum, atomically."""
    write_atomically(path, seal_json(content))


def read_sealed_json(path: Path) -> dict[str, Any]:
    """Read a file that `write_sealed_json` wrote."""
    return unseal_json(read_bytes(path), path)


def _json_checksum(content: Mapping[str, Any]) -> str:
    return compute_checksum(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())


def seal_zip(content: bytes | memoryview) -> bytes:
    """Return a zip file, such as `torch.save` writes, with its checksum as the comment of the archive."""
    content = bytes(content)
    if content[-2:] != b"\0\0":
        raise ValueError("the archive already has a comment")
    comment = ZIP_PREFIX + compute_checksum(content).encode()
    return content[:-2] + struct.pack("<H", len(comment)) + comment


def unseal_zip(content: bytes, path: Path, remedy: str, *, warn: bool = True) -> bytes:
    """Verify the checksum of a zip file and return the file without it. With `warn`, warn if there is none."""
    comment = content[-ZIP_COMMENT:]
    if len(content) > ZIP_COMMENT and content[-ZIP_COMMENT - 2 : -ZIP_COMMENT] == struct.pack("<H", ZIP_COMMENT):
        archive = content[: -ZIP_COMMENT - 2] + b"\0\0"
        if comment != ZIP_PREFIX + compute_checksum(archive).encode():
            raise DamagedFileError(f"{path} is damaged: its content does not match its checksum: {remedy}")
        return archive
    if content[-22:-18] != b"PK\x05\x06" or content[-2:] != b"\0\0":
        raise DamagedFileError(f"{path} is damaged or truncated: {remedy}")
    if warn:
        warn_unchecked(path)
    return content


def pack_tensors(arrays: Mapping[str, NDArray], metadata: Mapping[str, str]) -> bytes:
    """Return a safetensors file with its checksum in its metadata."""
    from safetensors.numpy import save

    contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    return save(contiguous, {**metadata, TENSOR_KEY: _tensor_checksum(contiguous, metadata)})


def unpack_tensors(
    content: bytes, path: Path, *, remedy: str, required: str | None = None, warn: bool = True
) -> tuple[dict[str, NDArray], dict[str, str]]:
    """Return the arrays and the metadata of a safetensors file, after verifying its checksum.

    Args:
        content: The content of the file.
        path: Its name, for errors.
        remedy: What to do if it is damaged.
        required: A metadata entry whose presence means that there must be a checksum.
        warn: Whether to warn if there is none.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        metadata = _read_metadata(content)
        arrays = load(content)
    except (SafetensorError, ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise DamagedFileError(f"{path} is not a valid safetensors file ({_one_line(error)}): {remedy}") from error
    expected = metadata.pop(TENSOR_KEY, None)
    if expected is None and (required is None or required not in metadata):
        if warn:
            warn_unchecked(path)
    elif expected != _tensor_checksum(arrays, metadata):
        raise DamagedFileError(f"{path} is damaged: its content does not match its checksum: {remedy}")
    return arrays, metadata


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def _read_metadata(content: bytes) -> dict[str, str]:
    (size,) = struct.unpack("<Q", content[:8]) if len(content) >= 8 else (HEADER_LIMIT + 1,)
    if size > min(HEADER_LIMIT, len(content) - 8):
        raise ValueError("its header is incomplete")
    header = json.loads(content[8 : 8 + size])
    metadata = header.get("__metadata__") or {}
    return {str(name): str(value) for name, value in metadata.items()}


def _tensor_checksum(arrays: Mapping[str, NDArray], metadata: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(dict(metadata), sort_keys=True, separators=(",", ":")).encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(json.dumps([name, str(array.dtype), list(array.shape)]).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()
