"""Files that appear whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

__all__ = ["said", "write_whole"]


@contextlib.contextmanager
def said(path: Path, option: str = "--out") -> Iterator[None]:
    """What goes wrong with a file that the user chose by this option is said so."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path} ({error.strerror}): choose another with {option}") from error


def write_whole(path: Path, content: bytes) -> None:
    """The file appears whole or not at all, and may be read by whom the user's other files may be read by.

    A link stays one: what it points to is written. What is no file, as a pipe or a device, is written into.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    path = Path(os.path.realpath(path))
    temporary = path.with_name(f".new-{os.getpid()}-{path.name}")
    try:
        temporary.write_bytes(content)
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
