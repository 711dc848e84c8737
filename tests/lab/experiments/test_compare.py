import importlib
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
import torch

from cornn.lab import training
from cornn.lab.experiments import compare
from cornn.lab.experiments.compare import CONTESTS, ENTRANTS, Contest, Place
from cornn.lab.experiments.compare import work as module
from cornn.lab.experiments.compare.jobs import Job, check, claimed, rows
from cornn.lab.experiments.compare.work import work
from cornn.lab.report import comparison, page
from cornn.lab.tasks import Adding, NoisyCIFAR10, PermutedMNIST

STARTS = {"memory": "ours"}
TINY = Contest("adding-20", Adding(20), "paper", STARTS, "steps", 6, 12, 8, ("cornn", "antisymmetric"), 2, 2)


def finished(folder, contest=TINY):
    return sorted(str(path.relative_to(folder / contest.name)) for path in folder.rglob("*/trial-*.json"))


def test_every_configuration_can_be_trained_and_depends_on_its_number_alone():
    for contest in CONTESTS.values():
        for entrant in contest.entrants:
            assert ENTRANTS[entrant].start in ("usual", *contest.starts)
            values = [contest.values(entrant, trial) for trial in range(4)]
            assert len({str(one) for one in values}) == 4
            assert values == [contest.values(entrant, trial) for trial in range(4)]
            for one in values:
                assert 1e-4 <= one["learning_rate"] <= 3e-2
                trial, final = (contest.configuration(entrant, one, seed) for seed in (0, 1))
                # What a record holds, with lists for tuples, is the same training.
                assert contest.configuration(entrant, json.loads(json.dumps(one))) == trial
                assert getattr(final.budget, contest.unit) == contest.final
                assert trial.model.hidden_size == contest.hidden_size
                assert contest.batch_size in (None, trial.budget.batch_size)


def test_options_of_a_layer_reach_it():
    config = TINY.configuration("antisymmetric", TINY.values("antisymmetric", 0))
    assert set(config.model.constants) == {"epsilon", "gamma"}
    other = config.override(layer={"epsilon": 2 * config.model.constants["epsilon"]}, device="cpu")
    assert training.validate(config.override(device="cpu")).metric != training.validate(other).metric


def test_a_worker_does_it_all_and_the_record_says_so(tmp_path, monkeypatch, plain_figures):
    place, results = Place(tmp_path / "work", "cpu"), tmp_path / "results"
    work([TINY], place)
    assert len(finished(place.folder)) == 2 * (2 + 2)
    assert not list(place.folder.rglob("config.json"))  # the run folders are gone
    ended = compare.compare([TINY], place, results)
    assert (ended.left, ended.broken) == (0, ())
    (path,) = ended.written
    assert path == results / "compare" / "adding-20.json"
    record = json.loads(path.read_text())
    assert record["task"] == {"name": "adding", "length": 20}
    (contest,) = comparison.read(results)
    assert [row.title for row in contest.rows] == ["coRNN", "antisymmetric RNN"]
    for row in contest.rows:
        best = min(row.entry["trials"], key=lambda one: one["validation"])
        assert row.entry["chosen"] == best["trial"]
        assert len(row.tests) == 2
        assert row.entry["finals"][0]["curve"] == {"step": [12], "validation": [row.entry["finals"][0]["validation"]]}
        assert row.solved == "0 of 2"
        assert "epsilon" in row.chosen
    assert row.entry["parameters"] == 8 * 7 // 2 + 8 * 2 + 8 + 9
    # The report and the tables of the docs show it.
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    table = importlib.import_module("rival_tables").compare(results)
    assert f"Not run yet: {', '.join(CONTESTS)}." in table
    for shown in (page.page(results, []), table):
        assert row.title in shown
        assert row.test_summary in shown


