"""Build the CPU kernels with the package. Everything else about the package is in pyproject.toml.

The library is plain C, loaded by ctypes. It uses neither Python's nor PyTorch's headers, so one wheel per platform
serves all versions of both. Without a compiler the package is built without the library, and the portable backend
runs instead.

Environment variables:
    CC, CFLAGS: the compiler and flags added to its own.
    CORNN_PLATFORM: platform tag of the wheel, such as manylinux_2_28_aarch64, to compile for another machine. CC then
        has to be a compiler for it, and a failure to compile is an error. `tools/build_wheels.py` sets both.
"""

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

SOURCES = Path("src/cornn/engine/csrc")
CROSS = os.environ.get("CORNN_PLATFORM")
ARCHFLAGS = os.environ.get("ARCHFLAGS", "")  # how macOS builds for another processor
MACHINE = (re.findall(r"-arch (\w+)", ARCHFLAGS) or [CROSS or platform.machine()])[0].lower()
WINDOWS = (CROSS or sys.platform).startswith("win")

FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=fast", "-fvisibility=hidden", "-Wall", "-Wextra"]
LIBRARIES = []
if not WINDOWS:
    FLAGS += ["-fPIC", "-pthread"]
    LIBRARIES += ["-lm"]
if (CROSS or sys.platform).startswith(("macosx", "darwin")):
    LIBRARIES += ["-Wl,-install_name,@rpath/libcornn.so"]  # otherwise the temporary folder of the build

# The kernels are compiled once for each of these; which one runs is decided when the library is loaded.
INSTRUCTION_SETS = {"generic": []}
if MACHINE.endswith(("x86_64", "amd64")):
    INSTRUCTION_SETS |= {"avx2": ["-mavx2", "-mfma"], "avx512": ["-mavx512f"]}


def find_compiler() -> list[str]:
    """Find gcc or clang; on Windows clang, since gcc there does not align the stack for wide vectors."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"], posix=os.name != "nt")
    names = ["clang"] if WINDOWS else ["cc", "gcc", "clang"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise FileNotFoundError(f"no C compiler: none of {', '.join(names)} is on the path, and CC is not set")
    return [found]


def build_library(library: Path) -> None:
    command = [*find_compiler(), *FLAGS, *shlex.split(f"{os.environ.get('CFLAGS', '')} {ARCHFLAGS}")]
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(SOURCES / name, Path(folder) / f"{name}.o", []) for name in ("library.c", "threads.c")]
        for precision, macro in (("float", []), ("double", ["-DDOUBLE"])):
            tasks.append((SOURCES / "cell.c", Path(folder) / f"{precision}_cell.o", macro))
        for isa, flags in INSTRUCTION_SETS.items():
            for precision, macro in (("float", []), ("double", ["-DDOUBLE"])):
                for name in ("kernels.c", "stream.c"):
                    target = Path(folder) / f"{isa}_{precision}_{name}.o"
                    tasks.append((SOURCES / name, target, [*flags, *macro, f"-DISA={isa}"]))
            tasks.append((SOURCES / "bank.c", Path(folder) / f"{isa}_bank.c.o", [*flags, f"-DISA={isa}"]))

        def compile_one(task: tuple[Path, Path, list[str]]) -> None:
            source, target, flags = task
            subprocess.run([*command, *flags, "-c", str(source), "-o", str(target)], check=True)

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            list(pool.map(compile_one, tasks))
        linked = Path(folder) / library.name
        subprocess.run(
            [*command, "-shared", *(str(target) for _, target, _ in tasks), "-o", str(linked), *LIBRARIES], check=True
        )
        library.parent.mkdir(parents=True, exist_ok=True)
        # A library that a process uses may be replaced, not written into.
        fresh = library.with_suffix(".new")
        shutil.copyfile(linked, fresh)
        os.replace(fresh, library)


class BuildLibrary(build_ext):
    def get_ext_filename(self, fullname: str) -> str:
        return str(Path(*fullname.split("."))) + (".dll" if WINDOWS else ".so")

    def build_extension(self, ext: Extension) -> None:
        library = Path(self.get_ext_fullpath(ext.name))
        try:
            build_library(library)
        except (OSError, subprocess.CalledProcessError) as error:
            library.unlink(missing_ok=True)
            if CROSS:
                raise SystemExit(f"the CPU kernels could not be compiled for {CROSS}: {error}") from error
            self.warn(
                'building without the CPU kernels (backend "c"), since they could not be compiled. The package works '
                "without them, slower. To have them, install gcc or clang (or name one in CC) and install the package "
                f"again. {error}"
            )


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and any Python: the library does not use Python's interface."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", CROSS or super().get_tag()[2]


setup(
    ext_modules=[Extension("cornn.engine.libcornn", sources=[], optional=True)],
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel},
)
