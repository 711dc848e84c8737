"""The comparison on the time-series archive: its tables, and what it says without aeon."""

import importlib.util
import json
import runpy
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_without_aeon_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "aeon", None)
    with pytest.raises(SystemExit, match="needs the package aeon: pip install aeon"):
        runpy.run_path(str(BENCHMARKS / "archive.py"))


def test_the_tables_say_who_wins_and_how_many_seeds_there_are(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("archive_tables", BENCHMARKS / "archive_tables.py")
    tables = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tables)
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.accuracy() == tables.seconds() == "There is no record yet."
    about = {"training": 10, "test": 1000, "steps": [5, 7], "features": 1, "classes": 2, "trivial": 0.5}
    rows = [
        {"data": "One", "classifier": name, "seed": seed, "accuracy": accuracy, "cpu_seconds": 1.25}
        for name, seed, accuracy in (("a", 0, 0.5), ("a", 1, 0.6), ("a", 2, 0.7), ("b", 0, 0.9))
    ]
    (tmp_path / "archive.json").write_text(json.dumps({"data": {"One": about}, "rows": rows}))
    assert "| One | 10, 1,000 | 5 to 7 | 1, 2 | 60.0 ± 10.0 | **90.0** (1) | 50.0 |" in tables.accuracy()
    assert "| One | 1.2 | 1.2 |" in tables.seconds()
