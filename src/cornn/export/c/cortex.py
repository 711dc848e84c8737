"""Run exported code on an emulated microcontroller and measure its size and its instructions per step.

The emulator is qemu with Arm's MPS2 boards. It counts instructions, not cycles: an instruction that waits for memory or
for the FPU counts as one. The numbers of a program without a model are subtracted.
"""

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cornn.export.c.host import STRICT

__all__ = ["FLAGS", "PROCESSORS", "TOOLS", "Measurement", "measure", "missing_tools"]

COMPILER, SIZE, EMULATOR = TOOLS = ("arm-none-eabi-gcc", "arm-none-eabi-size", "qemu-system-arm")
PACKAGES = "gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
FLAGS = ("-mthumb", "-O2", "-ffp-contract=fast")
PROCESSORS = {
    "cortex-m4": (("-mcpu=cortex-m4", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16"), "mps2-an386"),
    "cortex-m3": (("-mcpu=cortex-m3", "-mfloat-abi=soft"), "mps2-an385"),
}
"""Name -> compiler flags and board. The first has an FPU and DSP instructions."""
RUN = ("-nographic", "-monitor", "none", "-serial", "null", "-icount", "shift=0")
INSTRUCTIONS = 40  # per tick of the 25 MHz clock, at a nanosecond each
SECONDS = 120  # time limit of the emulator


@dataclass(frozen=True)
class Measurement:
    """Size, speed and outputs of a program."""

    flash: int  # bytes of code, weights and tables, including the C library
    ram: int  # bytes of static variables, without the state
    stack: int  # maximum bytes during a step
    instructions: float  # average per step
    answers: NDArray[np.float32]  # (sequences, outputs) after the last step


def missing_tools() -> list[str]:
    """Return the required programs that are not installed."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def measure(
    folder: Path,
    sequences: list[NDArray],
    outputs: int,
    processor: str = "cortex-m4",
    *,
    sources: Sequence[Path] = (),
    flags: Sequence[str] = (),
) -> Measurement:
    """Compile model.c of a folder, run it in the emulator, and subtract the numbers of an empty model.

    Args:
        folder: The folder with model.h and model.c.
        sequences: Each (time, inputs) float32, or words (time,) uint32, of at most 4096 steps.
        outputs: Number of outputs of the model.
        processor: "cortex-m4" or "cortex-m3".
        sources: Other C files that model.c needs; they are compiled with `flags` and without our warnings.
        flags: Compiler flags of these files.

    Returns:
        The measurement.
    """
    if missing_tools():
        raise RuntimeError(f"{' and '.join(missing_tools())} not found: install them (Debian: {PACKAGES})")
    csrc = files("cornn.export.c").joinpath("csrc")
    with tempfile.TemporaryDirectory() as place:
        room = Path(place)
        for name in ("firmware.c", "nothing.c", "cortex_m.ld"):
            (room / name).write_text(csrc.joinpath(name).read_text(encoding="utf8"), encoding="utf8")
        samples = b"".join(np.int32(len(sequence)).tobytes() + sequence.tobytes() for sequence in sequences)
        (room / "samples").write_bytes(samples)
        compiled = [(folder / "model.c", STRICT), *((source, flags) for source in sources)]
        steps = sum(len(sequence) for sequence in sequences)
        model = _run(room, folder, compiled, processor, outputs, steps)
        empty = _run(room, folder, [(room / "nothing.c", STRICT)], processor, outputs, steps)
    return Measurement(
        model.flash - empty.flash,
        model.ram - empty.ram,
        model.stack - empty.stack,
        model.instructions - empty.instructions,
        model.answers,
    )


def _run(
    room: Path, folder: Path, sources: Sequence[tuple[Path, Sequence[str]]], processor: str, outputs: int, steps: int
) -> Measurement:
    """Compile and run; `sources`: files with their compiler flags."""
    target, board = PROCESSORS[processor]
    call = (COMPILER, *target, *FLAGS, f"-I{folder}")
    objects = []
    for number, (source, flags) in enumerate(sources):
        objects.append(room / f"{number}.o")
        _call(*call, *flags, "-c", source, "-o", objects[-1])
    linked = ("-nostartfiles", "-Wl,--gc-sections", "-T", room / "cortex_m.ld", *objects, "-lm")
    program = room / "program.elf"
    _call(*call, room / "firmware.c", *linked, "-o", program)
    text, data, bss = (int(word) for word in _call(SIZE, program).splitlines()[1].split()[:3])
    _call(EMULATOR, "-M", board, *RUN, "-semihosting-config", "enable=on,target=native", "-kernel", program, cwd=room)
    kind = np.dtype([("ticks", "<u4"), ("stack", "<u4"), ("answers", "<f4", (outputs,))])
    result = np.fromfile(room / "answers", kind)
    instructions = INSTRUCTIONS * int(result["ticks"].sum()) / steps
    return Measurement(text + data, data + bss, int(result["stack"].max()), instructions, result["answers"])


def _call(*command: object, cwd: Path | None = None) -> str:
    words = [str(word) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed (code {done.returncode}): {done.stderr.strip()[-2000:]}")
    return done.stdout
