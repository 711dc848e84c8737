import json
from dataclasses import replace

import pytest

from cornn import reproduce, training
from cornn.report import records
from cornn.reproduce import TARGETS, Planned
from cornn.tasks import Adding
from cornn.training import usual

SMALL = usual(Adding(10), hidden_size=4, steps=20, evaluate_every=10, until=0, device="cpu")


def silent(progress):
    pass


def test_every_target_has_runs_and_none_comes_twice():
    for target in TARGETS:
        assert reproduce.plan([target]), target
    planned = reproduce.plan(["all"])
    names = [(training.task_name(one.config.task), one.name) for one in planned]
    assert len(set(names)) == len(names)
    assert reproduce.plan(["smnist", "distribution"])[0].seeds == 10
    assert {one.seeds for one in reproduce.plan(["all"], seeds=2)} == {2}
    assert {one.config.device for one in reproduce.plan(["har2"], device="cpu")} == {"cpu"}
    with pytest.raises(ValueError, match="unknown target 'mnist': choose from all, har2, adding"):
        reproduce.plan(["mnist"])


def test_what_has_a_record_is_not_run_again(tmp_path):
    planned = Planned(SMALL, 3)
    results = tmp_path / "results"
    records.write(records.record(training.fit(replace(SMALL, seed=1), tmp_path / "before")), results)
    assert reproduce.missing(planned, results) == [0, 2]
    written = reproduce.complete(planned, results, tmp_path / "runs", silent)
    assert len(written) == 2
    assert reproduce.missing(planned, results) == []
    assert reproduce.seconds_a_run(planned, results) > 0
    # Another setting is another run.
    assert reproduce.missing(Planned(training.usual(Adding(10), hidden_size=4, steps=30), 1), results) == [0]


@pytest.mark.parametrize("seeds", [1, 2])
def test_a_plan_that_was_stopped_goes_on(tmp_path, seeds):
    planned = Planned(replace(SMALL, checkpoint_every=0.0), seeds)

    def stop(progress):
        if progress.step == 12:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce.complete(planned, tmp_path / "results", tmp_path / "runs", stop)
    assert reproduce.missing(planned, tmp_path / "results") == list(range(seeds))
    steps = []
    reproduce.complete(planned, tmp_path / "results", tmp_path / "runs", lambda progress: steps.append(progress.step))
    assert steps[0] == 13
    assert reproduce.missing(planned, tmp_path / "results") == []


def test_a_failure_is_recorded(tmp_path):
    settings = replace(SMALL.settings, learning_rate=1e30)
    planned = Planned(replace(SMALL, settings=settings), 1)
    (path,) = reproduce.complete(planned, tmp_path / "results", tmp_path / "runs", silent)
    assert "not finite" in json.loads(path.read_text())["result"]["failed"] or "nan" in path.read_text()
    assert reproduce.missing(planned, tmp_path / "results") == []
    assert reproduce.seconds_a_run(planned, tmp_path / "results") is None


@pytest.fixture
def small(monkeypatch):
    """Two targets of small runs in place of the paper's."""
    runs = {"one": lambda: [Planned(SMALL, 1)], "two": lambda: [Planned(replace(SMALL, model="gru"), 2)]}
    monkeypatch.setattr(reproduce, "TARGETS", runs)


def test_the_command_prints_its_plan_and_runs_what_has_no_record(cornn, tmp_path, small):
    code, out, _ = cornn("reproduce", "--dry-run", "--quiet")
    assert code == 0
    assert "3 runs to go: 0 minutes where they were recorded, and 3 whose time is not known yet" in out
    assert not (tmp_path / "results").exists()
    code, out, _ = cornn("reproduce", "one", "--quiet")
    assert code == 0
    assert "cornn4-seed0.json: MSE " in out
    assert "0 runs to go" in cornn("reproduce", "one", "--quiet")[1]
    code, out, _ = cornn("reproduce", "--quiet", "--budget-minutes", "0")
    assert code == 0
    assert "left out, the budget is spent" in out
    assert len(list((tmp_path / "results/adding").iterdir())) == 1
    code, _, err = cornn("reproduce", "three")
    assert code == 2
    assert "unknown target 'three': choose from all, one, two" in err
