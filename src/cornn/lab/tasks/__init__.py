"""The benchmarks, one file each."""

from cornn.lab.tasks.adding import Adding
from cornn.lab.tasks.har2 import HAR2
from cornn.lab.tasks.imdb import IMDB
from cornn.lab.tasks.lorenz96 import Lorenz96
from cornn.lab.tasks.mnist import PermutedMNIST, SequentialMNIST
from cornn.lab.tasks.noisy_cifar10 import NoisyCIFAR10
from cornn.lab.tasks.task import Batch, Task, TaskOptions

__all__ = [
    "HAR2",
    "IMDB",
    "TASKS",
    "Adding",
    "Batch",
    "Lorenz96",
    "NoisyCIFAR10",
    "PermutedMNIST",
    "SequentialMNIST",
    "Task",
    "TaskOptions",
]

TASKS: dict[str, type[TaskOptions]] = {
    "adding": Adding,
    "smnist": SequentialMNIST,
    "psmnist": PermutedMNIST,
    "noisy-cifar10": NoisyCIFAR10,
    "har2": HAR2,
    "imdb": IMDB,
    "lorenz96": Lorenz96,
}
"""Name -> options. `TASKS["adding"](length=500).load(seed, data)` returns a `Task`. The default of `data` is the
folder in CORNN_DATA, or else ./data."""
