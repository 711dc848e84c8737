"""Random search: its space, what becomes of trials that fail, and that the test part stays unread."""

import json
import math
import signal
import sqlite3
import statistics
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import optuna
import pytest
import tiny

from cornn._extras import install_command
from cornn.lab import training
from cornn.lab.config import CoRNNSpec, flat_settings
from cornn.lab.data import har
from cornn.lab.experiments import search
from cornn.lab.experiments.search import Search, work
from cornn.lab.experiments.search import spec as plans
from cornn.lab.experiments.search import study as studies
from cornn.lab.recipes import RANGES, RECIPES, resolve
from cornn.lab.training import Progress, Validated

SHORT = ["adding", "--length", "10", "--hidden-size", "8", "--steps", "20", "--evaluate-every", "10", "--device", "cpu"]
BASE = resolve("adding", "paper", length=10, hidden_size=8, steps=20, evaluate_every=10, device="cpu")


def planned(folder: Path, **changes) -> Search:
    ranges = search.space(BASE)
    return replace(Search(BASE, ranges, 3, "some", f"sqlite:///{folder}/trials.db"), **changes)


def known(plan: Search) -> list:
    """All trials of a search, those that do not count too."""
    with studies.joined(plan, plan.base.task.load(0)) as study:
        return study.get_trials()


def pretend(monkeypatch, reach) -> None:
    """Trials do not train: reach(trial from 0) -> the validations that they see."""
    calls = iter(range(1000))

    def validate(config, task, watch):
        seen = reach(next(calls))
        for number, value in enumerate(seen, 1):
            watch(Progress(number, len(seen), None, None, 1, 0.0, 0.0, value, ((0, {"metric": value}),)))
        return Validated(seen[-1], len(seen), 0.0)

    monkeypatch.setattr(training, "validate", validate)


def test_the_ranges_are_the_papers():
    """tab:hyperparameters: learning rate, dt, gamma, epsilon; a value that was not searched is the recipe's."""
    tenths, tens = (1e-1, 10.0), (1.0, 100.0)
    table = dict.fromkeys(("smnist", "psmnist", "har2", "imdb"), ((1e-4, 1e-1), (1e-2, 1e-1), tenths, tenths))
    table |= {"adding": (None, (1e-2, 1e-1), tens, tens), "noisy-cifar10": ((1e-4, 1e-1), (1e-2, 1e-1), tens, tens)}
    names = ("learning_rate", "dt", "gamma", "epsilon")
    assert {task: tuple(ranges.get(name) for name in names) for task, ranges in RANGES.items()} == table
    assert resolve("adding", "paper").optimiser.learning_rate == 2e-2
    for task in RANGES:
        for name, recipe in RECIPES[task].items():
            settings = flat_settings(recipe.train)
            for setting, (low, high) in RANGES[task].items() if recipe.origin == "paper" else ():
                assert low <= settings[setting] <= high, (task, name, setting)


def test_every_task_and_model_has_a_space():
    for task in (*RANGES, "lorenz96"):
        for recipe in RECIPES[task].values():
            if isinstance(recipe.train.model, CoRNNSpec):
                assert ("gamma" in search.space(recipe.train)) == (recipe.train.model.gamma is not None)
            assert search.space(recipe.train.override(model="lstm")) == {"learning_rate": (1e-4, 1e-1)}


def test_values_are_log_uniform_and_depend_on_the_seed_and_the_number_alone():
    ranges = search.space(resolve("psmnist", "paper"))

    def drawn(seed):
        study = optuna.create_study(sampler=studies.Numbered(seed))
        trials = [study.ask() for _ in range(200)]
        # In another order than their numbers': workers differ in speed.
        for trial in trials if seed else reversed(trials):
            for name, ends in ranges.items():
                trial.suggest_float(name, *ends, log=True)
        return [trial.params for trial in trials]

    values = drawn(0)
    assert drawn(0)[:20] == values[:20]
    assert drawn(1)[0] != values[0]
    for name, (low, high) in ranges.items():
        assert len({row[name] for row in values}) == len(values)
        # Uniform on [0, 1]: within three standard errors of 1/2.
        places = [math.log(row[name] / low) / math.log(high / low) for row in values]
        assert min(places) >= 0
        assert max(places) <= 1
        assert abs(statistics.fmean(places) - 0.5) < 3 / math.sqrt(12 * len(places))


