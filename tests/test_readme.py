"""The tables of the README and of the docs are those of the records."""

import importlib
import json
import math
import re
import sys
from pathlib import Path

import pytest

from cornn.lab.report import comparison
from cornn.lab.report.tables import RunGroup

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tables(monkeypatch):
    """Return a function that imports a module of benchmarks."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module


def test_the_goals_are_those_of_the_protocols(tables):
    """Each protocol names its target in words; the table compares the results with the same figures."""
    goals = tables("better_tables").GOALS
    files = [path for path in (ROOT / "results/protocols").glob("*.json") if not path.stem.endswith("-chosen")]
    named = {
        path.stem: [float(figure) for figure in re.findall(r"(?:at least|stretch:) ([\d.]+)", target)]
        for path in files
        if "at least" in (target := json.loads(path.read_text(encoding="utf8"))["target"])
    }
    assert {name: list(figures) for name, figures in goals.items()} == named


def test_a_target_within_the_interval_is_said(tables):
    is_met = tables("better_tables")._is_met
    records = tuple({"result": {"test": value, "better": "higher"}} for value in (96.0, 97.0, 98.0))
    runs = RunGroup("psmnist", "cornn", 128, {}, {}, records, failed=0)
    found = [is_met(runs, goal) for goal in (90.0, 96.5, 97.5, 99.9)]
    assert found == ["yes", "yes, within the interval", "no, within the interval", "no"]


def test_places_in_the_comparison_have_their_budget(tables, monkeypatch):
    """A rank without the length of the training would say nothing."""
    module = tables("rival_tables")

    def contest(name, better, solved, **tests):
        entries = {
            model: {"finals": [{"test": value, "steps": 10} for value in values], "trials": []}
            for model, values in tests.items()
        }
        record = {"better": better, "solved": solved, "final": 1500, "unit": "steps", "models": entries}
        rows = tuple(comparison.ModelResult(model, entry, record) for model, entry in entries.items())
        return comparison.ContestResult(name, record, rows, ())

    found = [
        contest("up", "higher", None, cornn=[50.0, 60.0], gru=[70.0, 80.0], lstm=[10.0, 20.0]),
        contest("down", "lower", 0.01, cornn=[0.001, 0.1], gru=[0.1, 0.1]),
        contest("both", "lower", 0.01, cornn=[0.001, 0.002], gru=[0.001, 0.001], lstm=[0.1, 0.1]),
        contest("neither", "lower", 0.01, cornn=[0.1, 0.1], gru=[0.2, 0.1]),
        contest("without", "higher", None, gru=[70.0]),
    ]
    monkeypatch.setattr(module.comparison, "read", lambda results: found)
    assert module.ranks().splitlines()[2:] == [  # † because these runs name no commit
        "| up | 1,500 steps | number 2 of 3 | GRU: 75.00 [11.47, 100.00]† |",
        "| down | 1,500 steps | solved by 1 of 2 seeds | coRNN (after 10 steps): 1 of 2 seeds |",
        "| both | 1,500 steps | solved by 2 of 2 seeds | coRNN (after 10 steps); GRU (after 10 steps): 2 of 2 seeds |",
        "| neither | 1,500 steps | solved by 0 of 2 seeds | none |",
    ]
    assert " leads in 1 of 4 comparisons at equal tuning, and shares the lead in 1." in module.leads()


def test_a_difference_counts_only_if_its_interval_excludes_0(tables, monkeypatch):
    module = tables("rival_tables")
    tests = {"cornn": [50.0, 50.1, 50.2], "gru": [60.0, 60.1, 60.2], "lstm": [10.0, 90.0, 60.0], "lem": [9.0, 9.0, 9.0]}
    entries = {name: {"finals": [{"test": test} for test in values], "trials": []} for name, values in tests.items()}
    record = {"better": "higher", "solved": None, "final": 9, "unit": "epochs", "models": entries}
    rows = tuple(comparison.ModelResult(model, entry, record) for model, entry in entries.items())
    monkeypatch.setattr(module.comparison, "read", lambda results: [comparison.ContestResult("one", record, rows, ())])
    assert module.gaps().splitlines()[2] == "| one | GRU; LSTM: +6.8 [-93.6, 107.2] | GRU | LEM |"
    for entry in entries.values():
        entry["finals"] = entry["finals"][:1]
    assert len(module.gaps().splitlines()) == 2  # one seed decides nothing


def test_an_error_that_is_not_shown_to_be_smaller_is_said(tables, monkeypatch):
    """A lower mean is no lead if the interval of the difference includes 0."""
    module = tables("headline_tables")

    def contest(name, ours, gru):
        record = {"better": "lower", "solved": 0.01, "final": 10, "unit": "steps"}
        entries = {
            model: {"finals": [{"test": value, "steps": 10} for value in values], "trials": []}
            for model, values in (("cornn-memory", ours), ("gru", gru))
        }
        rows = tuple(comparison.ModelResult(model, entry, record) for model, entry in entries.items())
        return comparison.ContestResult(name, record, rows, ())

    found = [
        contest("adding-500", [0.0020, 0.0021, 0.0022], [0.0060, 0.0061, 0.0062]),
        contest("adding-2000", [0.0020, 0.0021, 0.0022], [0.0010, 0.0025, 0.0040]),
    ]
    monkeypatch.setattr(module.comparison, "read", lambda results: found)
    assert module._find_shorter_lengths() == ", and at 2,000 steps [our error is no smaller](docs/rivals.md)"


def test_changes_of_forecasts_have_intervals(tables):
    change = tables("forecast_tables")._change
    assert change([math.log(0.9), math.log(0.9), math.log(0.9)]) == "-10.0 % [-10.0, -10.0]"
    assert change([math.log(0.8), math.log(0.9), math.log(1.1)]) == "-7.5 % [-38.0, +38.0]"


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
