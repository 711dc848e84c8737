"""benchmarks/default_layer.py, which makes results/default-layer.json."""

import importlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def program(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("default_layer")


def test_the_record_and_its_missing_rows_are_the_plan(program):
    record = json.loads(program.RECORD.read_text(encoding="utf8"))
    jobs = program.plan()
    left = program.missing(record, jobs)
    shown = ("task", "model", "hidden_size", "seed")
    assert [{key: getattr(job, key) for key in shown} for job in left] == record["missing"]
    assert len(record["rows"]) + len(left) == len(jobs)
    assert {name: sizes.length for name, sizes in program.TASKS.items()} == {
        name: task["steps"] for name, task in record["tasks"].items()
    }
    assert program.to_text(record) == program.RECORD.read_text(encoding="utf8")


def test_a_dry_run_prints_what_is_missing(program, capsys):
    program.main(["--dry-run", "--models", "default"])
    printed = capsys.readouterr().out
    assert printed.count("- missing") == 6
    assert "task=har model=default hidden_size=160 rate=0.016 seed=5 steps=1500 - missing" in printed


def test_a_training_is_recorded_once(program, tmp_path, capsys):
    path = tmp_path / "record.json"
    command = ["--steps", "2", "--tasks", "adding200", "--models", "default", "--seeds", "3", "--device", "cpu"]
    program.main([*command, "--record", str(path)])
    (row,) = json.loads(path.read_text(encoding="utf8"))["rows"]
    assert (row["task"], row["hidden_size"], row["seed"], row["steps"]) == ("adding200", 128, 3, 2)
    assert row["value"] > 0
    assert row["solved_after"] is None
    capsys.readouterr()
    program.main([*command, "--record", str(path)])
    assert capsys.readouterr().out == ""


def test_the_running_mean_decides_when_adding_is_solved(program):
    assert program.solved_after([0.0] * 200) == 89  # 0.95^90 is the first power below 0.01
    assert program.solved_after([0.02] * 500) is None
