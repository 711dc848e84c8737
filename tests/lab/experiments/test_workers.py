"""Experiments that several processes share, killed workers, and databases that go away."""

import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace

import optuna
import pytest
import torch
from optuna.exceptions import StorageInternalError
from test_search import BASE, SHORT, entries, pretend, run

from cornn import cli
from cornn.lab import training
from cornn.lab.experiments import storage as storages
from cornn.lab.experiments.run import run_experiments
from cornn.lab.experiments.search import make_search
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.storage import OPERATIONS, Storage
from cornn.lab.runs import Run

# Python's fork server has imported everything already, so that a worker is there at once.
WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload(["cornn.lab.experiments.worker", "cornn.cli", "lightning_fabric"])


def command(together, out, arguments):
    """A worker whose first trial begins once every worker has one. What it prints goes into a file."""
    torch.set_num_threads(1)
    validate, waits = training.validate, [lambda: together.wait(60)]

    def wait_and_validate(*arguments):
        while waits:
            waits.pop()()
        return validate(*arguments)

    training.validate = wait_and_validate
    with open(out, "w") as file, redirect_stdout(file), redirect_stderr(file):
        cli.run(arguments)


def hang(folder, trains):
    """A worker that never ends its first trial."""

    def follow(status, progress):
        if progress is not None:
            trains.set()
            time.sleep(600)

    run(folder, 2, follow, heartbeat=1)


def two_workers(folder: Path, storage: str, trials: int) -> None:
    """The same command twice: as many trials as are wanted, none twice, and both take some of them."""
    length = ["--steps", "100", "--evaluate-every", "50", "--trials", str(trials)]
    arguments = ["search", *SHORT, *length, "--storage", storage, "--out", str(folder), "--quiet"]
    together, outs = WORKERS.Barrier(2), [folder / "one", folder / "other"]
    workers = [WORKERS.Process(target=command, args=(together, out, arguments)) for out in outs]
    for worker in workers:
        worker.start()
    for worker, out in zip(workers, outs, strict=True):
        worker.join(180)
        assert worker.exitcode == 0, out.read_text()
        assert f"{trials} trials, 0 pruned, 0 failed" in out.read_text()
    rows = json.loads((folder / "trials.json").read_text())["trials"]
    assert [row["trial"] for row in rows] == list(range(trials))
    assert len({row["values"]["dt"] for row in rows}) == trials
    known = entries(storage, "adding-cornn-8")
    counted = [entry for entry in known if "set_aside" not in entry.user_attrs]
    assert [entry.state.name for entry in counted] == ["COMPLETE"] * trials
    assert len({entry.user_attrs["worker"] for entry in counted}) == 2


def test_two_processes_share_a_file(tmp_path):
    two_workers(tmp_path, f"sqlite:///{tmp_path}/trials.db", 4)


def test_a_trial_in_a_file_is_taken_once(tmp_path, monkeypatch):
    """A second worker asks for the trial after the first has read that it is waiting."""
    one, other = (storages.open_storage(Storage(f"sqlite:///{tmp_path}/trials.db")) for _ in range(2))
    study = optuna.create_study(storage=one)
    study.enqueue_trial({})
    check, taken, threads = one.check_trial_is_updatable, {}, []

    def take(name, storage):
        taken[name] = storage.set_trial_state_values(1, optuna.trial.TrialState.RUNNING)

    def check_slowly(*arguments):
        threads.append(threading.Thread(target=take, args=("other", other)))
        threads[0].start()
        threads[0].join(0.5)
        check(*arguments)

    monkeypatch.setattr(one, "check_trial_is_updatable", check_slowly)
    take("one", one)
    threads[0].join()
    assert taken == {"one": True, "other": False}


@pytest.mark.slow
def test_one_command_starts_several_workers(cornn, tmp_path):
    code, out, err = cornn("search", *SHORT, "--trials", 4, "--workers", 2)
    assert code == 0, err
    assert "4 trials, 0 pruned, 0 failed" in out


def test_a_trial_whose_worker_is_killed_keeps_its_number_and_values(tmp_path, monkeypatch):
    trains = WORKERS.Event()
    worker = WORKERS.Process(target=hang, args=(tmp_path, trains))
    worker.start()
    assert trains.wait(60)
    worker.kill()
    worker.join()
    monkeypatch.setattr(storages, "SILENCES", 1)
    status = run(tmp_path, 2, heartbeat=1)
    assert (status.complete, status.failed) == (2, 0)
    assert [row["values"] for row in status.rows] == [status.experiment.values(number) for number in (0, 1)]
    known = entries(tmp_path)
    assert sorted(entry.state.name for entry in known) == ["COMPLETE", "COMPLETE", "FAIL"]
    assert known[0].state.name == "FAIL"
    repeated = [entry for entry in known[1:] if entry.user_attrs["trial"] == 0]
    assert [entry.params for entry in repeated] == [known[0].params]


