"""Test the wheel for this platform as a user has it: in a fresh environment, without a compiler and the source.

python tools/test_wheel.py dist                    # the README's first example, `cornn doctor`, all tests
python tools/test_wheel.py dist tests/engine       # these tests only
python tools/test_wheel.py dist --no-tests
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
CPU_WHEELS = "https://download.pytorch.org/whl/cpu"
LEFT_OUT = {"src", "setup.py", "build", "dist", ".git", ".venv", "runs"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dist", type=Path, help="folder with the wheels")
    parser.add_argument("tests", nargs="*", help="what to test (default: everything)")
    parser.add_argument("--no-tests", action="store_true", help="the example and `cornn doctor` only")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        temporary = Path(folder).resolve()
        venv.create(temporary / "venv", with_pip=True)
        binaries = temporary / "venv" / ("Scripts" if os.name == "nt" else "bin")
        python = str(binaries / "python")
        # Nothing but the environment is on the path: neither a compiler nor another Python.
        variables = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "CC")}
        if os.name != "nt":
            variables["PATH"] = str(binaries)

        def run(*command: str, cwd: Path = temporary) -> None:
            print("$", *(Path(command[0]).name, *command[1:]), flush=True)
            if code := subprocess.run(command, cwd=cwd, env=variables).returncode:
                sys.exit(f"exit code {code}")

        pip = [python, "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt")]
        run(*pip, "--no-deps", "--retries", "1", "--extra-index-url", CPU_WHEELS, "torch")
        extras = "cli" if options.no_tests else "test"
        # This version: PyPI may have another one.
        (version,) = {path.name.split("-")[1] for path in options.dist.glob("cornn-*.whl")}
        wheel = f"cornn[{extras}]=={version}"
        run(*pip, "--only-binary", "cornn", "--find-links", str(options.dist.resolve()), wheel)

        readme = (ROOT / "README.md").read_text(encoding="utf8")
        run(python, "-c", re.search(r"```python\n(.*?)```", readme, re.DOTALL)[1] + "print(output.shape)")
        command = [str(binaries / "cornn"), "doctor"]
        answer = subprocess.run(
            command, cwd=temporary, env=variables, text=True, stdout=subprocess.PIPE, check=True
        ).stdout
        print(answer, flush=True)
        if not re.search(r"^ *cpu +c +chosen", answer, re.MULTILINE):
            sys.exit("`cornn doctor` should report the C backend as chosen")
        if not options.no_tests:
            shutil.copytree(ROOT, temporary / "copy", ignore=lambda _, names: LEFT_OUT & {*names})
            run(python, "-m", "pytest", "-n", "auto", "--dist", "worksteal", *options.tests, cwd=temporary / "copy")


if __name__ == "__main__":
    main()
