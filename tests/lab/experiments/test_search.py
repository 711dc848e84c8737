"""Random search: its space, what becomes of trials that fail, and that the test split stays unread."""

import json
import math
import re
import signal
import sqlite3
import statistics
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
import tiny
import torch
from rich.console import Console

from cornn._device_errors import DeviceError
from cornn._extras import install_command
from cornn.cli import search as command
from cornn.lab import training
from cornn.lab.config import flat_settings, read_run_config
from cornn.lab.data import har
from cornn.lab.experiments import queue as queues
from cornn.lab.experiments import search, worker
from cornn.lab.experiments import storage as storages
from cornn.lab.experiments.run import run_experiments
from cornn.lab.experiments.search import make_search
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import TaskInfo
from cornn.lab.experiments.storage import Storage
from cornn.lab.recipes import RANGES, RECIPES, resolve
from cornn.lab.recipes.ranges import Between
from cornn.lab.training import Progress, ValidationResult

SHORT = ["adding", "--length", "10", "--hidden-size", "8", "--steps", "20", "--evaluate-every", "10", "--device", "cpu"]
BASE = resolve("adding", "paper", length=10, hidden_size=8, steps=20, evaluate_every=10, device="cpu")


def stored(folder: Path, **changes) -> Storage:
    return Storage(f"sqlite:///{folder}/trials.db", **{"patience": 0.0} | changes)


def run(folder: Path, trials: int = 3, follow=lambda status, progress: None, prune=False, **changes):
    """The status of a small search after one worker."""
    experiment = make_search(BASE, trials, name="some", prune=prune)
    return run_experiments([experiment], stored(folder, **changes), folder, follow=follow)[0]


def entries(storage: Path | str, study: str = "some") -> list:
    """All attempts of a search, also those that do not count; of a folder, or of a URL."""
    url = storage if isinstance(storage, str) else f"sqlite:///{storage}/trials.db"
    opened = optuna.storages.RDBStorage(url)
    try:
        return optuna.load_study(study_name=study, storage=opened).get_trials()
    finally:
        opened.remove_session()
        opened.engine.dispose()


def pretend(monkeypatch, reach) -> None:
    """Trials do not train: reach(trial from 0) -> the validations that they see."""
    calls = iter(range(1000))

    def validate(config, task, watch):
        seen = reach(next(calls))
        for number, value in enumerate(seen, 1):
            watch(Progress(number, len(seen), None, None, 1, 0.0, 0.0, value, ((0, {"metric": value}),)))
        return ValidationResult(seen[-1], len(seen), 0.0)

    monkeypatch.setattr(training, "validate", validate)


def test_the_ranges_are_the_papers():
    """tab:hyperparameters: learning rate, dt, gamma, epsilon; a value that was not searched is the recipe's."""
    tenths, tens = (1e-1, 10.0), (1.0, 100.0)
    table = dict.fromkeys(("smnist", "psmnist", "har2", "imdb"), ((1e-4, 1e-1), (1e-2, 1e-1), tenths, tenths))
    table |= {"adding": (None, (1e-2, 1e-1), tens, tens), "noisy-cifar10": ((1e-4, 1e-1), (1e-2, 1e-1), tens, tens)}
    names = ("learning_rate", "dt", "gamma", "epsilon")
    assert {task: tuple(ranges.get(name) for name in names) for task, ranges in RANGES.items()} == table
    assert resolve("adding", "paper").optimiser.learning_rate == 2e-2


def test_every_task_and_model_has_a_space():
    for task in (*RANGES, "lorenz96"):
        for recipe in RECIPES[task]:
            config = resolve(task, recipe)
            if config.model.name == "cornn":
                assert ("gamma" in search.ranges(config)) == (config.model.gamma is not None)
                assert search.ranges(config.override(model="lstm")) == {"learning_rate": (1e-4, 1e-1)}