def test_a_trial_that_was_taken_by_nobody_is_repeated(tmp_path, monkeypatch):
    """A worker that is killed as soon as it has taken a trial leaves no heartbeat."""
    monkeypatch.setattr(storages, "SILENCES", 1)
    run(tmp_path, 1)
    opened = optuna.storages.RDBStorage(f"sqlite:///{tmp_path}/trials.db")
    study = optuna.load_study(study_name="some", storage=opened)
    study.enqueue_trial({}, user_attrs={"trial": 1, "values": {}})
    study.ask()
    opened.remove_session()
    opened.engine.dispose()
    status = run(tmp_path, 2, heartbeat=1)
    assert (status.complete, status.rows[1]["values"]) == (2, status.experiment.values(1))
    assert [entry.state.name for entry in entries(tmp_path)] == ["COMPLETE", "FAIL", "COMPLETE"]


def train_slowly(folder, trains):
    """A worker that saves at every step and stops for good at the seventh."""

    def follow(status, progress):
        if progress is not None and progress.step == 7:
            trains.set()
            time.sleep(600)

    runs(folder, follow)


def runs(folder, follow=lambda status, progress: None):
    """The status of an experiment with seeds after one worker."""
    experiment = Experiment("seeds", BASE.override(save_every=0.0), seeds=(1, 2))
    storage = Storage(f"sqlite:///{folder}/runs.db", 0.0, heartbeat=1)
    return run_experiments([experiment], storage, folder, follow=follow)[0]


def test_runs_whose_worker_is_killed_continue_from_their_checkpoints(tmp_path, monkeypatch):
    monkeypatch.setattr(storages, "SILENCES", 1)
    whole = runs(tmp_path / "whole")
    trains = WORKERS.Event()
    worker = WORKERS.Process(target=train_slowly, args=(tmp_path / "parts", trains))
    worker.start()
    assert trains.wait(60)
    worker.kill()
    worker.join()
    steps = []
    parts = runs(tmp_path / "parts", lambda status, progress: progress and steps.append(progress.step))
    assert steps == list(range(8, 21))
    assert [row["test"] for row in parts.runs] == [row["test"] for row in whole.runs]
    for seed in (1, 2):
        one, other = (Run(tmp_path / name / "seeds" / f"seed-{seed}").weights() for name in ("whole", "parts"))
        assert all(torch.equal(value, other[name]) for name, value in one.items())


def give_up(folder):
    """What other workers do with the first trial if they hear nothing from its worker, whose laptop may have slept."""
    opened = optuna.storages.RDBStorage(f"sqlite:///{folder}/trials.db")
    study = optuna.load_study(study_name="some", storage=opened)
    study.tell(0, state=optuna.trial.TrialState.FAIL)
    opened.remove_session()
    opened.engine.dispose()


@pytest.mark.parametrize("step", [5, 20])
def test_a_worker_that_was_given_up_repeats_its_trial(tmp_path, step):
    given_up = []

    def follow(status, progress):
        if progress is not None and progress.step == step and not given_up:
            given_up.append(give_up(tmp_path))

    status = run(tmp_path, 2, follow)
    assert (status.complete, status.failed) == (2, 0)
    assert [entry.state.name for entry in entries(tmp_path)] == ["FAIL", "COMPLETE", "COMPLETE"]


def test_a_worker_that_was_given_up_can_be_stopped(tmp_path):
    def follow(status, progress):
        if progress is not None:
            give_up(tmp_path)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, 2, follow)


class Away:
    """A database that leaves at each operation in turn, for a number of attempts."""

    def __init__(self, monkeypatch, attempts):
        self.left, self.failed = {}, []
        for name in OPERATIONS:
            real = getattr(optuna.storages.RDBStorage, name)
            monkeypatch.setattr(optuna.storages.RDBStorage, name, self._failing(name, real, attempts))
        # The class of patient storages is made of the operations as they are now.
        storages._patient_storage.cache_clear()

    def _failing(self, name, real, attempts):
        def operation(storage, *arguments, **options):
            if self.left.setdefault(name, attempts) > 0:
                self.left[name] -= 1
                self.failed.append(name)
                raise StorageInternalError("the server closed the connection")
            return real(storage, *arguments, **options)

        return operation


