"""Compile kernels at their first use, with NVRTC through cuda-core, and cache them on disk.

The content of a cache file is passed to the driver as machine code for the GPU and to nothing else. A file that was
truncated, changed or renamed does not match the checksum at its beginning, and is compiled again. Its name is a hash of
the source, the macros, the device's architecture and NVRTC's version; a cubin does not depend on the driver.
"""

import functools
import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path

from cornn._extras import install_command
from cornn.engine._kernel_cache import folder, write_kernel

__all__ = ["KERNELS", "compile_kernel", "explain_missing", "first_line"]

KERNELS = Path(__file__).parents[2] / "kernels"

_DIGEST = hashlib.sha256().digest_size


@functools.cache
def explain_missing() -> str | None:
    """Return why kernels cannot be compiled here, or None if they can."""
    for module in ("cuda.core", "cuda.bindings"):
        try:
            spec = importlib.util.find_spec(module)
        except ImportError:
            spec = None
        if spec is None:
            return f"{module.replace('.', '-')} is not installed: {install_command('cuda')}"
    return None


def _key(name: str, macros: Mapping[str, object], arch: str) -> str:
    from cuda.bindings import nvrtc  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    _, major, minor = nvrtc.nvrtcVersion()
    parts = [name, arch, f"NVRTC {major}.{minor}", *(f"{macro}={value}" for macro, value in sorted(macros.items()))]
    # All headers are hashed, included or not: they are few and change together.
    parts += [path.read_text(encoding="utf-8") for path in sorted(KERNELS.glob("*.cuh"))]
    parts.append((KERNELS / name).read_text(encoding="utf-8"))
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _seal(path: Path, cubin: bytes) -> bytes:
    """Return the checksum of a cubin and of its file name, which identifies the compilation."""
    return hashlib.sha256(f"{path.name}\0".encode() + cubin).digest()


def _read(path: Path) -> bytes | None:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    digest, cubin = data[:_DIGEST], data[_DIGEST:]
    return cubin if _seal(path, cubin) == digest else None


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or the name of its class."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def compile_kernel(name: str, macros: Mapping[str, object], arch: str) -> bytes:
    """Return the cubin of a file in the kernels folder for an architecture such as "sm_90". Needs no GPU."""
    from cuda.core import Program, ProgramOptions  # pyright: ignore[reportMissingImports, reportAttributeAccessIssue]

    path = folder() / f"{_key(name, macros, arch)}.cubin"
    cubin = _read(path)
    if cubin is None:
        options = ProgramOptions(
            name=name,
            arch=arch,
            std="c++17",
            include_path=str(KERNELS),
            define_macro=[(macro, str(value)) for macro, value in macros.items()],
        )
        source = (KERNELS / name).read_text(encoding="utf-8")
        try:
            cubin = bytes(Program(source, "c++", options).compile("cubin").code)
        except Exception as error:  # the classes of cuda-core's errors are private
            raise RuntimeError(
                f"NVRTC could not compile {name} for {arch} ({first_line(error)}): {install_command('cuda')}, or set "
                'backend="portable"'
            ) from error
        write_kernel(path, _seal(path, cubin) + cubin)
    return cubin