def test_the_test_part_is_never_read(tmp_path, monkeypatch):
    tiny.write_har(tmp_path)
    real, splits = har.read, []
    monkeypatch.setattr(har, "read", lambda where, split: (splits.append(split), real(where, split))[1])
    base = resolve("har2", "paper-tiny", epochs=1, device="cpu", data=str(tmp_path))
    ranges = search.space(base)
    standing = search.run(Search(base, ranges, 2, "har2", f"sqlite:///{tmp_path}/trials.db"))
    assert standing.complete == 2
    assert splits == ["train"]
    training.fit(base, tmp_path / "run")
    assert splits == ["train", "train", "test"]


def test_the_best_configuration_trains(cornn, tmp_path):
    code, out, _ = cornn("search", *SHORT, "--trials", 3)
    assert code == 0
    assert "3 trials, 0 pruned, 0 failed" in out
    folder = tmp_path / "runs/search-adding-cornn-8"
    best, trials = (json.loads((folder / name).read_text()) for name in ("best.json", "trials.json"))
    least = min(trials["trials"], key=lambda row: row["validation"])
    assert {name: best["model"][name] for name in RANGES["adding"]} == least["values"]
    assert f"cornn train adding --config {Path('runs/search-adding-cornn-8/best.json')}" in out
    code, out, _ = cornn("train", "adding", "--config", folder / "best.json", "--quiet", "--out", "run")
    assert code == 0
    result = json.loads((tmp_path / "run/result.json").read_text())
    assert result["validation"] == pytest.approx(least["validation"], rel=1e-6)


def test_a_dry_run_shows_the_space_and_the_plan_and_writes_nothing(cornn, tmp_path):
    code, out, _ = cornn("search", *SHORT, "--trials", 5, "--gamma", 3.0, "--dry-run")
    assert code == 0
    assert "ranges: the paper's" in out
    assert "dt: 0.01 to 0.1, log-uniform" in out
    assert "gamma:" not in out
    assert "5 trials of at most 20 steps, none pruned; seed 0" in out
    assert "learning_rate: 0.0001 to 0.1" in cornn("search", *SHORT, "--model", "lstm", "--dry-run")[1]
    assert "ours; the paper has none" in cornn("search", "lorenz96", "--dry-run")[1]
    assert not list(tmp_path.iterdir())


def test_the_command_goes_on_where_it_was_and_json_is_one_line_a_trial(cornn, monkeypatch):
    pretend(monkeypatch, lambda trial: [1.0 / (trial + 1)])
    assert cornn("search", *SHORT, "--trials", 2)[0] == 0
    code, out, _ = cornn("search", *SHORT, "--trials", 4, "--json")
    assert code == 0
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["trial"] for row in rows[:-1]] == [0, 1, 2, 3]
    assert rows[-1]["best"] == rows[3]


def test_trials_that_diverge_are_failed_with_the_reason(cornn, tmp_path):
    code, _, err = cornn("search", *SHORT, "--trials", 2, "--learning-rate", 1e30, "--quiet")
    assert code == 2
    assert err.startswith("cornn: none of the 2 trials finished; the last: the loss is ")
    folder = tmp_path / "runs/search-adding-cornn-8"
    rows = json.loads((folder / "trials.json").read_text())["trials"]
    assert [row["state"] for row in rows] == ["failed", "failed"]
    assert all("try a smaller learning_rate or dt" in row["failure"] for row in rows)
    assert not (folder / "best.json").exists()


def test_pruning_stops_what_is_behind_the_median(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda trial: [1.0] * 8 if trial < 5 else [1.0 + trial] * 8)
    standing = search.run(planned(tmp_path, trials=7, prune=True))
    assert (standing.complete, standing.pruned) == (5, 2)
    # Not before a quarter of the training.
    assert [row["steps"] for row in standing.rows[5:]] == [2, 2]


def test_a_trial_whose_worker_is_stopped_is_tried_again(tmp_path):
    plan = planned(tmp_path, trials=2)

    def stop(standing, progress):
        if progress is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        search.run(plan, stop)
    standing = search.run(plan)
    assert (standing.complete, standing.failed) == (2, 0)
    stopped, again, _ = known(plan)
    assert stopped.user_attrs["set_aside"] == "its worker was stopped"
    assert again.params == stopped.params
    assert again.user_attrs["instead_of"] == 0