@pytest.fixture(autouse=True)
def fresh_class():
    yield
    storages._patient_storage.cache_clear()


@pytest.mark.slow
def test_a_worker_waits_for_a_database_that_goes_away(tmp_path, monkeypatch):
    undisturbed = run(tmp_path / "undisturbed", 3)
    away = Away(monkeypatch, 2)
    status = run(tmp_path / "disturbed", 3, patience=30.0)
    assert [(row["trial"], row["values"], row["validation"]) for row in status.rows] == [
        (row["trial"], row["values"], row["validation"]) for row in undisturbed.rows
    ]
    assert {"set_trial_state_values", "set_trial_user_attr", "_create_new_trial", "_get_trials"} <= set(away.failed)


def test_a_worker_does_not_wait_for_ever(tmp_path, monkeypatch):
    Away(monkeypatch, 10**9)
    began = time.monotonic()
    with pytest.raises((OSError, StorageInternalError)):
        run(tmp_path, 1, patience=0.5)
    assert 0.2 < time.monotonic() - began < 10


def test_an_answer_that_was_lost_is_not_an_error(tmp_path, monkeypatch):
    """The database ends a trial, and leaves before it says so."""
    real, lost = optuna.storages.RDBStorage.set_trial_state_values, []

    def ends(storage, trial_id, state, values=None):
        done = real(storage, trial_id, state, values)
        if state.is_finished() and trial_id not in lost:
            lost.append(trial_id)
            raise StorageInternalError("the server closed the connection")
        return done

    monkeypatch.setattr(optuna.storages.RDBStorage, "set_trial_state_values", ends)
    storages._patient_storage.cache_clear()
    assert run(tmp_path, 2, patience=10.0).complete == 2
    assert len(lost) == 2


@pytest.fixture
def postgresql():
    """The URL of a server that is there for this test alone: a socket in a folder of its own, no password."""
    pytest.importorskip("psycopg", reason="no driver for PostgreSQL here: pip install 'psycopg[binary]'")
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb"), *filter(None, [shutil.which("initdb")])]
    if not found:
        pytest.skip("no PostgreSQL server here: apt-get install postgresql")
    programs = Path(found[0]).parent
    # The server refuses to run as root. The folder is not pytest's: that is closed to other users, and its name is too
    # long for a socket.
    folder = Path(tempfile.mkdtemp(prefix="cornn-"))
    user = None
    if os.geteuid() == 0:
        user = "postgres"
        shutil.chown(folder, user)
    data = folder / "data"

    def program(name, *arguments):
        command = [programs / name, "-D", data, *arguments]
        subprocess.run(command, user=user, cwd=folder, check=True, stdout=subprocess.DEVNULL, timeout=60)

    try:
        program("initdb", "--auth=trust", "--username=cornn", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c fsync=off"
        program("pg_ctl", "-w", "-l", folder / "log", "-o", options, "start")
        url = f"postgresql+psycopg://cornn@/postgres?host={folder}"

        def restart(seconds):
            """Drop all connections at once, and come back after a while."""
            program("pg_ctl", "-m", "immediate", "stop")
            time.sleep(seconds)
            program("pg_ctl", "-w", "-l", folder / "log", "-o", options, "start")

        try:
            yield SimpleNamespace(url=url, restart=restart)
        finally:
            program("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


@pytest.mark.slow
def test_two_processes_share_a_postgresql_server(tmp_path, postgresql):
    two_workers(tmp_path, postgresql.url, 6)


@pytest.mark.slow
def test_a_postgresql_server_that_restarts_changes_nothing(tmp_path, monkeypatch, postgresql):
    pretend(monkeypatch, lambda trial: [1.0 / (trial + 1)])
    experiment, seen = make_search(BASE, 4), []

    def follow(status, progress):
        # Once, in the middle of a trial; the worker goes on while the server is away.
        if progress is not None and status.done == 2 and not seen:
            seen.append(threading.Thread(target=postgresql.restart, args=(1.0,)))
            seen[0].start()
            time.sleep(0.3)

    (status,) = run_experiments([experiment], Storage(postgresql.url, patience=30.0), tmp_path, follow=follow)
    seen[0].join()
    assert [(row["trial"], row["state"]) for row in status.rows] == [(number, "complete") for number in range(4)]
    assert [row["values"] for row in status.rows] == [experiment.values(number) for number in range(4)]