def test_values_are_log_uniform_and_depend_on_the_seed_and_the_number_alone():
    experiment = make_search(resolve("psmnist", "paper"), 200)
    values = [experiment.values(number) for number in range(200)]
    assert [experiment.values(number) for number in (7, 3)] == [values[7], values[3]]
    assert make_search(resolve("psmnist", "paper", seed=1), 1).values(0) != values[0]
    for name, (low, high) in search.ranges(experiment.base).items():
        assert len({row[name] for row in values}) > 190
        # Uniform on [0, 1]: within three standard errors of 1/2.
        places = [math.log(row[name] / low) / math.log(high / low) for row in values]
        assert min(places) >= -1e-9
        assert max(places) <= 1 + 1e-9
        assert abs(statistics.fmean(places) - 0.5) < 3 / math.sqrt(12 * len(places))


def test_the_test_split_is_never_read(tmp_path, monkeypatch):
    tiny.write_har(tmp_path)
    real, splits = har.read, []
    monkeypatch.setattr(har, "read", lambda where, split: (splits.append(split), real(where, split))[1])
    base = resolve("har2", "paper-tiny", epochs=1, device="cpu", data=str(tmp_path))
    (status,) = run_experiments([make_search(base, 2)], stored(tmp_path), tmp_path)
    assert status.complete == 2
    assert set(splits) == {"train"}
    training.fit(base, tmp_path / "run")
    assert splits[-1] == "test"


def test_the_best_configuration_trains(cornn, tmp_path):
    code, out, err = cornn("search", *SHORT, "--trials", 3)
    assert code == 0, err
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


def test_optunas_tools_see_the_values_of_a_trial(tmp_path):
    status = run(tmp_path, 1)
    assert entries(tmp_path)[0].params == status.rows[0]["values"] == status.experiment.values(0)


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


def test_the_command_continues_and_json_is_one_line_per_trial(cornn, monkeypatch):
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
    assert all("the loss is" in row["failure"] for row in rows)
    assert not (folder / "best.json").exists()


def test_pruning_stops_what_is_behind_the_median(tmp_path, monkeypatch):
    pretend(monkeypatch, lambda trial: [1.0] * 8 if trial < 5 else [1.0 + trial] * 8)
    status = run(tmp_path, 7, prune=True)
    assert (status.complete, status.pruned) == (5, 2)
    # Not before a quarter of the training.
    assert [row["steps"] for row in status.rows[5:]] == [2, 2]


def test_a_trial_whose_worker_is_stopped_keeps_its_number_and_values(tmp_path):
    def stop(status, progress):
        if progress is not None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 2, stop)
    status = run(tmp_path, 2)
    assert (status.complete, status.failed) == (2, 0)
    assert [row["values"] for row in status.rows] == [status.experiment.values(number) for number in (0, 1)]
    stopped, again, _ = entries(tmp_path)
    assert stopped.user_attrs["set_aside"] == "it was stopped"
    assert again.user_attrs["trial"] == stopped.user_attrs["trial"] == 0
    assert again.params == stopped.params


def test_a_trial_that_needs_too_much_memory_failed_for_that_reason(tmp_path, monkeypatch):
    cause = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 1")
    device = DeviceError("CUDA out of memory, at step 3", " Free memory on it.")
    device.__cause__ = cause
    for number, (error, reason) in enumerate(
        [(cause, "CUDA out of memory. Tried to allocate 2.00 GiB"), (device, "CUDA out of memory, at step 3")]
    ):

        def validate(config, task, watch, error=error):
            raise error

        monkeypatch.setattr(training, "validate", validate)
        (tmp_path / str(number)).mkdir()
        assert run(tmp_path / str(number), 1).rows[0]["failure"] == reason
        assert len(entries(tmp_path / str(number))) == queues.ATTEMPTS


def test_a_trial_that_found_the_gpu_full_is_repeated_after_the_others(tmp_path, monkeypatch):
    """Other workers may have filled it, which is no property of the trial."""
    real, calls = training.validate, []

    def validate(*arguments):
        calls.append(None)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return real(*arguments)

    monkeypatch.setattr(training, "validate", validate)
    status = run(tmp_path, 3)
    assert (status.complete, status.failed) == (3, 0)
    assert [row["values"] for row in status.rows] == [status.experiment.values(number) for number in range(3)]
    assert [entry.user_attrs["trial"] for entry in entries(tmp_path)] == [0, 1, 2, 0]


