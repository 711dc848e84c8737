"""Atomic writes."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

__all__ = ["TEMPORARY", "stage_write", "write_atomically", "write_errors"]

TEMPORARY = ".new-"  # prefix of files that are being written


@contextlib.contextmanager
def write_errors(path: Path, option: str = "--out") -> Iterator[None]:
    """Re-raise OSError naming the option the path came from."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path} ({error.strerror or error}): choose another with {option}") from error


@contextlib.contextmanager
def stage_write(path: Path, content: bytes | memoryview) -> Iterator[None]:
    """Write to a temporary file in the same folder, which replaces `path` on leaving the context.

    Readers never see a partial file, even after a crash. Created with the user's default permissions.
    """
    temporary = path.with_name(f"{TEMPORARY}{path.name}-{uuid.uuid4().hex[:8]}")
    try:
        with open(temporary, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        yield
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file atomically.

    The target of a symbolic link is replaced, not the link. Pipes and devices are written directly.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    with stage_write(Path(os.path.realpath(path)), content):
        pass
