import importlib.util
import json
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import tiny

from cornn._extras import install_command
from cornn.lab import records, training
from cornn.lab.config import as_dictionary
from cornn.lab.experiments import reproduce
from cornn.lab.experiments.reproduce import TARGETS
from cornn.lab.experiments.run import run_experiments
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.storage import Storage
from cornn.lab.recipes import RECIPES, Recipe, resolve
from cornn.lab.report import targets
from cornn.lab.report.tables import RunGroup
from cornn.lab.tasks import PermutedMNIST, SequentialMNIST

SMALL = resolve("adding", length=10, hidden_size=4, steps=20, evaluate_every=10, until=0, device="cpu")


def plan(config, seeds):
    return reproduce._runs(config, seeds)


def complete(experiment: Experiment, results: Path, folder: Path, watch=lambda progress: None) -> list[Path]:
    """Run what has no record, and return the new records."""
    before = set(results.rglob("*.json"))

    def follow(status, progress):
        if progress is not None:
            watch(progress)

    left = replace(experiment, seeds=reproduce.missing(experiment, results))
    finish = partial(reproduce.record_runs, results=results)
    storage = Storage(f"sqlite:///{folder}/runs.db", 0.0)
    run_experiments([left], storage, folder, follow=follow, finish=finish)
    return sorted(set(results.rglob("*.json")) - before)


def test_every_target_has_runs_and_none_comes_twice():
    assert [target for target in TARGETS if not reproduce.plan([target])] == ["heuristics"]
    planned = reproduce.plan(["all"])
    names = [one.name for one in planned]
    assert len(set(names)) == len(names)
    assert reproduce.plan(["smnist", "distribution"])[0].seeds == tuple(range(10))
    # The last three are those of protocols.
    assert {one.seeds for one in reproduce.plan(["all"], seeds=2)} == {(0, 1), (11, 12), (21, 22), (31, 32)}
    assert {one.base.place.device for one in reproduce.plan(["har2"], device="cpu")} == {"cpu"}
    with pytest.raises(ValueError, match=r"unknown target 'mnist': .*choose one of all, har2, adding"):
        reproduce.plan(["mnist"])
    with pytest.raises(ValueError, match="seeds must be above 0, got 0"):
        reproduce.plan(["har2"], seeds=0)


def test_what_has_a_record_is_not_run_again(tmp_path):
    planned = plan(SMALL, 3)
    results = tmp_path / "results"
    records.write(records.record(training.fit(replace(SMALL, seed=1), tmp_path / "before")), results)
    assert reproduce.missing(planned, results) == (0, 2)
    written = complete(planned, results, tmp_path / "runs")
    assert len(written) == 2
    assert reproduce.missing(planned, results) == ()
    assert reproduce.seconds_per_run(planned, results) > 0
    # Another setting is another run.
    assert reproduce.missing(plan(resolve("adding", length=10, hidden_size=4, steps=30), 1), results) == (0,)


def test_a_better_recipe_of_psmnist_is_run_with_a_permutation_for_each_seed(tmp_path, monkeypatch):
    changes = {"hidden_size": 4, "batch_size": 16, "epochs": 1, "schedule": "cosine", "drop_after": 0, "shift": 1}
    small = resolve("psmnist", "paper-128").override(recipe="better-small", **changes)
    monkeypatch.setitem(RECIPES["psmnist"], "better-small", Recipe(small, "made up", "better"))
    found = [one for one in reproduce.plan(["better"]) if one.base.recipe == "better-small"]
    orders = PermutedMNIST(shift=1), PermutedMNIST("own", shift=1)
    assert [(one.base.task, len(one.seeds)) for one in found] == [(order, 5) for order in orders]
    # Two seeds of it on a few images are one figure of the table.
    tiny.write_mnist(tmp_path / "data", monkeypatch)
    results, runs = tmp_path / "results", tmp_path / "runs"
    config = found[1].base.override(validation=8, device="cpu", data=tmp_path / "data")
    written = complete(plan(config, 2), results, runs)
    names = [path.name.rsplit("-", 1)[0] for path in written]
    assert names == [f"better-small-permutation-own-validation-8-shift-1-cornn4-seed{seed}" for seed in (0, 1)]
    tests = [json.loads(path.read_text())["result"]["test"] for path in written]
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    tables = importlib.import_module("better_tables")
    mean, own = sum(tests) / 2, ("own", {"permutation": "own", "validation": 8})
    goals = [targets.Target("psmnist", 4, figure, *own) for figure in (101.0, mean)]
    monkeypatch.setattr(targets, "TARGETS", (*goals, targets.Target("psmnist", 4, 101.0, "", {"validation": 8})))
    *_, missed, reached, other = tables.targets_met(results).splitlines()
    assert f"| {mean:.2f} [" in missed
    assert missed.endswith("(2 seeds) | not run | no |")
    assert reached.endswith("| yes |")
    assert other.endswith("| not run | not run | not run |")


