"""A search that several processes share, by a file or by a PostgreSQL server, and one that is killed."""

import json
import multiprocessing
import os
import shutil
import subprocess
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import torch
from test_search import BASE, SHORT, known, planned

from cornn import cli
from cornn.lab.experiments import search
from cornn.lab.experiments.search import study as studies

# Python's fork server has imported everything already, so that a worker is there at once.
WORKERS = multiprocessing.get_context("forkserver")
WORKERS.set_forkserver_preload(["cornn.lab.experiments.search.work", "cornn.cli", "lightning_fabric"])


def command(together, out, arguments):
    """A worker that starts with the others and says all into a file."""
    torch.set_num_threads(1)
    with open(out, "w") as file, redirect_stdout(file), redirect_stderr(file):
        together.wait(60)
        cli.run(arguments)


def hang(folder, trains):
    """A worker that never ends its first trial."""

    def follow(standing, progress):
        if progress is not None:
            trains.set()
            time.sleep(600)

    search.run(planned(folder, trials=2, heartbeat=1), follow)


def two_workers(folder: Path, storage: str, trials: int) -> None:
    """The same command twice: as many trials as are wanted, none twice, and both have a part in them."""
    length = ["--steps", "400", "--evaluate-every", "200", "--trials", str(trials)]
    arguments = ["search", *SHORT, *length, "--storage", storage, "--out", str(folder), "--quiet"]
    together, outs = WORKERS.Barrier(2), [folder / "one", folder / "other"]
    workers = [WORKERS.Process(target=command, args=(together, out, arguments)) for out in outs]
    for worker in workers:
        worker.start()
    for worker, out in zip(workers, outs, strict=True):
        worker.join(60)
        assert worker.exitcode == 0, out.read_text()
        assert f"{trials} trials, 0 pruned, 0 failed" in out.read_text()
    rows = json.loads((folder / "trials.json").read_text())["trials"]
    assert len(rows) == trials
    assert len({row["values"]["dt"] for row in rows}) == trials
    base = BASE.override(steps=400, evaluate_every=200)
    plan = planned(folder, base=base, study="adding-cornn-8", storage=storage)
    counted = [trial for trial in known(plan) if studies.counts(trial)]
    assert [trial.state.name for trial in counted] == ["COMPLETE"] * trials
    assert len({trial.user_attrs["worker"] for trial in counted}) == 2


def test_two_processes_share_a_file(tmp_path):
    two_workers(tmp_path, f"sqlite:///{tmp_path}/trials.db", 6)


def test_a_trial_whose_worker_is_killed_is_failed_and_tried_again(tmp_path, monkeypatch):
    trains = WORKERS.Event()
    worker = WORKERS.Process(target=hang, args=(tmp_path, trains))
    worker.start()
    assert trains.wait(60)
    worker.kill()
    worker.join()
    monkeypatch.setattr(studies, "SILENCES", 2)
    plan = planned(tmp_path, trials=2, heartbeat=1)
    standing = search.run(plan)
    assert (standing.complete, standing.failed) == (2, 0)
    trials = known(plan)
    assert sorted(trial.state.name for trial in trials) == ["COMPLETE", "COMPLETE", "FAIL"]
    assert trials[0].state.name == "FAIL"
    assert trials[-1].params == trials[0].params
    assert trials[-1].user_attrs["instead_of"] == 0


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
        try:
            yield f"postgresql+psycopg://cornn@/postgres?host={folder}"
        finally:
            program("pg_ctl", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(folder)


def test_two_processes_share_a_postgresql_server(tmp_path, postgresql):
    two_workers(tmp_path, postgresql, 6)
