"""Every fenced block of the README and of the docs is run: page by page, in order, each page in a folder of its own.

Commands that take long are shortened, those that need a GPU or downloaded data are only planned (`--dry-run`), or run
on a few made-up sequences in the layout of the data. The tables below list how commands are changed; an entry that no
command uses is an error.
"""

import importlib
import re
import shlex
import tomllib
from pathlib import Path

import pytest
import tiny

ROOT = Path(__file__).parents[1]
PAGES = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
PROGRAMS = ("cornn", "pip", "make", "python", "mkdocs", "torchrun")

SHORT = "--steps 2 --hidden-size 8 --batch-size 4 --quiet --device cpu"
EPOCH = "--epochs 1 --quiet --device cpu"
ADDED = {
    "cornn train adding --length 100": "--steps 4 --quiet --device cpu",
    "cornn train adding --config": "--steps 2 --quiet --device cpu",
    "cornn train adding": SHORT,
    "cornn train psmnist": "--dry-run",
    "cornn train har2": EPOCH,
    "cornn train smnist": "--dry-run",
    "cornn fit": "--device cpu",
    "cornn search har2 --trials": f"--trials 1 {EPOCH}",
    "cornn search har2 --model": f"--trials 1 {EPOCH}",
    "cornn search": "--dry-run",
    "cornn reproduce": "--dry-run",
    "cornn compare": "--dry-run",
    "cornn check --dt": "--hidden-size 8 --length 50",
    "cornn check --task": "--length 50",
    "cornn bench --against": "--quick",
    "cornn bench": "--cases tiny --repeats 1",
    "cornn export runs/small --to c": "--sequences 4",
}
"""Prefix of a command -> options to append, which override its own; the first prefix that matches counts."""

SKIPPED = {
    "cornn data get": "it downloads",
    "cornn bench --device cuda": "it needs a GPU",
    "cornn report": "it draws for a while; tests/report/test_page.py runs it",
    "pip install": "its extras are looked up",
    "make": "its targets are looked up",
    "python": "its files and options are looked up",
}
"""Prefix of a command -> why it is not run."""

BEFORE = {"docs/theory.md": ["cornn train adding --length 50"]}
"""Page -> commands that have to run before its own."""

NEEDS = {
    "docs/export.md": ("onnx", "onnxruntime", "huggingface_hub"),
    "docs/search.md": ("optuna",),
    "docs/speed.md": ("matplotlib",),
}
"""Page -> packages of extras without which it cannot be run."""

SLOW = (
    *("attributions", "bank", "better", "choosing", "export", "forecasting", "reproduction", "rivals"),
    *("search", "speed", "theory", "training", "your-data"),
)
"""Pages of commands and functions that have tests of their own, and take long."""


def blocks(page: str) -> list[tuple[str, str]]:
    """(language, content) of a page's fenced blocks; commands have the language "commands"."""
    found = []
    for language, content in BLOCK.findall((ROOT / page).read_text(encoding="utf8")):
        if language in ("", "bash", "sh", "console") and content.split(maxsplit=1)[0] in PROGRAMS:
            language = "commands"
        found.append((language, content))
    return found


def commands(content: str) -> list[str]:
    """Return the commands without comments; a backslash at the end of a line continues it."""
    lines = content.replace("\\\n", " ").splitlines()
    return [" ".join(shlex.split(line, comments=True)) for line in lines if line.strip()]


def all_commands() -> list[str]:
    texts = [content for page in PAGES for language, content in blocks(page) if language == "commands"]
    return [command for found in (*map(commands, texts), *BEFORE.values()) for command in found]


def entry(table: dict[str, str], command: str) -> str | None:
    return next((start for start in table if command.startswith(start)), None)


