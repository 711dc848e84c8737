"""The README's Python examples are run, and its commands exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf8"), re.DOTALL)


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs(example):
    exec(compile(example, "README.md", "exec"), {})


def test_commands_are_targets_of_the_makefile():
    makefile = (README.parent / "Makefile").read_text(encoding="utf8")
    for target in re.findall(r"^make (\w+)", README.read_text(encoding="utf8"), re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


def test_tables_are_those_of_the_records():
    """README and docs are generated from results/: `python benchmarks/tables.py` writes them anew."""
    tables = README.parent / "benchmarks" / "tables.py"
    done = subprocess.run([sys.executable, str(tables), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
