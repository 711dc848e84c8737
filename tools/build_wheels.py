"""Build the source distribution and a wheel for every supported platform into dist/.

All wheels are built on one machine: the PyPI package `ziglang` is a C compiler for all of them.

    pip install build ziglang
    python tools/build_wheels.py                            # everything
    python tools/build_wheels.py manylinux_2_28_aarch64     # this wheel only, and the source distribution
"""

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
TARGETS = {
    "manylinux_2_28_x86_64": "x86_64-linux-gnu.2.28",
    "manylinux_2_28_aarch64": "aarch64-linux-gnu.2.28",
    "macosx_11_0_arm64": "aarch64-macos.11.0",
    "win_amd64": "x86_64-windows-gnu",
}
"""Platform tag of the wheel -> target of the compiler."""

MAGIC = {
    "manylinux_2_28_x86_64": (b"\x7fELF", 18, b"\x3e\x00"),
    "manylinux_2_28_aarch64": (b"\x7fELF", 18, b"\xb7\x00"),
    "macosx_11_0_arm64": (b"\xcf\xfa\xed\xfe", 4, b"\x0c\x00\x00\x01"),
    "win_amd64": (b"MZ", 0, b"MZ"),
}
"""Platform tag -> first bytes of its library, then where its processor is named, and how."""


def build(kind: str, source: Path, dist: Path, **variables: str) -> Path:
    """Run `python -m build` in `source` and return the file it added to `dist`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "build", f"--{kind}", "--outdir", folder, str(source)]
        subprocess.run(command, check=True, env=os.environ | variables, stdout=subprocess.DEVNULL)
        (built,) = Path(folder).iterdir()
        return Path(shutil.move(built, dist / built.name))


def check(wheel: Path, tag: str) -> None:
    """Raise unless the wheel has the library, one, for its platform."""
    start, place, processor = MAGIC[tag]
    with zipfile.ZipFile(wheel) as files:
        libraries = [name for name in files.namelist() if name.endswith((".so", ".dll"))]
        if len(libraries) != 1 or not wheel.name.endswith(f"-py3-none-{tag}.whl"):
            raise SystemExit(f"{wheel.name} should have one library for {tag}, it has {libraries}")
        content = files.read(libraries[0])
    if not content.startswith(start) or content[place : place + len(processor)] != processor:
        raise SystemExit(f"{libraries[0]} in {wheel.name} is not for {tag}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("platforms", nargs="*", metavar="PLATFORM", help=f"some of {', '.join(TARGETS)} (default: all)")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="where to write (default: dist/)")
    options = parser.parse_args()
    if unknown := set(options.platforms) - set(TARGETS):
        parser.error(f"unknown platform {', '.join(sorted(unknown))}: choose from {', '.join(TARGETS)}")
    options.dist.mkdir(parents=True, exist_ok=True)
    source = build("sdist", ROOT, options.dist)
    print(source)
    for tag in options.platforms or TARGETS:
        compiler = [sys.executable, "-m", "ziglang", "cc", "-target", TARGETS[tag]]
        # From the unpacked source distribution: it has all that is needed, and no leftovers of another platform.
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(source) as packed:
                packed.extractall(folder, filter="data")
            (unpacked,) = Path(folder).iterdir()
            wheel = build("wheel", unpacked, options.dist, CORNN_PLATFORM=tag, CC=shlex.join(compiler), CFLAGS="-g0")
        check(wheel, tag)
        print(wheel)


if __name__ == "__main__":
    main()
