"""The examples are run as a reader would run them, each in an empty folder."""

import re
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("sklearn")

ROOT = Path(__file__).parents[1]
EXAMPLES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "examples").rglob("*.py"))
SAYS = {
    "examples/irregular_sensors.py": r"accuracy with times: +(9\d|100)%",
    "examples/microcontroller/run.py": r"accuracy on new windows: \d",
    "examples/streaming.py": r"after 100 samples: probability of a jam 1\.00",
}
"""Example -> what it has to print."""


@pytest.mark.parametrize("example", EXAMPLES)
def test_example(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [example])
    runpy.run_path(str(ROOT / example), run_name="__main__")
    assert re.search(SAYS[example], capsys.readouterr().out)


def test_the_quickstart_names_them_all():
    text = (ROOT / "docs" / "index.md").read_text(encoding="utf8")
    assert sorted(re.findall(r"^python (examples/\S+)", text, re.MULTILINE)) == EXAMPLES
