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


@pytest.fixture
def tables():
    spec = importlib.util.spec_from_file_location("archive_tables", BENCHMARKS / "archive_tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_say_who_wins_and_how_many_seeds_there_are(tables, tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.published() == tables.resampled() == tables.seconds() == "There is no record yet."
    about = {"training": 10, "test": 1000, "steps": [5, 7], "features": 1, "classes": 2, "trivial": 0.5}
    rows = [
        {"data": "One", "classifier": name, "split": split, "seed": seed, "accuracy": accuracy, "cpu_seconds": 1.25}
        for name, split, seed, accuracy in (
            ("bank", 0, 0, 0.5),
            ("bank", 0, 1, 0.7),
            ("bank", 1, 0, 0.6),
            ("bank", 2, 0, 0.8),
            ("MiniRocket", 0, 0, 0.9),
        )
    ]
    (tmp_path / "archive.json").write_text(json.dumps({"data": {"One": about}, "rows": rows}))
    assert "| One | 10, 1,000 | 5 to 7 | 1, 2 | 50.0 | 60.0 | **90.0** |" in tables.published()
    assert "| mean rank | | | | | 2.00 | 1.00 |" in tables.published()
    assert "| One | **70.0** ± 14.1 | - |" in tables.resampled()
    assert "| One | 1.25 | 1.25 |" in tables.seconds()
    assert tables.calibration() == "There is no record yet."


def test_the_verdict_is_about_differences_that_the_problems_prove(tables, tmp_path, monkeypatch):
    row = "not distinguishable from MiniRocket and MultiRocket"
    for page in ("README.md", "docs/index.md"):
        assert row in (BENCHMARKS.parent / page).read_text(encoding="utf8")
    published = tables.verdict().split(";")[0]
    assert "not distinguishable from MiniRocket" in published
    assert "not distinguishable from MultiRocket" in published

    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.verdict() == "There is no record yet."
    scores = {"bank": (0.5, 0.6), "MiniRocket": (0.7, 0.805), "MultiRocket": (0.4, 0.7)}
    rows = [
        {"data": data, "classifier": name, "seed": 0, "accuracy": accuracy}
        for name, pair in scores.items()
        for data, accuracy in zip(("One", "Two"), pair, strict=True)
    ]
    (tmp_path / "archive.json").write_text(json.dumps({"data": {"One": {}, "Two": {}}, "rows": rows}))
    found = tables.verdict()
    assert "published splits it is behind MiniRocket (-20.2 ± 3.2) and " in found
    assert " and not distinguishable from MultiRocket (+0.0 ± 127.1);" in found
    assert "resampled splits it is not compared with MiniRocket and not compared with MultiRocket" in found
