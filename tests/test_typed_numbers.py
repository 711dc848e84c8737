"""Numbers in the most important sentences outside the generated tables."""

from collections.abc import Sequence
from statistics import fmean, stdev

from scripts import ROOT, import_script

from cornn._json import read_json
from cornn.lab import intervals
from cornn.lab.recipes import PUBLISHED
from cornn.lab.report import comparison, tables

RESULTS = ROOT / "results"


def find(task: str, units: int, case: str = "", model: str = "cornn") -> list[float]:
    """Return the tests of the only runs of a model with this case, or with a case that begins like it."""
    groups = [g for g in tables.group_runs(RESULTS, task) if g.records and (g.model, g.units) == (model, units)]
    exact = [g for g in groups if g.case == case]
    (group,) = exact or [g for g in groups if case and g.case.startswith(case)]
    return group.tests


def compare(ours: Sequence[float], mean: float, deviation: float, count: int) -> tuple[str, str]:
    """Return a difference of means and its 95 % interval as text."""
    gap = intervals.difference(ours, mean, deviation, count)
    assert gap is not None
    return f"{fmean(ours) - mean:.1f}", f"{gap.low:.1f} to {gap.high:.1f}"


def compare_runs(ours: Sequence[float], other: Sequence[float]) -> tuple[str, str]:
    return compare(ours, fmean(other), stdev(other), len(other))


def final(contest: str, model: str) -> list[float]:
    contests = {one.name: one for one in comparison.read(RESULTS)}
    return contests[contest].find_row(model).tests


def list_phrases() -> list[tuple[str, str]]:
    """Return pages and what the records make them say."""
    means = import_script("benchmarks/default_tables.py").means("default", "gru")
    (bits, gru_bits), (error, gru_error) = means["char"], means["lorenz"]
    rows = read_json(RESULTS / "microcontroller.json")["rows"]
    ours, fastgrnn = (
        next(row["instructions"] for row in rows if (row["model"], row["units"], row["code"], row["weights"]) == key)
        for key in (("coRNN", 20, "cornn", "float32"), ("FastGRNN", 20, "ours", "float32"))
    )
    people = compare_runs(find("har2", 64, "rotate 7.498", "gru"), find("har2", 64, "rotate 10.67"))
    windows, plain = find("har2", 64, "validation random, test windows"), find("har2", 64)
    published = next(row for row in PUBLISHED["har2"] if row.mean is not None)
    assert published.mean is not None
    assert published.deviation is not None
    shift = compare(windows, published.mean, published.deviation, intervals.PAPER_RUNS)
    search = compare_runs(find("har2", 64, "dt 0.03772"), plain)
    uniform = find("noisy-cifar10", 128, "noise fresh-uniform")
    imdb = sorted(find("imdb", 128))
    diverse = final("psmnist-long", "cornn"), final("psmnist-long", "fastgrnn")
    seeds = [f"{test:.0f}" for test in sorted(final("psmnist", "cornn"))]
    return [
        ("README.md", f"about {bits - gru_bits:.1f} bits less per character"),
        ("README.md", {4: "a quarter"}[round(error / gru_error)] + " of the error on Lorenz-96"),
        ("README.md", {0.1: "a tenth"}[round(1 - fastgrnn / ours, 1)] + " fewer instructions"),
        ("README.md", f"by {people[0]} points"),
        ("docs/better.md", f"{people[0]} points more than coRNN ({people[1]})"),
        ("docs/reproduction.md", f"{shift[0]} points above the paper's ({shift[1]})"),
        ("docs/reproduction.md", f"{search[0]} points above that of the paper's values ({search[1]})"),
        ("docs/reproduction.md", f"two runs end at {min(uniform):.1f} and {max(uniform):.1f} %"),
        ("docs/reproduction.md", f"Nine of ten seeds end between {imdb[1]:.1f} and {imdb[-1]:.1f}"),
        ("docs/reproduction.md", f"ends at {imdb[0]:.1f}"),
        ("docs/rivals.md", f"coRNN's at {seeds[0]}, {seeds[1]} and {seeds[2]} %"),
        *(("docs/rivals.md", "({:.2f}, {:.2f} and {:.2f} %)".format(*tests)) for tests in diverse),
    ]


def test_sentences_have_the_numbers_of_the_records():
    phrases = list_phrases()
    pages = {page: " ".join((ROOT / page).read_text(encoding="utf8").split()) for page, _ in phrases}
    assert [phrase for page, phrase in phrases if phrase not in pages[page]] == []
