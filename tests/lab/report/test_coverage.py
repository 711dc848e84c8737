"""The page of coverage: every table row and statement of the paper once, with evidence that exists."""

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from scripts import ROOT, import_script

import cornn
from cornn.lab.recipes import PUBLISHED
from cornn.lab.report import comparison, tables
from cornn.theory.register import REGISTER

coverage = import_script("benchmarks/paper_coverage.py")
MEANINGS = import_script("benchmarks/coverage_items.py").MEANINGS
PACKAGE = Path(cornn.__file__).parent


def exists(path):
    """Whether a file of the repository exists; one of the package also where only that is installed."""
    return (ROOT / path).exists() or (PACKAGE / path.removeprefix("src/cornn/")).exists()


@pytest.fixture(scope="module")
def found():
    return coverage.items(ROOT / "results")


def test_every_item_has_a_known_status_and_evidence_that_exists(found):
    for item in found:
        assert item.status in MEANINGS, item
        assert item.content, item
        assert item.evidence, item
        assert all(map(exists, item.evidence)), item


def test_every_row_of_the_papers_tables_is_covered(found):
    for task, rows in PUBLISHED.items():
        for row in rows:
            words = f"{row.model}-{row.units}, {row.value:g}"
            assert any(item.place == row.table and task in item.content and words in item.content for item in found), (
                row
            )


def test_every_statement_is_covered_once(found):
    for statement in REGISTER:
        same = [item for item in found if (item.place, item.content) == (statement.label, statement.claim)]
        assert [item.status for item in same] == [statement.verdict]


def test_every_label_of_a_figure_and_table_is_covered(found):
    places = " ".join(item.place for item in found)
    figures = ("adding_results", "mnist", "weight_assumptions", "ablation", "lorenz", "1")
    appendix = ("tab:distr_results", "tab:hyperparameters", "tab:hyperparameters_rounded")
    for label in (
        *(f"fig:{name}" for name in figures),
        *(f"tab:{name}" for name in ("mnist", "cifar", "har2", "imdb", "lorenz")),
        *appendix,
    ):
        assert label in places, label


def test_runs_of_adding_have_their_budget(found):
    """Whether a task is solved means nothing without the number of training steps."""
    notes = [item.note for item in found if item.place == "fig:adding_results"]
    assert len(notes) == 7
    assert all(re.search(r"in at most [\d,]+( or [\d,]+)* training steps", note) for note in notes)
    assert "outside the comparison also by GRU (3 seeds), LEM (3 seeds)" in notes[-1]


def test_the_note_on_the_random_search_has_its_numbers_of_trials(found):
    """The paper gives no number of trials, so that no search has fewer."""
    (note,) = (item.note for item in found if item.place == "tab:hyperparameters")
    assert "HAR-2 repeated with 48 trials of 50 epochs; adding at length 500 with 24 trials of 1,500 steps" in note


def test_a_grid_has_one_length_of_training():
    grids = tables.ablation_grids(tables.group_runs(ROOT / "results", "noisy-cifar10"))
    assert len(grids[8]) == 25
    assert all(len(tests) == 1 for tests in grids[8].values())


def _describe_adding(contest):
    runs = tables.longest_runs(ROOT / "results", "adding", "paper", length=500)
    return coverage._cover_adding(500, runs, contest)


@pytest.mark.parametrize(
    ("describe", "change", "lacking"),
    [
        (coverage._describe_rank, lambda row: replace(row, entry=row.entry | {"finals": []}), "test result"),
        (coverage._describe_rank, lambda row: replace(row, name="lem"), "test result"),
        (_describe_adding, lambda row: replace(row, name="lem"), "final run"),
    ],
    ids=["rank without tests", "rank", "adding"],
)
def test_a_contest_without_the_papers_cornn_is_an_error(describe, change, lacking):
    contest = next(one for one in comparison.read(ROOT / "results") if one.name == "har2")
    rows = tuple(change(row) if row.name == "cornn" else row for row in contest.rows)
    with pytest.raises(ValueError, match=f"contest har2 has no {lacking} of cornn.*`cornn compare har2`"):
        describe(replace(contest, rows=rows))


def _contest(**steps):
    """Return a contest of adding; `steps` has the training steps of each model's runs, None where one fails."""
    entries = {
        model: {
            "trials": [],
            "finals": [{"test": 0.1 if end is None else 0.005, "steps": end or 60_000} for end in ends],
        }
        for model, ends in steps.items()
    }
    record = {"better": "lower", "solved": 0.01, "trial": 400, "final": 60_000, "unit": "steps", "models": entries}
    rows = tuple(comparison.ModelResult(model, entry, record) for model, entry in entries.items())
    return comparison.ContestResult("adding-5000-long", record, rows, ())


def test_the_note_on_a_rival_has_its_number_of_seeds(found):
    notes = [item.note for item in found if "results/compare/psmnist-long.json" in item.evidence]
    assert notes
    assert all(note.endswith("120 epochs, 3 seeds") for note in notes)


@pytest.mark.parametrize(
    ("ours", "exprnn", "status"),
    [
        ([300], [None], "undecided"),
        ([300, 400], [None, None], "confirmed"),
        ([300, 400], [300, None], "differs"),
    ],
)
def test_one_seed_confirms_no_claim_on_the_rivals(ours, exprnn, status):
    assert coverage._cover_adding_rivals(5000, _contest(cornn=ours, exprnn=exprnn), "").status == status


