"""Compile and run C code on this machine, with all warnings and optionally under the sanitizers."""

import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

__all__ = ["SANITIZED", "STRICT", "compile_and_run", "compile_program", "find_compiler", "run_program"]

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")
SANITIZED = ("-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
FAST = ("-O2",)


def find_compiler() -> str | None:
    """Return gcc or a compatible compiler; None if there is none."""
    return next(filter(None, map(shutil.which, ("gcc", "clang", "cc"))), None)


def compile_and_run(folder: Path, text: str, sequences: list[NDArray], outputs: int, *, sanitized: bool) -> NDArray:
    """Compile a program with model.c of a folder, and return its outputs for the sequences."""
    program = folder / ("sanitized" if sanitized else "fast")
    program.with_suffix(".c").write_text(text, encoding="ascii")
    compile_program(folder, program, sanitized=sanitized)
    return run_program(program, sequences, outputs)


def compile_program(folder: Path, program: Path, *, sanitized: bool) -> None:
    """Compile model.c of a folder with the C file of the program."""
    command = [str(find_compiler()), *STRICT, *(SANITIZED if sanitized else FAST)]
    command += [f"-I{folder}", str(folder / "model.c"), str(program.with_suffix(".c")), "-o", str(program)]
    finished = subprocess.run(command, capture_output=True, text=True)
    if finished.returncode:
        raise RuntimeError(f"{folder / 'model.c'} does not compile cleanly: {finished.stderr.strip()}")


def run_program(program: Path, sequences: list[NDArray], outputs: int) -> NDArray[np.float32]:
    """Return the outputs of a program, one sequence after another, (rows, outputs).

    Each sequence is (time, inputs) float32, or words (time,) uint32.
    """
    samples = b"".join(np.int32(len(sequence)).tobytes() + sequence.tobytes() for sequence in sequences)
    # A preloaded library would precede the sanitizer's.
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    finished = subprocess.run([str(program)], input=samples, capture_output=True, env=environment)
    if finished.returncode:
        message = finished.stderr.decode(errors="replace").strip()
        raise RuntimeError(f"the exported model failed on this machine (exit code {finished.returncode}): {message}")
    return np.frombuffer(finished.stdout, np.float32).reshape(-1, outputs)
