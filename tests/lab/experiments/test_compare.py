"""Comparisons with equal tuning budgets: every model's experiment, the record, and what is stopped or refused."""

import importlib
import json
import os
import re
import time
from dataclasses import replace
from pathlib import Path

import pytest
import tiny
from rich.console import Console

from cornn.cli import compare as command
from cornn.lab import training
from cornn.lab.config import flat_settings
from cornn.lab.experiments import compare
from cornn.lab.experiments.compare import CONTESTS, ENTRANTS, Contest, check_record, write_record
from cornn.lab.experiments.run import read_status, run_experiments
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.storage import Storage
from cornn.lab.report import comparison, page
from cornn.lab.tasks import IMDB, Adding, NoisyCIFAR10, PermutedMNIST, SequentialMNIST

STARTS = {"memory": "ours"}
TINY = Contest("adding-20", Adding(20), "paper", STARTS, "steps", 6, 12, 8, ("cornn", "antisymmetric"), 2, 2)


def run(contest: Contest, folder: Path, data=None, **options) -> dict:
    """Entrant -> status after one worker."""
    experiments = contest.experiments(device="cpu", data=data)
    storage = Storage(f"sqlite:///{folder}/trials.db", 0.0)
    return dict(zip(experiments, run_experiments(list(experiments.values()), storage, folder, **options), strict=True))


def test_every_configuration_can_be_trained_and_depends_on_its_number_alone():
    # Their runs are long.
    one_seed = ("adding-2000-long", "adding-5000-long", "psmnist-paper", "noisy-cifar10-paper")
    # Those of the paper's tables.
    sizes = {
        "har2-paper": {
            **{"cornn": 64, "fastrnn": 80, "fastgrnn": 80, "antisymmetric": 120, "lstm": 64, "gru": 75},
            "incremental": 64,
        },
        "psmnist-paper": {"cornn": 256, "dtriv": 512, "gru": 256, "lstm": 256},
        "noisy-cifar10-paper": {
            **{"cornn": 128, "fastrnn": 128, "antisymmetric": 256, "gated-antisymmetric": 256, "lipschitz": 256},
            "lstm": 128,
        },
    }
    for contest in CONTESTS.values():
        for entrant, experiment in contest.experiments().items():
            assert ENTRANTS[entrant].start in ("usual", *contest.starts)
            values = [experiment.values(trial) for trial in range(4)]
            assert len({str(one) for one in values}) == 4
            assert values == [experiment.values(trial) for trial in range(4)]
            assert experiment.seeds == ((1,) if contest.name in one_seed else (1, 2, 3))
            for one in values:
                assert 1e-4 <= one["learning_rate"] <= 3e-2
                trial, final = experiment.trial_config(one), experiment.run_config(one, 1)
                # What the storage has, with lists for tuples, is the same training.
                assert experiment.trial_config(json.loads(json.dumps(one))) == trial
                assert getattr(trial.budget, contest.unit) == contest.trial
                assert getattr(final.budget, contest.unit) == contest.final
                assert final.budget.until == contest.until
                assert trial.model == final.model
                assert trial.model.hidden_size == (contest.hidden_size or sizes[contest.name][entrant])
                assert all(flat_settings(trial)[name] == value for name, value in contest.shared.items())


def test_published_trials_had_these_values():
    """Rows of published comparisons can be repeated: a trial's number gives the values of the record."""
    for name in ("har2", "psmnist", "adding-500"):
        record = json.loads((Path(__file__).parents[3] / f"results/compare/{name}.json").read_text())
        for entrant in ("cornn", "lstm", "antisymmetric"):
            trials = record["models"][entrant]["trials"]
            values = [json.loads(json.dumps(CONTESTS[name].experiment(entrant).values(one["trial"]))) for one in trials]
            assert values == [one["values"] for one in trials]


def test_options_of_a_layer_reach_it():
    experiment = TINY.experiment("antisymmetric", device="cpu")
    config = experiment.trial_config(experiment.values(0))
    assert set(config.model.constants) == {"epsilon", "gamma"}
    other = config.override(layer={"epsilon": 2 * config.model.constants["epsilon"]})
    assert training.validate(config).metric != training.validate(other).metric


