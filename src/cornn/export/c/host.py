"""The C code on this machine: compiled with all warnings, run under the sanitizers, and its answers."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["SANITIZED", "STRICT", "answers", "build", "compiler"]

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAST = ("-O2",)


def compiler() -> str | None:
    """The host's gcc, or a compiler that takes its arguments; None: there is none."""
    return next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)


def build(folder: Path, program: Path, *, sanitized: bool) -> None:
    """model.c and check.c of a folder as a program."""
    command = [str(compiler()), *STRICT, *(SANITIZED if sanitized else FAST)]
    command += [f"-I{folder}", str(folder / "model.c"), str(program.with_suffix(".c")), "-o", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{folder / 'model.c'} does not compile cleanly: {done.stderr.strip()}")


def answers(program: Path, sequences: list[NDArray], outputs: int) -> NDArray[np.float32]:
    """What the program answers, (answers, outputs), one sequence after another.

    sequences: each (time, inputs) of float32, or words (time) of uint32.
    """
    given = b"".join(np.int32(len(sequence)).tobytes() + sequence.tobytes() for sequence in sequences)
    # A preloaded library would have to come after the sanitizer's own.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    done = subprocess.run([str(program)], input=given, capture_output=True, env=environment)
    if done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"the exported model failed on this machine (code {done.returncode}): {message}")
    return np.frombuffer(done.stdout, np.float32).reshape(-1, outputs)