SMALL = {
    "noisy-cifar10": {"task": NoisyCIFAR10(validation=8)},
    "psmnist-short": {"task": PermutedMNIST(validation=8), "batch_size": 8},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_contest_on_images_is_run_by_all_who_take_part(tmp_path, monkeypatch, name):
    tiny.write_mnist(tmp_path / "data", monkeypatch)
    tiny.write_cifar10(tmp_path / "data", monkeypatch)
    place = Place(tmp_path / "work", "cpu", str(tmp_path / "data"))
    contest = replace(CONTESTS[name], trials=1, seeds=1, trial=1, final=2, hidden_size=4, **SMALL[name])
    work([contest], place)
    ended = compare.compare([contest], place, tmp_path / "results")
    assert (ended.left, ended.broken) == (0, ())
    (found,) = comparison.read(tmp_path / "results")
    assert {row.name for row in found.rows} == set(contest.entrants)
    assert all(len(row.tests) == 1 for row in found.rows)
    assert found.record.get("batch_size") == contest.batch_size
    assert (", batches of 8;" in found.budget) == (name == "psmnist-short")


def test_what_was_published_stands_beside_it():
    def published(contest, entrant):
        record = {"contest": contest, "task": CONTESTS[contest].about["task"]}
        return comparison.ModelResult(entrant, {}, record).published

    assert published("psmnist", "cornn") == "97.3 (256 units)"
    assert published("psmnist-short", "unitary") == "91.4 (512 units)"
    assert published("psmnist", "lem") == "96.6 (Rusch et al. 2022)"
    # The better of the paper's figure and its authors' own.
    assert published("noisy-cifar10", "lipschitz") == "59 (Erichson et al. 2021)"
    for contest, entrant in (("psmnist", "cornn-memory"), ("psmnist", "exprnn"), ("adding-500", "lstm")):
        assert published(contest, entrant) == ""


def test_two_workers_share_it_and_come_to_the_same(tmp_path):
    one = replace(TINY, entrants=("cornn",), seeds=1)
    alone, shared = Place(tmp_path / "alone", "cpu"), Place(tmp_path / "shared", "cpu", workers=2)
    work([one], alone)
    ended = compare.compare([one], shared, tmp_path / "results", budget_seconds=60)
    assert (ended.left, ended.broken) == (0, ())
    assert finished(shared.folder) == finished(alone.folder)
    for name in finished(alone.folder):
        here, there = (json.loads((place.folder / one.name / name).read_text()) for place in (alone, shared))
        assert here["validation"] == there["validation"]
        assert (here["workers"], there["workers"]) == (1, 2)


def test_what_was_stopped_goes_on(tmp_path, monkeypatch):
    place = Place(tmp_path, "cpu")
    asked = []

    def twice():
        asked.append(1)
        return len(asked) <= 2

    work([TINY], place, wanted=twice)
    assert finished(tmp_path) == ["cornn/trial-000.json", "cornn/trial-001.json"]
    # A job that another process has is left to it, one that is done is not done again.
    jobs = [Job(TINY, "cornn", 0), Job(TINY, "cornn", rows(TINY, tmp_path)[0].best["trial"], 1)]
    for job, own in zip(jobs, (False, True), strict=True):
        with claimed(job, tmp_path) as have:
            assert have is own
            with claimed(job, tmp_path) as again:
                assert not again

    # A final run is stopped in the middle, and goes on from its checkpoint.
    def stopped(config, here):
        def stop(progress):
            if progress.step == 7:
                raise KeyboardInterrupt

        return training.fit(config.override(checkpoint_every=0.0), here, stop)

    with monkeypatch.context() as patched:
        patched.setattr(training, "fit_or_resume", stopped)
        with pytest.raises(KeyboardInterrupt):
            work([TINY], place)
    assert len(list(tmp_path.rglob("checkpoint.pt"))) == 1
    steps = []
    fitting, resume = sys.modules["cornn.lab.training.fit"], training.resume
    monkeypatch.setattr(fitting, "resume", lambda path, _: resume(path, lambda progress: steps.append(progress.step)))
    work([TINY], place)
    assert steps == list(range(8, 13))
    assert len(finished(tmp_path)) == 8


def test_a_trial_that_diverges_is_the_worst(tmp_path, monkeypatch):
    place = Place(tmp_path / "work", "cpu")
    drawn = Contest.values

    def wild(self, entrant, trial):
        return drawn(self, entrant, trial) | ({"learning_rate": 1e30, "clip": 0.0} if trial == wild.trial else {})

    monkeypatch.setattr(Contest, "values", wild)
    one = replace(TINY, entrants=("cornn",), seeds=1)
    wild.trial = 0
    work([one], place)
    (row,) = rows(one, place.folder)
    assert row.trials[0]["validation"] is None
    assert "the loss is" in row.trials[0]["failed"]
    assert (row.best["trial"], row.left, len(row.finals)) == (1, 0, 1)
    # With nothing but such trials there is no final run.
    none = replace(one, name="adding-none", trials=1)
    work([none], place)
    (row,) = rows(none, place.folder)
    assert (row.best, row.left, row.finals) == (None, 0, ())
    compare.compare([one, none], place, tmp_path / "results", budget_seconds=0)
    shown = {contest.name: contest for contest in comparison.read(tmp_path / "results")}
    assert shown["adding-20"].rows[0].trials == "2 (1 diverged)"
    assert (shown["adding-none"].rows, shown["adding-none"].begun) == ((), ("coRNN",))


def test_what_ends_a_worker_is_named_and_left_alone(tmp_path, monkeypatch):
    place = Place(tmp_path, "cpu")

    def broken(job, place):
        raise TypeError("a mistake")

    monkeypatch.setattr(module, "_trial", broken)
    with pytest.raises(TypeError):
        work([TINY], place)
    (path,) = tmp_path.rglob("*.broken")
    assert path.read_text() == "TypeError: a mistake\n"
    monkeypatch.undo()
    work([TINY], place)
    assert len([name for name in finished(tmp_path) if name.startswith("antisymmetric")]) == 4
    assert Job(TINY, "cornn", 0).outcome(tmp_path) is None


@pytest.mark.parametrize("name", ["validate", "fit_or_resume"])
def test_a_job_without_memory_has_no_outcome(tmp_path, monkeypatch, name):
    place = Place(tmp_path, "cpu")

    def full(*arguments):
        raise torch.OutOfMemoryError("others have it")

    monkeypatch.setattr(training, name, full)
    with pytest.raises(torch.OutOfMemoryError):
        work([TINY], place)
    (path,) = tmp_path.rglob("*.broken")
    assert "others have it" in path.read_text()
    done = finished(tmp_path)
    monkeypatch.undo()
    path.unlink()
    work([TINY], place)
    assert len(finished(tmp_path)) > len(done)
    assert not any("failed" in json.loads((tmp_path / TINY.name / name).read_text()) for name in finished(tmp_path))


def test_no_trial_is_begun_that_would_not_be_done(tmp_path):
    place = Place(tmp_path, "cpu")
    work([TINY], place, ends=time.time() - 1)
    assert finished(tmp_path) == []
    path = Job(TINY, "cornn", 0).path(tmp_path)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"trial": 0, "validation": 1.0, "better": "lower", "seconds": 1e6}))
    work([replace(TINY, entrants=("cornn",))], place, ends=time.time() + 1000)
    assert finished(tmp_path) == ["cornn/trial-000.json"]