@pytest.mark.slow
def test_a_worker_does_it_all_and_the_record_says_so(tmp_path, monkeypatch, plain_figures):
    results = tmp_path / "results"
    statuses = run(TINY, tmp_path)
    assert [status.remaining for status in statuses.values()] == [0, 0]
    assert [one["side_by_side"] for status in statuses.values() for one in status.runs] == [2] * 4
    path = write_record(TINY, statuses, results)
    assert path == results / "compare" / "adding-20.json"
    record = json.loads(path.read_text())
    assert record["task"] == {"name": "adding", "length": 20}
    (contest,) = comparison.read(results)
    assert contest.budget.endswith(", one after another")
    for workers, words in (((2,), "2 at once"), ((4, 2), "2 to 4 at once")):
        machines = [{**record["machines"][0], "workers": count} for count in workers]
        assert replace(contest, record={**record, "machines": machines}).budget.endswith(f", {words}")
    assert [row.title for row in contest.rows] == ["coRNN", "antisymmetric RNN"]
    for row in contest.rows:
        best = min(row.entry["trials"], key=lambda one: one["validation"])
        assert row.entry["chosen"] == best["trial"]
        assert len(row.tests) == 2
        assert row.entry["finals"][0]["curve"] == {"step": [12], "validation": [row.entry["finals"][0]["validation"]]}
        assert row.solved == "0 of 2"
        assert "epsilon" in row.chosen
        # Each trial and run names its own source.
        assert all({"commit", "digest", "source"} <= set(one) for one in (*row.entry["trials"], *row.entry["finals"]))
    assert row.entry["parameters"] == 8 * 7 // 2 + 8 * 2 + 8 + 9
    # The report and the tables of the docs show it.
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    table = importlib.import_module("rival_tables").compare(results)
    assert f"Not run yet: {', '.join(CONTESTS)}." in table
    for shown in (page.page(results, []), table):
        assert row.title in shown
        assert row.test_summary in shown


def test_rows_of_other_models_stay_in_the_record(tmp_path):
    first = write_record(TINY, run(replace(TINY, entrants=("cornn",)), tmp_path / "one"), tmp_path)
    before = json.loads(first.read_text())["models"]["cornn"]
    write_record(TINY, run(replace(TINY, entrants=("antisymmetric",)), tmp_path / "other"), tmp_path)
    models = json.loads(first.read_text())["models"]
    assert set(models) == {"cornn", "antisymmetric"}
    assert models["cornn"] == before
    with pytest.raises(ValueError, match=r"another comparison \(trial was 6, is 7\): choose another --results"):
        write_record(replace(TINY, trial=7), {}, tmp_path)


def test_a_new_database_does_not_replace_a_complete_row(tmp_path):
    """As after a command in a new clone, which has the records but not the database, is stopped."""
    contest = replace(TINY, entrants=("cornn",))
    path = write_record(contest, run(contest, tmp_path / "one"), tmp_path)
    before = path.read_bytes()

    def stop(status, progress):
        if status.done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(contest, tmp_path / "other", follow=stop)
    statuses = run(contest, tmp_path / "other", ends=0.0)
    assert [status.done for status in statuses.values()] == [1]
    assert write_record(contest, statuses, tmp_path) is None
    assert path.read_bytes() == before
    write_record(contest, run(contest, tmp_path / "other"), tmp_path)
    again = json.loads(path.read_text())["models"]["cornn"]
    assert [one["test"] for one in again["finals"]] == [
        one["test"] for one in json.loads(before)["models"]["cornn"]["finals"]
    ]


def test_a_storage_with_more_trials_than_the_contest_is_rejected(tmp_path):
    """Another command may have given one model more trials, and written its record elsewhere."""
    contest = replace(TINY, entrants=("cornn",), seeds=1)
    statuses = run(contest, tmp_path)
    compare.check_trials(statuses.values())
    fewer = replace(contest, trials=1).experiments(device="cpu").values()
    storage = Storage(f"sqlite:///{tmp_path}/trials.db", 0.0)
    words = "the storage has 2 trials of adding-20-cornn, the contest 1: use at least trials=2, or another folder"
    with pytest.raises(ValueError, match=words):
        compare.check_trials(read_status(list(fewer), storage))


