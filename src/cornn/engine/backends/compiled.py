"""CPU kernels of registered updates, compiled at first use by the C compiler of this machine and kept on disk.

What is compiled is the code of an update (`engine/updates/code.py`), never something that was read from a file. The
name of a cache file contains the checksum of its content: a file that was truncated or changed is compiled again.
"""

import contextlib
import ctypes
import functools
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from cornn.engine._kernel_cache import folder, write_kernel
from cornn.engine.updates.code import c_source
from cornn.engine.updates.update import Update

__all__ = ["FLAGS", "INSTRUCTION_FLAGS", "SOURCES", "CompileError", "library"]

SOURCES = Path(__file__).parents[1] / "csrc"
SUFFIX = ".dll" if sys.platform == "win32" else ".so"
# As setup.py compiles the library of the package.
FLAGS = ("-std=gnu11", "-O3", "-ffp-contract=fast", "-fvisibility=hidden")
INSTRUCTION_FLAGS = {"generic": (), "avx2": ("-mavx2", "-mfma"), "avx512": ("-mavx512f",)}
POSIX = () if sys.platform == "win32" else ("-fPIC", "-lm")


class CompileError(Exception):
    """The reason why an update has no compiled kernel."""


@functools.cache
def _compiler() -> tuple[tuple[str, ...], str]:
    """Return the command of the C compiler, and its version."""
    if setting := os.environ.get("CC"):
        command = tuple(shlex.split(setting, posix=os.name != "nt"))
    else:
        names = ("clang",) if sys.platform == "win32" else ("cc", "gcc", "clang")
        command = tuple(filter(None, map(shutil.which, names)))[:1]
        if not command:
            raise CompileError(f"there is no C compiler: install {' or '.join(names[-2:])}, or name one in CC")
    try:
        answer = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise CompileError(f"the C compiler {shlex.join(command)} does not run: {error}") from error
    return command, answer.stdout


def _compile(update: Update, options: tuple[str, ...], source: str) -> bytes:
    command, _ = _compiler()
    with tempfile.TemporaryDirectory() as place:
        file, target = Path(place) / "update.h", Path(place) / f"library{SUFFIX}"
        file.write_text(source, encoding="utf8")
        arguments = (f"-I{SOURCES}", f'-DUPDATE_FILE="{file.as_posix()}"', str(SOURCES / "registered.c"))
        run = subprocess.run(
            [*command, *arguments, "-shared", "-o", str(target), *options], capture_output=True, text=True, check=False
        )
        if run.returncode:
            lines = (run.stderr.strip() or "no message").splitlines()
            reason = next((line.strip() for line in lines if "error:" in line), lines[-1])
            raise CompileError(f"the C compiler cannot compile the update {update.name!r}: {reason}")
        return target.read_bytes()


def _find(place: Path, key: str) -> Path | None:
    """Return the file of this key whose content matches the checksum in its name."""
    for path in sorted(place.glob(f"{key}-*{SUFFIX}")):
        try:
            content = path.read_bytes()
        except OSError:
            continue
        if path.name == _name(key, content):
            return path
        with contextlib.suppress(OSError):  # the folder may be read-only
            path.unlink()
    return None


def _name(key: str, content: bytes) -> str:
    return f"{key}-{hashlib.sha256(content).hexdigest()}{SUFFIX}"


def library(update: Update, isa: str, double: bool) -> ctypes.CDLL:
    """Load the library with the kernel of an update, compiled if this is its first use on this machine.

    Raises:
        CompileError: If it cannot be compiled. This is not tried again.
    """
    outcome = _load_once(update, isa, double)
    if isinstance(outcome, CompileError):
        raise outcome
    return outcome


@functools.cache
def _load_once(update: Update, isa: str, double: bool) -> ctypes.CDLL | CompileError:
    try:
        return _load(update, isa, double)
    except CompileError as error:
        return error
    except OSError as error:  # for instance no folder from which a library may be loaded
        return CompileError(f"the kernel of the update {update.name!r} cannot be loaded: {error}")


def _load(update: Update, isa: str, double: bool) -> ctypes.CDLL:
    assert update.code is not None
    source = c_source(update.name, update.code, update.names, update.products)
    options = (*FLAGS, *INSTRUCTION_FLAGS[isa], *(("-DDOUBLE",) if double else ()), *POSIX)
    command, version = _compiler()
    parts = [*command, version, *options, source]
    parts += [path.read_text(encoding="utf8") for path in sorted(SOURCES.glob("*.h"))]
    parts.append((SOURCES / "registered.c").read_text(encoding="utf8"))
    key = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    place = folder()
    path = _find(place, key)
    if path is not None:
        return ctypes.CDLL(str(path))
    content = _compile(update, options, source)
    write_kernel(place / _name(key, content), content)
    if (path := _find(place, key)) is not None:
        return ctypes.CDLL(str(path))
    # The folder cannot be written: the library is loaded from one that is deleted afterwards.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        path = Path(temporary) / f"library{SUFFIX}"
        path.write_bytes(content)
        return ctypes.CDLL(str(path))