def test_a_mean_that_rounds_up_to_the_target_does_not_meet_it():
    tests = {97.99: "no", 97.996: "no: 97.996", 97.9997: "no: 97.9997", 98.0: "yes"}
    for test, verdict in tests.items():
        runs = RunGroup("psmnist", "cornn", 256, {}, {}, ({"result": {"test": test, "better": "higher"}},), 0)
        assert targets.TargetStatus(targets.Target("psmnist", 256, 98.0), (runs,), None).verdict == verdict


def test_the_better_recipe_of_smnist_is_run_with_changed_images():
    (found,) = [one for one in reproduce.plan(["better"]) if isinstance(one.base.task, SequentialMNIST)]
    assert found.base.task == SequentialMNIST(shift=1, warp=0.15)


def test_the_table_of_a_search_names_what_was_changed(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmarks"))
    tables = importlib.import_module("better_tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    short = {"epochs": 3}
    holding = {"gamma": None, "periods": None, "half_lives": (0.1, 1.0)}
    for validation, recipe, shift, changes in [
        (91.0, "better-128", 1, short),
        (92.0, "better-128", 1, short | {"clip": 0.5}),
        (93.0, "better-128", 0, short),
        (94.0, "paper-128", 1, short),
        (95.0, "better-128", 1, short | holding),
    ]:
        config = as_dictionary(resolve("psmnist", recipe, shift=shift, **changes))
        records.write(
            {"config": json.loads(json.dumps(config)), "result": {"validation": validation}}, tmp_path / "search"
        )
    rows = tables.search(tables.Search("psmnist", "better-128", {"shift": 1})).splitlines()[2:]
    assert [row.split(" | ")[2] for row in rows] == [
        "the paper's constants and initialisation, learning_rate 0.0037, clip 0.0",
        "shift 0",
        "clip 0.5",
        "-",
    ]
    (row,) = tables.search(tables.Search("psmnist", "memory", holding=True)).splitlines()[2:]
    assert "half_lives 0.1, 1.0" in row


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_plan_that_was_stopped_goes_on(tmp_path, seeds):
    planned = plan(SMALL.override(save_every=0.0), seeds)

    def stop(progress):
        if progress.step == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        complete(planned, tmp_path / "results", tmp_path / "runs", stop)
    assert reproduce.missing(planned, tmp_path / "results") == tuple(range(seeds))
    steps = []
    complete(planned, tmp_path / "results", tmp_path / "runs", lambda progress: steps.append(progress.step))
    assert steps[0] == 13
    assert reproduce.missing(planned, tmp_path / "results") == ()


def test_a_failure_is_recorded(tmp_path):
    planned = plan(SMALL.override(learning_rate=1e30), 1)
    (path,) = complete(planned, tmp_path / "results", tmp_path / "runs")
    assert "not finite" in json.loads(path.read_text())["result"]["failed"] or "nan" in path.read_text()
    assert reproduce.missing(planned, tmp_path / "results") == ()
    assert reproduce.seconds_per_run(planned, tmp_path / "results") is None


def test_more_seeds_than_before_are_run(tmp_path):
    results, runs = tmp_path / "results", tmp_path / "runs"
    for seeds, new in ((2, [0, 1]), (4, [2, 3]), (5, [4])):
        planned = plan(SMALL, seeds)
        assert reproduce.missing(planned, results) == tuple(new)
        written = complete(planned, results, runs)
        assert sorted(json.loads(path.read_text())["config"]["seed"] for path in written) == new
        assert all("test" in json.loads(path.read_text())["result"] for path in written)
        assert reproduce.missing(planned, results) == ()


@pytest.mark.parametrize("seeds", [1, 2])
def test_what_is_wrong_with_the_place_is_no_failure_of_the_run(tmp_path, monkeypatch, seeds):
    def full(*arguments):
        raise RuntimeError("no CUDA device here")

    planned = plan(SMALL, seeds)
    with monkeypatch.context() as patch:
        patch.setattr(training, "train_seeds", full)
        with pytest.raises(RuntimeError, match="no CUDA device"):
            complete(planned, tmp_path / "results", tmp_path / "runs")
    assert reproduce.missing(planned, tmp_path / "results") == tuple(range(seeds))


@pytest.fixture
def small(monkeypatch):
    """Two targets of small runs in place of the paper's."""
    runs = {"one": lambda: [plan(SMALL, 1)], "two": lambda: [plan(SMALL.override(model="gru"), 2)]}
    monkeypatch.setattr(reproduce, "TARGETS", runs)
    monkeypatch.setattr("cornn.lab.report.figures.neurons.HORIZON", 0.5)


@pytest.mark.slow
def test_the_command_prints_its_plan_and_runs_what_has_no_record(cornn, tmp_path, small):
    code, out, _ = cornn("reproduce", "--dry-run", "--quiet")
    assert code == 0
    assert "3 runs left: 0 minutes by recorded times; the time of 3 is unknown" in out
    assert not (tmp_path / "results").exists()
    code, out, _ = cornn("reproduce", "one", "--quiet")
    assert code == 0
    assert "seed 0: " in out
    assert "0 runs left" in cornn("reproduce", "one", "--quiet")[1]
    code, out, _ = cornn("reproduce", "--quiet", "--budget-minutes", "0")
    assert code == 0
    assert "left, over the time limit" in out
    assert len(list((tmp_path / "results/adding").iterdir())) == 1
    code, _, err = cornn("reproduce", "three")
    assert code == 2
    assert "unknown target 'three': choose one of all, one, two" in err


@pytest.mark.slow
def test_the_heuristics_are_a_figure(cornn, tmp_path):
    code, out, _ = cornn("reproduce", "heuristics")
    assert code == 0
    assert "0 runs left" in out
    assert (tmp_path / "runs/reproduce/heuristics.svg").stat().st_size > 1000
    (tmp_path / "runs/reproduce/heuristics.svg").write_text("drawn before", encoding="utf8")
    assert "heuristics" not in cornn("reproduce", "heuristics")[1]
    assert (tmp_path / "runs/reproduce/heuristics.svg").read_text(encoding="utf8") == "drawn before"


def test_the_heuristics_say_what_their_figure_needs(cornn, tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, out, _ = cornn("reproduce", "heuristics")
    assert code == 0
    assert f"the figure needs matplotlib: {install_command('report')}" in " ".join(out.split())
    assert not (tmp_path / "runs").exists()


def test_a_recipe_that_a_protocol_chose_is_run_with_the_seeds_of_its_test():
    for name, seeds in (("adversarial", (31, 32, 33, 34, 35)), ("better", (0, 1, 2, 3, 4))):
        (found,) = [one for one in reproduce.plan(["better"]) if one.base == resolve("imdb", name)]
        assert found.seeds == seeds
    for count, seeds in ((2, (31, 32)), (6, (31, 32, 33, 34, 35, 36))):
        (found,) = [one for one in reproduce.plan(["better"], count) if one.base == resolve("imdb", "adversarial")]
        assert found.seeds == seeds