def run_command(command: str, cornn) -> None:
    if entry(SKIPPED, command):
        return
    # torchrun starts a program on every machine; here it is the program itself.
    words = command.partition("-m ")[2] if command.startswith("torchrun ") else command
    added = entry(ADDED, words)
    code, _, err = cornn(*shlex.split(words)[1:], *shlex.split(ADDED[added] if added else ""))
    assert code == 0, f"{command}: {err}"


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Made-up data in the layout of their publishers, the records, and sizes that no option makes smaller."""
    from cornn.engine import updates
    from cornn.lab import bench

    monkeypatch.setattr(updates, "UPDATES", dict(updates.UPDATES))  # what a page registers is forgotten
    (tmp_path / "results").symlink_to(ROOT / "results")
    monkeypatch.setenv("CORNN_DATA", str(tmp_path / "made-up"))
    tiny.write_mnist(tmp_path / "made-up", monkeypatch, packed=False, sizes=(3_020, 10))
    tiny.write_har(tmp_path / "made-up")
    monkeypatch.setattr("cornn.lab.bench.measure.SETTLING_SECONDS", 0)
    monkeypatch.setattr("cornn.lab.bench.measure.TURN_SECONDS", 0)
    for cases in (bench.CASES, bench.LOOPS):
        monkeypatch.setitem(cases, "tiny", bench.Case(steps=5, batch=2, hidden=4, inputs=3))
    monkeypatch.setitem(bench.SWEEPS, "length", bench.Sweep("steps", "steps", (2, 4, 8, 16), bench.Case(0, 1, 4)))
    monkeypatch.setattr(importlib.import_module("cornn.lab.report.figures.lags"), "LENGTH", 40)


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (Path(page).stem in SLOW)) for page in PAGES if blocks(page)]
)
def test_the_page_runs(page, cornn, small):
    for package in NEEDS.get(page, ()):
        pytest.importorskip(package)
    for command in BEFORE.get(page, ()):
        run_command(command, cornn)
    names: dict = {}
    for language, content in blocks(page):
        if language == "python":
            exec(compile(content, page, "exec"), names)
        elif language == "commands":
            for command in commands(content):
                run_command(command, cornn)


def test_every_entry_of_the_tables_is_used():
    run = [command.partition("-m ")[2] if command.startswith("torchrun ") else command for command in all_commands()]
    assert {entry(SKIPPED, command) for command in run} - {None} == set(SKIPPED)
    assert {entry(ADDED, command) for command in run if not entry(SKIPPED, command)} - {None} == set(ADDED)
    assert {*BEFORE, *NEEDS, *(f"docs/{name}.md" for name in SLOW)} <= {*PAGES}


def test_what_is_not_run_exists():
    """Targets of the Makefile, extras of the package, scripts and their options."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf8")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    everywhere = "\n".join((ROOT / page).read_text(encoding="utf8") for page in PAGES)
    for extras in re.findall(r"(?:cornn|\.)\[([a-z,]+)\]", everywhere):
        assert set(extras.split(",")) <= set(project["optional-dependencies"]), extras
    for command in all_commands():
        program, *words = command.split()
        if program == "make":
            assert re.search(rf"^{words[0]}:", makefile, re.MULTILINE), command
        if program == "python":
            script = (ROOT / words[0]).read_text(encoding="utf8")
            assert all(f'"{word}"' in script for word in words if word.startswith("--")), command


def test_commands_within_sentences_have_the_options_they_name(cornn):
    """They are often cut short (`cornn train TASK`), so they are looked up in the help and not run."""
    from cornn.lab.tasks import TASKS

    spans = set()
    for page in PAGES:
        text = re.sub(r"^ *```.*?^ *```", "", (ROOT / page).read_text(encoding="utf8"), flags=re.MULTILINE | re.DOTALL)
        spans |= {" ".join(span.split()) for span in re.findall(r"`(cornn [^`]+)`", text)}
    helps: dict[tuple[str, ...], str] = {}
    for span in sorted(spans):
        _, name, *words = span.split()
        asked = (name,)
        if name in ("train", "search"):
            asked = (name, words[0] if words and words[0] in TASKS else "har2")
        if asked not in helps:
            code, helps[asked], err = cornn(*asked, "--help")
            assert code == 0, f"{span}: {err}"
        assert all(re.search(rf"{word}\b", helps[asked]) for word in words if word.startswith("--")), span
