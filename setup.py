"""Builds the CPU kernels with the package. Everything else about the package is in pyproject.toml.

The library is plain C behind ctypes: it knows neither Python nor PyTorch, so one wheel serves all versions of both.
Where there is no compiler the package is built without it, and the portable backend serves.
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
FLAGS = ["-std=gnu11", "-O3", "-ffp-contract=fast", "-fvisibility=hidden", "-Wall", "-Wextra"]
# The kernels are compiled once for each of these; which one runs is decided when the library is loaded.
INSTRUCTION_SETS = {"generic": []}
ASKED = re.findall(r"-arch (\w+)", os.environ.get("ARCHFLAGS", ""))  # how macOS builds for another processor
if (ASKED or [platform.machine()])[0].lower() in ("x86_64", "amd64"):
    INSTRUCTION_SETS |= {"avx2": ["-mavx2", "-mfma"], "avx512": ["-mavx512f"]}
LIBRARIES = []
if sys.platform != "win32":
    FLAGS += ["-fPIC", "-pthread"]
    LIBRARIES += ["-lm"]


def compiler() -> list[str]:
    """gcc or clang; on Windows clang, since gcc there does not align the stack for wide vectors."""
    if "CC" in os.environ:
        return shlex.split(os.environ["CC"], posix=sys.platform != "win32")
    names = ["clang"] if sys.platform == "win32" else ["cc", "gcc", "clang"]
    found = next(filter(None, map(shutil.which, names)), None)
    if found is None:
        raise FileNotFoundError(f"no C compiler: none of {', '.join(names)} is on the path, and CC is not set")
    return [found]


def build(library: Path) -> None:
    command = [*compiler(), *FLAGS, *shlex.split(os.environ.get("CFLAGS", "") + " " + os.environ.get("ARCHFLAGS", ""))]
    with tempfile.TemporaryDirectory() as folder:
        tasks = [(SOURCES / name, Path(folder) / f"{name}.o", []) for name in ("library.c", "threads.c")]
        for isa, flags in INSTRUCTION_SETS.items():
            for precision, macro in (("float", []), ("double", ["-DDOUBLE"])):
                for name in ("kernels.c", "stream.c"):
                    target = Path(folder) / f"{isa}_{precision}_{name}.o"
                    tasks.append((SOURCES / name, target, [*flags, *macro, f"-DISA={isa}"]))

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
        return str(Path(*fullname.split("."))) + (".dll" if sys.platform == "win32" else ".so")

    def build_extension(self, ext: Extension) -> None:
        library = Path(self.get_ext_fullpath(ext.name))
        try:
            build(library)
        except (OSError, subprocess.CalledProcessError) as error:
            library.unlink(missing_ok=True)
            self.warn(
                'building without the CPU kernels (backend "c"), since they could not be compiled. The package works '
                "without them, slower. To have them, install gcc or clang (or name one in CC) and install the package "
                f"again. {error}"
            )


class PlatformWheel(bdist_wheel):
    """A wheel for one platform and any Python: the library uses nothing of Python's."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("cornn.engine.libcornn", sources=[], optional=True)],
    exclude_package_data={"cornn.engine.csrc": ["*"]},
    cmdclass={"build_ext": BuildLibrary, "bdist_wheel": PlatformWheel},
)
