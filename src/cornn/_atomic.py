"""Atomic writes, and folders that one process reserves."""

import contextlib
import os
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

__all__ = [
    "TEMPORARY",
    "check_destination",
    "release_folder",
    "reserve_folder",
    "reserve_new_folder",
    "stage_write",
    "write_atomically",
    "write_errors",
    "write_file",
    "write_text",
    "write_together",
]

TEMPORARY = ".new-"  # prefix of files that are being written


@contextlib.contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Re-raise OSError with the path and a remedy."""
    try:
        yield
    except OSError as error:
        raise OSError(f"cannot write {path} ({error.strerror or error}): choose another path") from error


def check_destination(path: Path, *others: Path) -> None:
    """Raise OSError if a file cannot be written to `path`. For use before work whose result would be lost.

    Args:
        path: The file to write.
        *others: Files of the same command, its inputs for instance, that must not be overwritten: a ValueError.
    """
    if path.resolve() in [other.resolve() for other in others]:
        raise ValueError(f"{path} is named twice, and writing it would overwrite it: choose another path")
    if path.exists() and not path.is_file():  # a pipe or a device
        return
    folder = next(parent for parent in path.absolute().parents if parent.exists())
    with write_errors(path), tempfile.TemporaryFile(dir=folder):
        pass


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


def write_file(path: Path, content: bytes) -> None:
    """Write a file atomically, in a new folder if there is none; an error ends with a remedy."""
    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, content)


def write_text(path: Path, text: str) -> None:
    """Write a text file as `write_file` does."""
    write_file(path, text.encode())


def write_together(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write files that belong together: all of them are on the disk before the first replaces an older one."""
    folder.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        for name, content in files.items():
            stack.enter_context(stage_write(Path(os.path.realpath(folder / name)), content))


def reserve_folder(out: Path) -> None:
    """Create an empty folder before any work is done, so that no other process takes its name.

    Args:
        out: The folder, which must not exist yet.

    Raises:
        FileExistsError: If it exists.
        OSError: If it cannot be written.
    """
    try:
        out.mkdir(parents=True)
    except FileExistsError:
        raise FileExistsError(f"{out} already exists: choose another folder, or remove it") from None
    except OSError as error:
        raise OSError(f"cannot write the folder {out} ({error.strerror}): choose another folder") from error


def reserve_new_folder(root: Path, name: str) -> Path:
    """Create the first of the folders name-0001, name-0002, … that does not exist yet."""
    number = 1
    while True:
        with contextlib.suppress(FileExistsError):
            reserve_folder(out := root / f"{name}-{number:04d}")
            return out
        number += 1


def release_folder(out: Path) -> None:
    """Remove a reserved folder in which nothing was written."""
    with contextlib.suppress(OSError):
        out.rmdir()
