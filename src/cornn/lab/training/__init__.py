"""Training: in one process or many, one model or several side by side, resumable at any time."""

from cornn.lab.training.build import build
from cornn.lab.training.config import (
    Train,
    as_dictionary,
    check,
    from_dictionary,
    from_recipe,
    load,
    task_name,
    usual,
)
from cornn.lab.training.distributed import connect
from cornn.lab.training.fit import Diverged, Validated, evaluate, fit, fit_or_resume, resume, validate
from cornn.lab.training.loop import Progress, Watch
from cornn.lab.training.multi_seed import fit_seeds, holds_seeds, read_seeds, resume_seeds, train_seeds
from cornn.lab.training.schedule import Plan, plan
from cornn.lab.training.stopping import Stopped

__all__ = [
    "Diverged",
    "Plan",
    "Progress",
    "Stopped",
    "Train",
    "Validated",
    "Watch",
    "as_dictionary",
    "build",
    "check",
    "connect",
    "evaluate",
    "fit",
    "fit_or_resume",
    "fit_seeds",
    "from_dictionary",
    "from_recipe",
    "holds_seeds",
    "load",
    "plan",
    "read_seeds",
    "resume",
    "resume_seeds",
    "task_name",
    "train_seeds",
    "usual",
    "validate",
]
