import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from cornn.baselines import MODELS
from cornn.cli import report as command
from cornn.lab import records, training
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import PUBLISHED, resolve
from cornn.lab.report import page, tables

pytestmark = pytest.mark.usefixtures("plain_figures")
SMALL = resolve("adding", length=10, hidden_size=4, device="cpu", until=0, steps=20, evaluate_every=10)
CONTEST = dict.fromkeys(("contest", "task", "unit", "trial", "final", "hidden_size", "better", "machines"), "x")
VOID = {"meta", "link", "img", "br"}


class Reader(HTMLParser):
    """What a page refers to, and whether what it opens is closed."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.sources, self.open, self.tables = set(), [], [], [], 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            assert attributes["id"] not in self.names, attributes["id"]
            self.names.add(attributes["id"])
        self.links += [attributes["href"]] if tag == "a" else []
        self.sources += [attributes["src"]] if "src" in attributes else []
        self.tables += tag == "table"
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder of three small runs, one of them with another setting, and of their records. It stays as it is."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        run = training.fit(replace(SMALL, seed=seed), folder / f"run{seed}")
        content = records.record(run)
        content["config"]["budget"] |= {"steps": 600, "until": 0.008, "evaluate_every": 0}  # as the recipe has it
        records.write(content, folder / "results")
    changed = SMALL.override(damping="implicit")
    records.write(records.record(training.fit(changed, folder / "changed")), folder / "results")
    return folder


@pytest.fixture
def report(runs):
    return page.page(runs / "results", [])


def test_what_was_reached_stands_beside_what_was_published(runs, report):
    found = tables.group_runs(runs / "results", "adding")
    usual_runs, changed = sorted(found, key=lambda one: len(one.settings))
    assert (len(usual_runs.tests), changed.failed) == (2, 0)
    assert changed.settings["damping"] == "implicit"
    assert usual_runs.summary in report
    assert usual_runs.best == min(usual_runs.tests)
    (row,) = tables.rows("adding", found)
    assert (row.model, row.units, row.published) == ("coRNN", 4, None)
    assert "not run" in report  # the tables of the other tasks


@pytest.mark.parametrize(
    ("task", "recipe", "named"),
    [
        ("adding", "ours", {}),
        ("adding", "paper", {"recipe": "paper"}),
        ("smnist", "paper-128", {}),
        ("smnist", "memory", {"recipe": "memory"}),
    ],
)
def test_a_recipe_of_another_origin_is_named(tmp_path, task, recipe, named):
    content = {"config": as_dictionary(resolve(task, recipe)), "result": {"failed": "it was not run"}, "curve": {}}
    records.write(content, tmp_path)
    (found,) = tables.group_runs(tmp_path, task)
    assert found.settings == named


def test_the_page_is_whole_and_needs_no_network(report):
    reader = Reader(report)
    assert reader.open == []
    assert reader.tables > 8
    assert all(link.startswith("#") and link[1:] in reader.names for link in reader.links)
    assert all(source.startswith("data:") for source in reader.sources)
    assert "`" not in re.sub("<style>.*?</style>", "", report, flags=re.DOTALL)
    assert "Needs <code>cornn data get mnist</code>." in report


def test_every_model_of_the_papers_tables_is_one_that_can_be_trained():
    assert {row.model for task in PUBLISHED.values() for row in task} <= {model.title for model in MODELS.values()}


def test_no_records(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no records under .*: name another folder"):
        page.page(tmp_path / "nothing", [])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("chromium") is None, reason="needs Chromium")
def test_in_a_browser(tmp_path, report):
    (tmp_path / "report.html").write_text(report, encoding="utf8")
    quiet = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-quic"]
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", *quiet]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--enable-logging=stderr", "--window-size=400,900"]
    picture = tmp_path / "page.png"
    done = subprocess.run(
        [*command, f"--screenshot={picture}", f"file://{tmp_path / 'report.html'}"], capture_output=True, text=True
    )
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr
    assert picture.stat().st_size > 10_000
    dom = subprocess.run([*command, "--dump-dom", f"file://{tmp_path / 'report.html'}"], capture_output=True, text=True)
    assert dom.stdout.count("<table") == Reader(report).tables


def test_the_command(cornn, tmp_path, runs):
    shutil.copytree(runs, tmp_path, dirs_exist_ok=True)
    code, out, _ = cornn("report", "results", "--out", "here.html")
    assert code == 0
    text = (tmp_path / "here.html").read_text(encoding="utf8")
    assert re.search(r'paper-cornn256-\w{8}</td><td class="n">10', text)  # not run yet
    assert out.strip().endswith("here.html")
    assert (tmp_path / "here.html").read_text(encoding="utf8").startswith("<!doctype html>")
    code, _, _ = cornn("report", "run0", "changed", "-o", "runs.html")
    assert code == 0
    assert "implicit" in (tmp_path / "runs.html").read_text(encoding="utf8")
    (tmp_path / "run0" / "result.json").unlink()
    code, _, err = cornn("report", "run0")
    assert code == 2
    assert "run0 has not finished: continue with `cornn resume run0`" in err
    code, _, err = cornn("report", "results", "nowhere")
    assert code == 2
    assert "nowhere does not exist: pass a folder of records or a run folder" in err
    assert "runs.html is a file: pass a folder of records or a run folder" in cornn("report", "runs.html")[2]
    assert cornn("report", "results", "--out", "new/here.html")[0] == 0


def test_a_page_that_cannot_be_written_is_noticed_before_the_records_are_read(cornn, tmp_path, runs, monkeypatch):
    monkeypatch.setattr(command, "page", None)
    (tmp_path / "file").touch()
    code, _, err = cornn("report", runs / "results", "--out", "file/here.html")
    assert (code, err) == (2, "cornn: cannot write file/here.html (Not a directory): choose another path\n")


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("adding/x.json", {"config": {}, "result": {"test": 1.0}}, "adding/x.json: the result has no 'better'"),
        ("compare/x.json", {"contest": "x"}, "compare/x.json has no 'task'"),
        ("compare/x.json", CONTEST | {"models": {"lstm": {"trials": []}}}, "x.json: lstm has no 'finals'"),
        (
            "compare/x.json",
            CONTEST | {"models": {"lstm": {"trials": [{}], "finals": [], "chosen": 0}}},
            "x.json: lstm, trials has no 'trial'",
        ),
    ],
)
def test_a_record_that_lacks_an_entry_is_named(tmp_path, file, content, sentence):
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).write_text(json.dumps(content), encoding="utf8")
    with pytest.raises(ValueError, match=f"{sentence}: restore the record, or remove it to run it again"):
        page.page(tmp_path, [])


def test_differences_are_told_where_there_are_the_runs_they_rest_on(report):
    assert "Differences." not in report
