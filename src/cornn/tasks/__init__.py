"""The benchmarks, one file each."""

from cornn.tasks.adding import Adding
from cornn.tasks.task import Batch, Task

__all__ = ["TASKS", "Adding", "Batch", "Task"]

TASKS = {"adding": Adding}
"""Name -> options. `TASKS["adding"](length=500).load(seed)` is a `Task`."""
