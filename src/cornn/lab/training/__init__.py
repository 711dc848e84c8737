"""Training: in one process or many, one model or several side by side, resumable at any time."""

from cornn.lab.training.build import build, load
from cornn.lab.training.distributed import connect
from cornn.lab.training.fit import Diverged, ValidationResult, evaluate, fit, resume, validate
from cornn.lab.training.loop import Progress, Watch
from cornn.lab.training.multi_seed import fit_seeds, holds_seeds, read_seeds, resume_seeds, train_seeds
from cornn.lab.training.schedule import plan
from cornn.lab.training.stopping import Stopped

__all__ = [
    "Diverged",
    "Progress",
    "Stopped",
    "ValidationResult",
    "Watch",
    "build",
    "connect",
    "evaluate",
    "fit",
    "fit_seeds",
    "holds_seeds",
    "load",
    "plan",
    "read_seeds",
    "resume",
    "resume_seeds",
    "train_seeds",
    "validate",
]