@pytest.mark.parametrize(("changes", "sentence"), [({"trials": 1}, "trials was 2"), ({"seeds": 1}, "seeds was 2")])
def test_fewer_trials_or_runs_than_recorded_are_another_comparison(tmp_path, changes, sentence):
    contest = replace(TINY, entrants=("cornn",))
    write_record(contest, run(contest, tmp_path), tmp_path)
    with pytest.raises(ValueError, match=rf"another comparison \({sentence}, is 1\): choose another --results"):
        check_record(replace(contest, **changes), tmp_path)


SMALL = {
    "noisy-cifar10": {"task": NoisyCIFAR10(validation=8)},
    "psmnist-short": {"task": PermutedMNIST(validation=8), "shared": {"batch_size": 8}},
    "smnist": {"task": SequentialMNIST(validation=8), "shared": {"batch_size": 8}},
    "noisy-cifar10-short": {"task": NoisyCIFAR10(validation=8), "shared": {"batch_size": 8}},
    "imdb": {"task": IMDB(longest=6, validation=8), "shared": {"batch_size": 8}},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SMALL)
def test_a_contest_on_public_data_is_run_by_all_who_take_part(tmp_path, monkeypatch, name):
    tiny.write_mnist(tmp_path / "data", monkeypatch)
    tiny.write_cifar10(tmp_path / "data", monkeypatch)
    tiny.write_imdb(tmp_path / "data")
    tiny.write_glove(tmp_path / "data")
    contest = replace(CONTESTS[name], trials=1, seeds=1, trial=1, final=2, hidden_size=4, **SMALL[name])
    statuses = run(contest, tmp_path / "work", str(tmp_path / "data"))
    assert sum(status.remaining for status in statuses.values()) == 0
    write_record(contest, statuses, tmp_path / "results")
    (found,) = comparison.read(tmp_path / "results")
    assert {row.name for row in found.rows} == set(contest.entrants)
    assert all(len(row.tests) == 1 for row in found.rows)
    assert found.record.get("batch_size") == contest.shared.get("batch_size")
    assert (", batches of 8;" in found.budget) == (name != "noisy-cifar10")


def test_what_was_published_stands_beside_it():
    def published(contest, entrant):
        record = {"contest": contest, "task": CONTESTS[contest].comparable_settings["task"]}
        return comparison.ModelResult(entrant, {}, record).published

    assert published("psmnist", "cornn") == "97.3 (256 units)"
    assert published("psmnist-short", "unitary") == "91.4 (512 units)"
    assert published("psmnist", "lem") == "96.6 (Rusch et al. 2022)"
    # The better of the paper's figure and its authors' own.
    assert published("noisy-cifar10", "lipschitz") == "59 (Erichson et al. 2021)"
    for contest, entrant in (("psmnist", "cornn-memory"), ("psmnist", "exprnn"), ("adding-500", "lstm")):
        assert published(contest, entrant) == ""


def test_what_was_stopped_is_continued(tmp_path, monkeypatch):
    one = replace(TINY, entrants=("cornn",))
    whole = run(one, tmp_path / "whole")["cornn"]
    monkeypatch.setattr(Experiment, "run_config", _saving(Experiment.run_config))

    def stop(status, progress):
        if progress is not None and status.searched and progress.step == 7:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(one, tmp_path / "parts", follow=stop)
    assert len(list((tmp_path / "parts").rglob("checkpoint.pt"))) == 2
    steps = []
    parts = run(one, tmp_path / "parts", follow=lambda status, progress: progress and steps.append(progress.step))
    assert steps == list(range(8, 13))
    assert [row["test"] for row in parts["cornn"].runs] == [row["test"] for row in whole.runs]


def _saving(make):
    return lambda experiment, values, seed: make(experiment, values, seed).override(save_every=0.0)


