"""Safe unpacking of archives."""

import contextlib
import os
import re
import shutil
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO


def unpack(archive: Path, folder: Path, pattern: str, inner_archive: str | None = None) -> int:
    """Unpack the files of a zip or tar archive whose full names match a regular expression, and return their number.

    With `inner_archive`, the archive of this name within the archive is unpacked instead. Files are unpacked to a
    temporary folder and moved once all are complete. A name that points outside the folder is an error.
    """
    folder.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".unpack-"))
    try:
        with open(archive, "rb") as file:
            try:
                if inner_archive is None:
                    files = _write(file, temporary, pattern)
                else:
                    with tempfile.TemporaryFile(dir=folder) as inner:
                        for name, content in _iterate_files(file):
                            if name == inner_archive:
                                shutil.copyfileobj(content, inner)
                        inner.seek(0)
                        files = _write(inner, temporary, pattern)
            except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError) as error:
                raise ValueError(f"{archive} is damaged ({error}): remove it and try again") from error
        if not files:
            raise ValueError(f"{archive} contains none of the expected files: remove it and try again")
        for name in files:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary / name, folder / name)
        return len(files)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _write(file: IO[bytes], target_folder: Path, pattern: str) -> list[str]:
    names_to_unpack = re.compile(pattern)
    names = []
    for name, content in _iterate_files(file):
        if names_to_unpack.fullmatch(name):
            (target_folder / name).parent.mkdir(parents=True, exist_ok=True)
            with open(target_folder / name, "wb") as target:
                shutil.copyfileobj(content, target, 1 << 20)
            names.append(name)
    return names


def _iterate_files(file: IO[bytes]) -> Iterator[tuple[str, IO[bytes]]]:
    """Iterate over the regular files of an archive, without folders, links and devices."""
    if zipfile.is_zipfile(file):
        file.seek(0)
        with zipfile.ZipFile(file) as archive:
            for entry in archive.infolist():
                if not entry.is_dir():
                    with archive.open(_check_name(entry)) as content:
                        yield entry.filename, content
        return
    file.seek(0)
    with tarfile.open(fileobj=file, mode="r|*") as archive:
        for member in archive:
            if member.isfile() and (content := archive.extractfile(_check_name(member))) is not None:
                with contextlib.closing(content):
                    yield member.name, content


def _check_name(entry):
    name = entry.filename if isinstance(entry, zipfile.ZipInfo) else entry.name
    parts = re.split(r"[/\\]", name)
    if ".." in parts or not parts[0] or ":" in parts[0]:
        raise ValueError(f"the archive contains {name!r}, which points outside its folder: it is not unpacked")
    return entry
