"""benchmarks/reliability.py, which attacks saved files and trainings."""

import importlib
import random
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def program(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # the program sets it, if it is not set
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("reliability")


def test_a_power_cut_keeps_what_was_synced_and_loses_other_bytes(program, tmp_path):
    folder, log = tmp_path / "run", tmp_path / "synced"
    folder.mkdir()
    contents = {"whole": b"a" * 50, "half": b"b" * 50, "never": b"c" * 50}
    for name, content in contents.items():
        (folder / name).write_bytes(content)
    sizes = {"whole": 50, "half": 25}
    log.write_text("".join(f"{(folder / name).stat().st_ino} {size}\n" for name, size in sizes.items()))
    assert program.cut_power(folder, log, random.Random(0)) == 2
    assert (folder / "whole").read_bytes() == contents["whole"]
    assert (folder / "half").read_bytes()[:25] == b"b" * 25
    assert (folder / "half").read_bytes() != contents["half"]
    assert (folder / "never").read_bytes() != contents["never"]


def test_how_a_command_may_end(program):
    assert program.End(0, "", "", 1.0).wrong is None
    assert program.End(2, "", "cornn: x is damaged", 1.0).wrong is None
    assert program.End(1, "", "Traceback (most recent call last):\n", 1.0).wrong == "traceback"
    assert program.End(None, "", "", 60.0).wrong == "hang"
    assert program.End(-11, "", "", 1.0).wrong == "crash"


def test_the_attack_notices_a_reader_without_checksums(program, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "FILES", {"finished": ["result.json"]})
    monkeypatch.setattr(program, "write_folders", lambda root: _write(root))
    monkeypatch.setattr(program, "use", lambda folder: (folder / "result.json").read_bytes())
    monkeypatch.setattr(program, "use_or_sentence", lambda folder: ((folder / "result.json").read_bytes(), None))
    attack = program.Attack(tmp_path, 0.0, seed=0)
    program.attack_bits(attack)
    assert (attack.counts["tries"], attack.counts["silent"]) == (1, 1)


def _write(root):
    (root / "finished").mkdir()
    (root / "finished/result.json").write_text('{"test": 0.25}')
