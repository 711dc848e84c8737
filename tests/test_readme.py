"""The tables of the README and of the docs are those of the records."""

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_tables_are_those_of_the_records(monkeypatch, capsys):
    """README and docs are generated from results/: `python benchmarks/tables.py` updates them."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.setattr(sys, "argv", ["tables.py", "--check"])
    importlib.import_module("tables").main()
    assert capsys.readouterr().out == "0 files out of date\n"