def test_a_trial_that_ends_its_workers_counts_as_failed_in_the_end(tmp_path, monkeypatch):
    def validate(config, task, watch):
        raise OSError("the data are gone")

    monkeypatch.setattr(training, "validate", validate)
    for _ in range(queues.ATTEMPTS):
        with pytest.raises(OSError, match="the data are gone"):
            run(tmp_path, 1)
    status = run(tmp_path, 1)
    assert (status.failed, status.remaining) == (1, 0)
    reason = "3 workers ended in it without a result, the last one with OSError: the data are gone"
    assert status.rows[0]["failure"] == reason
    assert len({tuple(entry.params.values()) for entry in entries(tmp_path)}) == 1


def test_of_two_workers_that_queue_the_same_trial_one_steps_back(tmp_path):
    """Both look at the study before either has put the trial into the queue."""
    twice = []

    def race(status, progress):
        if progress is not None and not twice:
            study = optuna.load_study(study_name="some", storage=f"sqlite:///{tmp_path}/trials.db")
            study.enqueue_trial({}, user_attrs={"trial": 0, "values": status.experiment.values(0)})
            twice.append(1)

    assert run(tmp_path, 1, race).complete == 1
    assert run(tmp_path, 2).complete == 2
    assert [entry.state.name for entry in entries(tmp_path)] == ["COMPLETE", "FAIL", "COMPLETE"]
    assert entries(tmp_path)[1].user_attrs["set_aside"] == "another worker has it"


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nothing"], "unknown task 'nothing': choose one of adding, smnist, "),
        (["--trials", "3"], "no task is given: choose one of adding, smnist, "),
        ([*SHORT, "--trials", "0"], "trials must be above 0, got 0"),
        ([*SHORT, "--workers", "0"], "workers must be above 0, got 0"),
        ([*SHORT, "--storage", "memory", "--workers", "2"], "the storage memory belongs to one process"),
        ([*SHORT, "--devices", "2"], "start the command once per device"),
        ([*SHORT, "--recipe", "nobody"], "unknown recipe of adding 'nobody': choose one of ours, paper"),
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
    assert "belongs to another experiment (config.budget.batch_size was 50, is 7): choose another name" in err
    err = cornn("search", *SHORT, "--trials", 1, "--seed", 7, "--quiet")[2]
    assert "belongs to another experiment (config.seed was its default, is 7): choose another name" in err


def test_a_storage_that_fails_on_the_way(tmp_path, monkeypatch):
    def validate(config, task, watch):
        database = sqlite3.connect(tmp_path / "trials.db")
        database.execute("DROP TABLE trial_user_attributes")
        database.close()
        return ValidationResult(1.0, 1, 0.0)

    monkeypatch.setattr(training, "validate", validate)
    with pytest.raises(OSError, match=r"trials\.db failed \(.*\): fix it, then run the same command to continue"):
        run(tmp_path)


def test_without_sqlalchemy_one_worker_searches_in_memory(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "sqlalchemy", None)
    (status,) = run_experiments([make_search(BASE, 2)], Storage("memory"), tmp_path)
    assert status.complete == 2


def test_the_docs_have_the_ranges():
    text = (Path(__file__).parents[3] / "docs/search.md").read_text(encoding="utf8")
    for whose, spaces in (("the paper", RANGES), ("ours", search.OURS)):
        for task, ranges in spaces.items():
            cells = [f"{low:g} to {high:g}" for low, high in ranges.values()]
            cells = cells if "learning_rate" in ranges else ["0.02", *cells]
            assert f"| {task} | {' | '.join(cells)} | {whose} |" in text


