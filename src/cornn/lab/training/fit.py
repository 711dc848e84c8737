"""Start, resume and evaluate a run."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from cornn import __version__
from cornn._machine import machine
from cornn._tf32 import no_tf32
from cornn.lab.config import Train, as_dictionary, read_run_config
from cornn.lab.runs import Run, create, open_run
from cornn.lab.tasks import Task
from cornn.lab.training.build import build, load
from cornn.lab.training.distributed import connect
from cornn.lab.training.evaluate import measure_test
from cornn.lab.training.loop import Progress, Watch, train
from cornn.lab.training.state import prepare
from cornn.models import SequenceModel

Introduce = Callable[[Task, SequenceModel], None]


def silent(progress: Progress) -> None:
    """Ignore the progress."""


def fit(config: Train, out: Path, watch: Watch = silent, introduce: Introduce | None = None) -> Run:
    """Train a model and write a run folder. `introduce` is called with the task and the model before training."""
    fabric = connect(config)
    out = fabric.broadcast(out)
    state = prepare(config, fabric)
    if fabric.is_global_zero:
        state.run = create(out, describe_run(config))
    if introduce is not None:
        introduce(state.task, state.model)
    _raise_failure(train([state], fabric, watch), out)
    return Run(out)


@dataclass(frozen=True)
class ValidationResult:
    """The result of training on the validation split."""

    metric: float | None  # of the weights that would be kept; None: training failed
    steps: int
    seconds: float
    failure: str | None = None


def validate(config: Train, task: Task | None = None, watch: Watch = silent) -> ValidationResult:
    """Train and evaluate on the validation split only. The test split is not read and nothing is written.

    The task of the configuration is loaded unless it is given.
    """
    fabric = connect(config)
    state = prepare(config, fabric, task)
    state.tested = False
    train([state], fabric, watch)
    metric = None if state.failure is not None else state.kept_metric
    return ValidationResult(metric, state.step, state.seconds, state.failure)


def resume(path: Path, watch: Watch = silent, device: str | None = None) -> Run:
    """Resume an interrupted run from its last checkpoint, on `device` in place of that of the configuration.

    It ends as if it had not been interrupted.
    """
    run = open_run(path)
    if run.complete:
        raise ValueError(f"{path} is complete: there is nothing to resume")
    config = read_run_config(run).override(**({} if device is None else {"device": device}))
    fabric = connect(config)
    state, checkpoint = prepare(config, fabric), run.checkpoint()
    if fabric.is_global_zero:
        state.run = run
    _raise_failure(train([state], fabric, watch, [] if checkpoint is None else [checkpoint]), path)
    return run


class Diverged(RuntimeError):
    """The loss or the weights are not finite."""

    def __init__(self, reason: str, path: Path) -> None:
        super().__init__(
            f"{reason}: try a smaller learning_rate or dt (the last good checkpoint, if there was one, is in {path})"
        )
        self.reason = reason


def _raise_failure(failures: dict[int, str], path: Path) -> None:
    for reason in failures.values():
        raise Diverged(reason, path)


def evaluate(path: Path) -> tuple[Run, Task, float]:
    """Recompute the test metric of a finished run from its weights."""
    run = open_run(path)
    config = read_run_config(run)
    fabric = connect(config)
    task = load(config)
    model = build(config, task).to(fabric.device)
    run.load_weights(model)
    with no_tf32():
        return run, task, measure_test(config, task, model, dict(model.named_parameters()), fabric.device)


def describe_run(config: Train) -> dict[str, object]:
    """Return the content of config.json."""
    return {**as_dictionary(config), "version": __version__, "machine": machine()}
