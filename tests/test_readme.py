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


def test_the_start_page_gives_the_advice_of_the_readme():
    def read_advice(page: str) -> str:
        text = (ROOT / page).read_text(encoding="utf8")
        return text.partition("## When to use it, and when not\n")[2].partition("\n## ")[0].strip()

    assert read_advice("README.md").startswith("| your problem | use |")
    assert read_advice("README.md").replace("](docs/", "](") == read_advice("docs/index.md")
