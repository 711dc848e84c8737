"""Options of the commands whose work several processes share, and how they end."""

import math
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console

from cornn._signals import exit_code
from cornn.cli.console import line, silence_libraries
from cornn.cli.progress import OutputOptions, run_with_progress
from cornn.lab.experiments.run import run_experiments
from cornn.lab.experiments.spec import Experiment
from cornn.lab.experiments.status import Status
from cornn.lab.experiments.storage import PATIENCE, Storage
from cornn.lab.training import Progress, Watch


@dataclass(frozen=True)
class WorkerOptions:
    """How several processes share the work."""

    storage: Annotated[str | None, tyro.conf.arg(help_behavior_hint="")] = None
    """Database that workers share, such as postgresql://USER@HOST/DATABASE; or memory, for one worker without
    SQLAlchemy. Default: a SQLite file in the folder of the command."""
    patience: float = PATIENCE
    """Seconds for which a worker waits for a database that is unavailable."""
    workers: int = 1
    """Number of processes on this machine that share the work."""

    def run(self, experiments: Sequence[Experiment], folder: Path, **options: Any) -> list[Status]:
        """Work on experiments as `run_experiments` does, which describes the other options."""
        storage = self.open_storage(folder)
        return run_experiments(experiments, storage, folder, workers=self.workers, prepare=silence_libraries, **options)

    def open_storage(self, folder: Path) -> Storage:
        """Return the storage; by default it is a file in `folder`."""
        return Storage(self.storage or f"sqlite:///{folder / 'trials.db'}", self.patience)


@dataclass(frozen=True)
class ExperimentCommand:
    """The options that `cornn compare`, `protocol` and `reproduce` share."""

    results: Path = Path("results")
    """Folder of the records, which are read and written."""
    device: str | None = None
    """Device: auto, cpu or cuda."""
    data: str | None = None
    """The data folder. Default: CORNN_DATA, or data/."""
    quiet: bool = False
    """Print the plan and the results only."""
    dry_run: bool = False
    """Print the plan without running it."""
    sharing: WorkerOptions = field(default_factory=WorkerOptions)

    @property
    def place(self) -> dict[str, str]:
        """The settings of the place that were given."""
        return {name: value for name, value in (("device", self.device), ("data", self.data)) if value is not None}

    def work(self, console: Console, experiments: Sequence[Experiment], folder: Path, **options: Any) -> list[Status]:
        """Work on experiments, with the progress of each training."""

        def run(watch: Watch) -> list[Status]:
            def follow(status: Status, progress: Progress | None) -> None:
                if progress is not None:
                    watch(progress)

            return self.sharing.run(experiments, folder, follow=follow, **options)

        return run_with_progress(console, OutputOptions(quiet=self.quiet), folder, run)


def print_runs(console: Console, status: Status) -> None:
    """Print the test results of the runs of an experiment."""
    for run in status.runs:
        if run["seed"] in status.experiment.seeds:
            failed = f"failed: {run.get('failed')}"
            text = failed if run["test"] is None else f"{status.task.metric} {run['test']:.4f}"
            line(console, f"  {status.experiment.name}, seed {run['seed']}: {text}")


def compute_end(seconds: float | None, option: str) -> float:
    """Return the value of `time.time()` at which a time limit ends, infinity without one.

    Args:
        seconds: The limit.
        option: Its option, for the error message.
    """
    if seconds is None:
        return math.inf
    if not 0 <= seconds < math.inf:
        raise ValueError(f"{option} must be finite and at least 0, got {seconds:g}")
    return time.time() + seconds


@contextmanager
def stoppable(remedy: str = "Run the same command to continue") -> Iterator[None]:
    """End the command with one line when a signal stops the body."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print(f"cornn: stopped. {remedy}", file=sys.stderr)
        sys.exit(exit_code(stop))
