"""Files that appear whole or not at all."""

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

__all__ = ["TEMPORARY", "stage_write", "write_atomically", "write_errors"]

TEMPORARY = ".new-"  # what the names of files begin with that are being written


@contextlib.contextmanager
def write_errors(path: Path, option: str = "--out") -> Iterator[None]:
    """What goes wrong with a file that the user chose by this option is said so."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path} ({error.strerror}): choose another with {option}") from error


@contextlib.contextmanager
def stage_write(path: Path, content: bytes | memoryview) -> Iterator[None]:
    """Write beside the file, to the disk; it takes the file's place on leaving. A reader, or a crash, never sees half.

    It may be read by whom the user's other files may be read by.
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
    """The file appears whole or not at all.

    A link stays one: what it points to is written. What is no file, as a pipe or a device, is written into.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    with stage_write(Path(os.path.realpath(path)), content):
        pass