def test_a_folder_of_another_comparison_is_refused(tmp_path):
    check(TINY, tmp_path)
    check(replace(TINY, trials=20), tmp_path)
    with pytest.raises(ValueError, match=r"another comparison \(trial was 6, is 7\): choose another --folder"):
        check(replace(TINY, trial=7), tmp_path)


def test_the_command(cornn, tmp_path, monkeypatch):
    monkeypatch.setattr("cornn.lab.experiments.compare.contests.CONTESTS", {"adding-20": TINY})
    code, out, _ = cornn("compare", "--dry-run")
    assert code == 0
    assert "trials of 6 steps, final runs of at most 12, 8 neurons" in out
    work([TINY], Place(tmp_path / "runs/compare", "cpu"))
    code, out, _ = cornn("compare", "adding-20", "--device", "cpu")
    assert code == 0
    assert os.path.join("results", "compare", "adding-20.json") in out
    for words, said in (
        (("mnist",), "unknown contest 'mnist': choose from all, adding-20"),
        (("all", "--models", "cnn"), "unknown model 'cnn': choose from cornn, cornn-memory, cornn-ringing, lstm"),
        (("all", "--trials", "0"), "trials must be above 0, got 0"),
        (("all", "--workers", "0"), "workers must be above 0, got 0"),
        (("all", "--workers", "0"), "workers must be above 0, got 0"),
    ):
        code, _, err = cornn("compare", *words)
        assert code == 2
        assert said in err
