"""Work on experiments with one process or several on this machine."""

import importlib.util
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from cornn._arguments import ArgumentError, Setting
from cornn._extras import missing_extra
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status
from cornn.lab.experiments.storage import IN_MEMORY, Storage, hide_password

SECONDS_TO_LEAVE = 20
"""Seconds that a worker has to save its run after a request to stop."""


def check_storage(storage: Storage) -> None:
    """Reject a storage that cannot be used, before touching the disk."""
    if importlib.util.find_spec("optuna") is None:
        raise missing_extra("lab", "experiments need optuna")
    hide_password(storage.url)


def run_experiments(
    experiments: Sequence[Experiment],
    storage: Storage,
    folder: Path,
    *,
    workers: int = 1,
    prepare: Callable[[], None] | None = None,
    **options: Any,
) -> list[Status]:
    """Work on experiments until all are done, here and by all other workers, and return their status.

    Args:
        experiments: The experiments in order of priority.
        storage: Where workers share them.
        folder: Where run folders are kept while runs are trained.
        workers: Number of processes on this machine.
        prepare: Called first in each additional process.
        options: Of `Worker`: `follow` (in this process only), `finish`, `ends`, `expected`.
    """
    check_storage(storage)
    if workers < 1:
        raise ArgumentError(Setting("workers"), f" must be above 0, got {workers}")
    if workers > 1 and storage.url == IN_MEMORY:
        raise ArgumentError("the storage memory belongs to one process: use ", Setting("workers", 1), ", or another")
    # Optuna is an extra: only here is it known to be installed.
    from cornn.lab.experiments.worker import Worker

    worker = Worker(experiments, storage, folder, **options)
    worker_options = {name: value for name, value in options.items() if name != "follow"}
    arguments = (tuple(experiments), storage, folder, workers, prepare, worker_options)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work, args=arguments) for _ in range(workers - 1)]
    try:
        for other in processes:
            other.start()
        statuses = worker.run()
        for other in processes:
            other.join()
        return read_status(experiments, storage) if processes else statuses
    finally:
        for other in processes:
            if other.is_alive():
                other.terminate()
        for other in processes:
            if other.pid is not None:
                other.join(SECONDS_TO_LEAVE)
                if other.is_alive():
                    other.kill()


def _work(
    experiments: Sequence[Experiment],
    storage: Storage,
    folder: Path,
    workers: int,
    prepare: Callable[[], None] | None,
    options: dict[str, Any],
) -> None:
    """Run a worker in an additional process."""
    from cornn.lab.experiments.worker import Worker

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if prepare is not None:
        prepare()
    torch.set_num_threads(max(1, min(torch.get_num_threads(), (os.cpu_count() or 1) // workers)))
    # If it is stopped, its run is saved and its trial will be repeated.
    with suppress(KeyboardInterrupt):
        Worker(experiments, storage, folder, **options).run()


def read_status(experiments: Sequence[Experiment], storage: Storage) -> list[Status]:
    """Return the status of experiments without working on them."""
    check_storage(storage)
    from cornn.lab.experiments.worker import read_status

    return read_status(experiments, storage)