def test_a_trial_that_diverges_is_the_worst(tmp_path, monkeypatch):
    make = Experiment.trial_config

    def wild(experiment, values):
        diverges = values == experiment.values(0)
        return make(experiment, values).override(**({"learning_rate": 1e30, "clip": 0.0} if diverges else {}))

    monkeypatch.setattr(Experiment, "trial_config", wild)
    one = replace(TINY, entrants=("cornn",), seeds=1)
    status = run(one, tmp_path / "one")["cornn"]
    assert status.rows[0]["validation"] is None
    assert "the loss is" in status.rows[0]["failure"]
    assert (status.best["trial"], status.remaining, len(status.runs)) == (1, 0, 1)
    write_record(one, {"cornn": status}, tmp_path)
    # With nothing but such trials there is no run.
    none = replace(one, name="adding-none", trials=1)
    status = run(none, tmp_path / "none")["cornn"]
    assert (status.best, status.remaining, status.runs) == (None, 0, ())
    write_record(none, {"cornn": status}, tmp_path)
    shown = {contest.name: contest for contest in comparison.read(tmp_path)}
    (row,) = shown["adding-20"].rows
    assert row.trials == "2 (1 diverged)"
    # A trial that never trained, which says nothing about the model, is not called diverged.
    row.entry["trials"].append({"validation": None, "steps": None, "failed": "CUDA out of memory"})
    assert row.trials == "3 (1 diverged; 1 failed: CUDA out of memory)"
    assert (shown["adding-none"].rows, shown["adding-none"].begun) == ((), ("coRNN",))


def test_runs_that_diverge_are_rows_too(tmp_path, monkeypatch, capsys):
    make = Experiment.run_config
    wild = {"learning_rate": 1e30, "clip": 0.0}
    monkeypatch.setattr(Experiment, "run_config", lambda one, values, seed: make(one, {**values, **wild}, seed))
    contest = replace(TINY, entrants=("cornn",))
    status = run(contest, tmp_path)["cornn"]
    assert [one["test"] for one in status.runs] == [None, None]
    assert all("the loss is" in one["failed"] or "not finite" in one["failed"] for one in status.runs)
    assert status.remaining == 0
    command._print_plan(Console(width=200), [contest], [status])
    assert f"cornn, seed 1: {status.runs[0]['failed']}" in capsys.readouterr().out


@pytest.mark.slow
def test_no_trial_is_begun_that_would_not_be_done(tmp_path, monkeypatch):
    one = replace(TINY, entrants=("cornn",))
    assert run(one, tmp_path, ends=time.time() - 1)["cornn"].done == 0
    real = training.validate

    def slow(*arguments):
        time.sleep(2.0)
        return real(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(training, "validate", slow)
        assert run(replace(one, trials=1), tmp_path)["cornn"].done == 1
    assert run(one, tmp_path, ends=time.time() + 1.5)["cornn"].done == 1
    assert run(one, tmp_path)["cornn"].done == 2


def test_the_command(cornn, tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "CONTESTS", {"adding-20": TINY})
    code, out, _ = cornn("compare", "--dry-run")
    assert code == 0
    assert "trials of 6 steps, final runs of at most 12, 8 neurons" in out
    assert not (tmp_path / "runs").exists()
    code, out, err = cornn("compare", "adding-20", "--device", "cpu")
    assert code == 0, err
    assert os.path.join("results", "compare", "adding-20.json") in out
    told = re.findall(r"\d+ s: (.*)", out)
    assert len(told) == len(set(told)) == 2 * 3  # of two models: two trials and the final runs
    assert sum(text.endswith(" complete") for text in told) == 2
    assert "2 of 2" in cornn("compare", "--dry-run")[1]
    for words, said in (
        (("mnist",), "unknown contest 'mnist': choose from all, adding-20"),
        (("all", "--models", "cnn"), "unknown model 'cnn': choose from cornn, cornn-memory, cornn-ringing, lstm"),
        (("adding-20", "--models", "cornn", "gru"), "gru takes no part in adding-20: choose another model"),
        (("all", "--trials", "0"), "trials must be above 0, got 0"),
        (("all", "--patience", "nan"), "patience must be finite and not below 0, got nan"),
        (("all", "--workers", "0"), "workers must be above 0, got 0"),
        (("all", "--trial", "7"), "belongs to another comparison (trial was 6, is 7): choose another --results"),
    ):
        code, _, err = cornn("compare", *words)
        assert code == 2
        assert said in err


def test_a_row_has_its_own_number_of_units_or_that_of_the_contest():
    assert comparison.ModelResult("gru", {"hidden_size": 75}, {"hidden_size": None}).hidden_size == 75
    assert comparison.ModelResult("gru", {}, {"hidden_size": 64}).hidden_size == 64