def test_a_trial_that_ends_its_workers_counts_as_failed_in_the_end(tmp_path, monkeypatch):
    def validate(config, task, watch):
        raise OSError("the data are gone")

    plan = planned(tmp_path, trials=1)
    monkeypatch.setattr(training, "validate", validate)
    for _ in range(studies.ATTEMPTS):
        with pytest.raises(OSError, match="the data are gone"):
            search.run(plan)
    standing = search.run(plan)
    assert standing.failed == 1
    reason = "3 workers ended in it without a result, the last one with OSError: the data are gone"
    assert standing.rows[0]["failure"] == reason
    assert len({tuple(trial.params.values()) for trial in known(plan)}) == 1


def test_of_two_workers_that_take_the_last_trial_one_steps_back(tmp_path):
    plan, task, others = planned(tmp_path, trials=1), BASE.task.load(0), []

    def race(standing, progress):
        if progress is not None and not others:
            others.append("one")
            with studies.joined(plan, task) as study:
                study.optimize(partial(work._try, plan, task, race), 1, catch=(work._NotCounted,))

    assert search.run(plan, race).complete == 1
    assert [trial.state.name for trial in known(plan)] == ["COMPLETE", "FAIL"]
    assert known(plan)[1].user_attrs["set_aside"] == "as many as are wanted were under way"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "unknown task 'nothing': choose one of adding, smnist, "),
        (["--trials", "3"], "no task is given: choose one of adding, smnist, "),
        ([*SHORT, "--trials", "0"], "trials must be above 0, got 0"),
        ([*SHORT, "--devices", "2"], "start the command once per device"),
        ([*SHORT, "--recipe", "nobody"], "adding has no recipe 'nobody': choose one of ours, paper"),
        ([*SHORT, "--dt", ".1", "--gamma", "1", "--epsilon", "1"], "all searchable settings are given as options"),
        ([*SHORT, "--storage", "here"], "'here' is not a storage: give a URL such as sqlite:///FILE"),
        ([*SHORT, "--storage", "redis://here"], "cannot open the storage redis://here"),
        (
            [*SHORT, "--storage", "sqlite:////dev/null/trials.db"],
            "cannot open the storage sqlite:////dev/null/trials.db",
        ),
        ([*SHORT, "--storage", "postgresql+pg8000://here/it"], "needs the package pg8000: pip install pg8000"),
        (
            [*SHORT, "--storage", "postgresql+psycopg://me:secret@localhost:1/it"],
            "cannot open the storage postgresql+psycopg://me:***@localhost:1/it",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(cornn, arguments, sentence):
    code, _, err = cornn("search", *arguments, "--quiet")
    assert code == 2
    assert sentence in err
    assert err.startswith("cornn: ")
    assert err.count("\n") == 1


def test_a_study_of_another_search_is_refused(cornn, monkeypatch):
    pretend(monkeypatch, lambda trial: [1.0])
    assert cornn("search", *SHORT, "--trials", 1)[0] == 0
    code, _, err = cornn("search", *SHORT, "--trials", 1, "--batch-size", 7, "--quiet")
    assert code == 2
    assert "belongs to another search (budget.batch_size was 50, is 7): choose another name with --study" in err


def test_a_storage_that_fails_on_the_way(tmp_path, monkeypatch):
    def validate(config, task, watch):
        database = sqlite3.connect(tmp_path / "trials.db")
        database.execute("DROP TABLE trial_user_attributes")
        database.close()
        return Validated(1.0, 1, 0.0)

    monkeypatch.setattr(training, "validate", validate)
    with pytest.raises(OSError, match=r"trials\.db failed \(.*\): fix it, then run the same command to continue"):
        search.run(planned(tmp_path))


def test_the_docs_have_the_ranges():
    text = (Path(__file__).parents[3] / "docs/search.md").read_text(encoding="utf8")
    for whose, spaces in (("the paper", RANGES), ("ours", plans.OURS)):
        for task, ranges in spaces.items():
            cells = [f"{low:g} to {high:g}" for low, high in ranges.values()]
            cells = cells if "learning_rate" in ranges else ["0.02", *cells]
            assert f"| {task} | {' | '.join(cells)} | {whose} |" in text


def test_without_optuna_the_remedy_is_named(cornn, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = cornn("search", *SHORT)
    assert (code, err) == (2, f"cornn: a search needs optuna: {install_command('search')}\n")


def test_a_signal_says_how_to_go_on(cornn, monkeypatch):
    def validate(config, task, watch):
        raise training.Stopped(signal.SIGTERM)

    monkeypatch.setattr(training, "validate", validate)
    code, _, err = cornn("search", *SHORT, "--quiet")
    assert code == 143
    assert "Run the same command to continue" in err
