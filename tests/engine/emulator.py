"""Compile emulated kernels, each once: libraries are kept in build/emulated by the digest of their sources."""

import ctypes
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

COMPILER = shutil.which("g++")
HERE = Path(__file__).parent
KEPT = HERE.parents[1] / "build" / "emulated"
OPTIONS = ("-std=c++17", "-w", "-fPIC", "-fno-gnu-unique")


def compile_once(target: str, sources: Mapping[str, str], command: Sequence[str]) -> Path:
    """Return the file that `command` makes of `sources`, in a folder of theirs, and keep it.

    target: its name. command: arguments of the compiler, without the output.
    """
    own = {name: (HERE / name).read_text(encoding="utf8") for name in sorted(os.listdir(HERE)) if name.endswith(".h")}
    parts = [str(COMPILER), *command, *(text for item in {**own, **sources}.items() for text in item)]
    kept = KEPT / f"{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()}-{target}"
    if not kept.exists():
        KEPT.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=KEPT) as folder:
            for name, text in sources.items():
                (Path(folder) / name).write_text(text, encoding="utf8")
            subprocess.run([str(COMPILER), *command, f"-I{HERE}", "-o", target], cwd=folder, check=True)
            os.replace(Path(folder) / target, kept)
    return kept


@functools.cache
def threads() -> Path:
    """Return the object file of emulated.cpp, which every kernel is linked with."""
    name = "emulated.cpp"
    sources = {name: (HERE / name).read_text(encoding="utf8")}
    return compile_once("emulated.o", sources, [*OPTIONS, "-O1", "-c", name])


def load(folder: Path, sources: Mapping[str, str], macros: Mapping[str, object], optimisation: str) -> ctypes.CDLL:
    """Compile the first of `sources`, and load it from `folder`: a copy, since its static variables are its own."""
    name = next(iter(sources))
    options = [*OPTIONS, optimisation, "-shared", *(f"-D{macro}={value}" for macro, value in macros.items())]
    library = folder / Path(name).with_suffix(".so")
    shutil.copyfile(compile_once(library.name, sources, [*options, name, str(threads())]), library)
    return ctypes.CDLL(str(library))