@pytest.mark.parametrize(
    ("ours", "status"),
    [([300], "undecided"), ([300, None], "undecided"), ([None, None], "differs"), ([300, 400], "confirmed")],
)
def test_one_seed_confirms_no_claim_on_the_papers_cornn(ours, status, monkeypatch):
    monkeypatch.setattr(coverage.records, "read_config", lambda run: SimpleNamespace(budget=SimpleNamespace(steps=9)))
    runs = [{"result": {"test": 0.1}}]  # with the paper's constants
    assert coverage._cover_adding(5000, runs, _contest(cornn=ours)).status == status


@pytest.mark.parametrize(
    ("ours", "status"),
    [
        ([300, 301, 302], "confirmed"),
        ([300, 900, 600], "undecided"),
        ([900, 901, 902], "differs"),
        ([300, None, 300], "undecided"),
    ],
)
def test_a_model_is_faster_only_if_the_interval_says_so(ours, status):
    assert coverage._cover_adding_speed(_contest(cornn=ours, exprnn=[600, 601, 602])).status == status


def test_means_and_deviations_have_the_least_favourable_verdict(found):
    (item,) = (item for item in found if item.place == "tab:distr_results")
    assert item.status == "differs"
    assert "the paper: 96.01 ± 0.53" in item.note


@pytest.mark.parametrize("task", ["smnist", "psmnist"])
def test_runs_of_two_recipes_are_no_grid(task):
    """The recipes for 128 and 256 neurons have other constants."""
    found = [group for group in tables.group_runs(ROOT / "results", task) if group.model == "cornn"]
    assert {128, 256} <= {group.units for group in found}
    assert not tables.ablation_grids(found)


@pytest.mark.parametrize(
    ("epochs", "corners", "best", "status"),
    [
        (8, 4, 20.0, "other budget"),
        (120, 3, 20.0, "other budget"),
        (120, 4, 20.0, "differs"),
        (120, 4, 12.0, "confirmed"),
    ],
)
def test_the_status_of_the_ablation_follows_its_grid_of_full_length(epochs, corners, best, status, monkeypatch):
    short = {(1.0, 5.0): [10.0], (1.0, 8.0): [50.0]}
    longest = {point: [5.0] for point in sorted(coverage.ABLATION_CORNERS)[:corners]} | {(1.3, 11.7): [best]}
    monkeypatch.setattr(tables, "ablation_grids", lambda groups: {4: short, epochs: longest})
    item = coverage._ablation([])
    assert item.status == status
    assert "2 points after 4 epochs: 10.0 to 50.0 %" in item.note


def test_a_variant_is_compared_with_runs_that_differ_in_one_setting_only():
    def group(settings, *results):
        records = tuple({"result": {"test": test, "better": "higher"}} for test in results)
        return tables.RunGroup("smnist", "cornn", 128, {}, settings, records, failed=0)

    plain, changed = group({}, 98.0, 98.1, 98.2), group({"clip": 1.0}, 98.1, 98.2, 98.3)
    others = [group({"clip": 1.0, "beta2": 0.9}, 90.0, 91.0), group({"beta2": 0.9}, 90.0, 91.0), group({"clip": 1.0})]
    item = coverage._variant("here", "clipping", {"smnist": [plain, *others, changed]}, "clip")
    assert item.status == "reproduced"
    assert item.note.count("smnist: ") == 1
    item = coverage._variant("here", "clipping", {"smnist": [plain, replace(changed, failed=1)]}, "clip")
    assert item.status == "undecided"
    assert "(1 failed)" not in plain.summary
    assert replace(changed, failed=1).summary.endswith("(1 failed)")


@pytest.mark.parametrize(
    ("ours", "lstm", "alike", "status"),
    [
        ((0.2, 0.21, 0.22), (0.1, 0.11, 0.12), False, "confirmed"),
        ((0.1, 0.11, 0.12), (0.2, 0.21, 0.22), False, "differs"),
        ((0.1, 0.2, 0.3), (0.1, 0.2, 0.3), False, "undecided"),
        ((0.2, 0.21, 0.22), (0.1,), False, "undecided"),
        ((0.2, 0.21, 0.22), (0.1, 0.11, 0.12), True, "differs"),
        ((0.1, 0.11, 0.12), (0.2, 0.21, 0.22), True, "differs"),
    ],
)
def test_an_lstm_is_better_only_if_its_error_is_smaller(ours, lstm, alike, status):
    def group(model, tests):
        records = tuple({"result": {"test": test, "better": "lower"}} for test in tests)
        return tables.RunGroup("lorenz96", model, 64, {}, {}, records, failed=0)

    assert (
        coverage._compare_lorenz("an LSTM is better", group("cornn", ours), group("lstm", lstm), alike).status == status
    )


def test_the_hypothesis_on_the_weights_is_judged_by_the_records():
    def item(tasks, *rows):
        curve = {"theory": [None if row is None else {"assumption": row, "assumption_limit": 1.0} for row in rows]}
        record = {"result": {"test": 90.0}, "curve": curve}
        plain = tables.RunGroup("smnist", "cornn", 64, {}, {}, ({"result": {}, "curve": {"step": [1]}},), failed=0)
        watched = {"theory": "recorded"}
        return coverage._cover_assumption(
            {task: [plain, tables.RunGroup(task, "cornn", 128, {}, watched, (record,), failed=0)] for task in tasks}
        )

    assert item(PUBLISHED).status == "not run"
    assert item(PUBLISHED, 0.5, None, 1.0).status == "confirmed"
    assert item(["har2"], 0.5, 1.0).status == "undecided"
    refuted = item(["har2", "imdb"], 0.5, 1.1)
    assert refuted.status == "false"
    assert refuted.note == "it fails for har2-128 at 1 of 2 evaluations, imdb-128 at 1 of 2 evaluations"
    assert item(["har2"], float("nan")).status == "false"
