"""Training: one process or many, one model or many side by side, that can be stopped at any moment and goes on."""

from cornn.training.build import MODELS, build
from cornn.training.config import Train, as_dictionary, check, from_dictionary, load, task_name, usual
from cornn.training.fit import Diverged, Validated, connect, evaluate, fit, fit_or_resume, resume, validate
from cornn.training.loop import Progress, Watch
from cornn.training.schedule import Plan, plan
from cornn.training.seeds import fit_seeds, holds_seeds, resume_seeds
from cornn.training.stopping import Stopped

__all__ = [
    "MODELS",
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
    "holds_seeds",
    "load",
    "plan",
    "resume",
    "resume_seeds",
    "task_name",
    "usual",
    "validate",
]