def test_without_optuna_the_remedy_is_named(cornn, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = cornn("search", *SHORT)
    assert (code, err) == (2, f"cornn: experiments need optuna: {install_command('lab')}\n")


def test_a_signal_says_how_to_continue(cornn, monkeypatch):
    def validate(config, task, watch):
        raise training.Stopped(signal.SIGTERM)

    monkeypatch.setattr(training, "validate", validate)
    code, _, err = cornn("search", *SHORT, "--quiet")
    assert code == 143
    assert "Run the same command to continue" in err


def test_the_last_failure_is_the_one_that_is_told(tmp_path):
    status = SimpleNamespace(
        experiment=make_search(resolve("har2"), 3),
        task=SimpleNamespace(better="higher"),
        rows=[{"failure": reason} for reason in ("first", "second", None)],
        best=None,
        done=3,
    )
    with pytest.raises(RuntimeError, match="none of the 3 trials finished; the last: second "):
        search.write_search(status, Storage("memory"), tmp_path)


def test_runs_with_the_settings_of_an_earlier_best_trial_do_not_count(tmp_path, monkeypatch):
    """More trials may find better settings: the record must not name them next to tests of the old ones."""
    monkeypatch.setattr(worker, "SECONDS_BETWEEN_LOOKS", 0.01)
    space = {"learning_rate": Between(1e-4, 1e-2)}
    few = Experiment("some", BASE, space, 1, seeds=(1, 2))
    tested = []

    def finish(experiment, runs, failures):
        tested.append([flat_settings(read_run_config(run))["learning_rate"] for run in runs])

    pretend(monkeypatch, lambda trial: [1.0 - trial])
    (status,) = run_experiments([few], stored(tmp_path), tmp_path / "few", finish=finish)
    assert (status.best["trial"], status.remaining) == (0, 0)
    more = replace(few, trials=2, seeds=(1, 2, 3))
    (status,) = run_experiments([more], stored(tmp_path), tmp_path / "more", finish=finish)
    rates = [more.values(trial)["learning_rate"] for trial in range(2)]
    assert tested == [[rates[0]] * 2, [rates[1]] * 3]
    assert (status.best["trial"], status.remaining, [one["seed"] for one in status.runs]) == (1, 0, [1, 2, 3])
    # Seeds that are added later are trained alone.
    (status,) = run_experiments([replace(more, seeds=(1, 2, 3, 4))], stored(tmp_path), tmp_path / "more", finish=finish)
    assert tested[2:] == [[rates[1]]]
    assert [one["seed"] for one in status.runs] == [1, 2, 3, 4]


def test_queued_runs_with_the_settings_of_an_earlier_best_trial_are_set_aside(tmp_path, monkeypatch):
    space = {"learning_rate": Between(1e-4, 1e-2)}
    few = Experiment("some", BASE, space, 1, seeds=(1,))
    pretend(monkeypatch, lambda trial: [1.0 - trial])
    opened = storages.open_storage(stored(tmp_path))
    # The worker ends after it has queued the runs.
    queue = queues.Queue(few, opened, TaskInfo("MSE", "lower"))
    queue.fill()
    queue.take(lambda trial, work: 1.0, ())
    queue.fill()
    assert [entry.state.name for entry in entries(tmp_path, "some runs")] == ["WAITING"]
    pretend(monkeypatch, lambda trial: [0.5])
    (status,) = run_experiments([replace(few, trials=2)], stored(tmp_path), tmp_path)
    assert (status.best["trial"], status.remaining, [one["seed"] for one in status.runs]) == (1, 0, [1])
    aside, counted = entries(tmp_path, "some runs")
    assert aside.user_attrs["set_aside"] == "another trial is the best now"
    assert counted.user_attrs["values"] == few.values(1)


def test_a_long_curve_is_thinned_and_keeps_its_last_point():
    rows = [{"step": step, "metric": step / 10} for step in range(1, 122)]
    curve = worker._curve(SimpleNamespace(metrics=lambda: rows))
    assert curve["step"] == [*range(3, 121, 3), 121]
    assert curve["validation"] == [step / 10 for step in curve["step"]]


def test_the_bar_shows_the_best_trial(capsys):
    with ExitStack() as stack:
        follow = command._follow_with_bar(Console(width=120, force_terminal=True), stack)
        shared = {"experiment": SimpleNamespace(trials=4), "seconds_remaining": None}
        shared |= {"running": 1, "pruned": 0, "failed": 0}
        for best in (None, {"validation": 0.0125}):
            follow(SimpleNamespace(**shared, done=1, best=best), None)
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().out)
    assert "1/4 trials (1 running)  best 0.0125  waiting for other workers" in shown


def test_a_worker_is_one_process_on_one_device(monkeypatch):
    with pytest.raises(ValueError, match="one process on one device"):
        make_search(resolve("har2", devices=2), 3)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="one process on one device"):
        make_search(resolve("har2"), 3)
