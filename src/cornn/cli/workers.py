"""Options of the commands whose work several processes share, and how they end."""

import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._signals import exit_code
from cornn.lab.experiments.storage import PATIENCE, Storage

__all__ = ["WorkerOptions", "compute_end", "stoppable"]


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

    def open_storage(self, folder: Path) -> Storage:
        """Return the storage; by default it is a file in `folder`."""
        return Storage(self.storage or f"sqlite:///{folder / 'trials.db'}", self.patience)


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
