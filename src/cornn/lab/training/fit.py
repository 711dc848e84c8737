"""Start, resume and evaluate a run."""

import atexit
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from cornn import __version__
from cornn._extras import missing_extra
from cornn._machine import machine
from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.lab.runs import Run, create, open_run
from cornn.lab.tasks import Task
from cornn.lab.training.build import build
from cornn.lab.training.config import Train, as_dictionary, check, from_dictionary, load
from cornn.lab.training.evaluate import metric
from cornn.lab.training.loop import Progress, Watch, train
from cornn.lab.training.state import prepare
from cornn.models import SequenceModel

__all__ = [
    "Diverged",
    "Introduce",
    "Validated",
    "about",
    "connect",
    "evaluate",
    "fit",
    "fit_or_resume",
    "resume",
    "silent",
    "validate",
]


Introduce = Callable[[Task, SequenceModel], None]


def silent(progress: Progress) -> None:
    """Ignore the progress."""


def fit(config: Train, out: Path, watch: Watch = silent, introduce: Introduce | None = None) -> Run:
    """Train a model and write a run folder.

    Args:
        config: The configuration.
        out: The run folder.
        watch: Called with the progress after every step.
        introduce: Called with the task and the model before training.

    Returns:
        The finished run.
    """
    check(config)
    fabric = connect(config)
    out = fabric.broadcast(out)
    trainee = prepare(config, fabric)
    if fabric.is_global_zero:
        trainee.run = create(out, about(config))
    if introduce is not None:
        introduce(trainee.task, trainee.model)
    _succeed(train([trainee], fabric, watch))
    return Run(out)


@dataclass(frozen=True)
class Validated:
    """The result of training on the validation split."""

    metric: float | None  # of the weights that would be kept; None: training failed
    steps: int
    seconds: float
    failure: str | None = None


def validate(config: Train, task: Task | None = None, watch: Watch = silent) -> Validated:
    """Train and evaluate on the validation split only. The test split is not read and nothing is written.

    Args:
        config: The configuration.
        task: The task of the configuration, if it is already loaded.
        watch: Called with the progress after every step.
    """
    check(config)
    fabric = connect(config)
    trainee = prepare(config, fabric, task)
    trainee.tested = False
    train([trainee], fabric, watch)
    reached = None if trainee.failure is not None else trainee.kept_metric
    return Validated(reached, trainee.step, trainee.seconds, trainee.failure)


def resume(path: Path, watch: Watch = silent) -> Run:
    """Resume an interrupted run from its last checkpoint. It ends as if it had not been interrupted."""
    run = open_run(path)
    if run.complete:
        raise ValueError(f"{path} is complete: there is nothing to resume")
    config = from_dictionary(run.config)
    check(config)
    fabric = connect(config)
    trainee, checkpoint = prepare(config, fabric), run.checkpoint()
    if fabric.is_global_zero:
        trainee.run = run
    _succeed(train([trainee], fabric, watch, [] if checkpoint is None else [checkpoint]))
    return run


def fit_or_resume(config: Train, out: Path, watch: Watch = silent) -> Run:
    """Return the finished run of a configuration in `out`, which is trained, resumed or already complete."""
    if not (out / "config.json").exists():
        return fit(config, out, watch)
    run = Run(out)
    return run if run.complete else resume(out, watch)


class Diverged(RuntimeError):
    """The loss or the weights are not finite."""


def _succeed(failures: dict[int, str]) -> None:
    for failure in failures.values():
        raise Diverged(failure)


def evaluate(path: Path) -> tuple[Run, Task, float]:
    """Recompute the test metric of a finished run from its weights."""
    run = open_run(path)
    config = from_dictionary(run.config)
    weights = run.weights()
    fabric = connect(config)
    task = load(config)
    model = build(config, task).to(fabric.device)
    model.load_state_dict(weights)
    random = generator(config.seed, "testing", device=fabric.device)
    own, batch_size = dict(model.named_parameters()), config.settings.batch_size
    with no_tf32():
        return run, task, metric(task, model, own, task.test().to(fabric.device), random, batch_size).item()


def about(config: Train) -> dict[str, object]:
    """Return the content of config.json."""
    return {**as_dictionary(config), "version": __version__, "machine": machine()}


def connect(config: Train) -> Any:
    """Return Lightning Fabric on the devices of a configuration, with the other processes, if any, started."""
    try:
        from lightning_fabric import Fabric
    except ImportError:
        try:
            from lightning.fabric import Fabric  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise missing_extra("lab", "training needs Lightning Fabric") from None
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("PyTorch finds no CUDA device: use --device cpu or auto")
    if config.device not in ("auto", "cpu", "cuda"):
        raise ValueError(f"unknown device {config.device!r}: choose auto, cpu or cuda")
    # torchrun says in the environment how many processes there are, here and on all machines.
    here = int(os.environ.get("LOCAL_WORLD_SIZE", config.devices))
    everywhere = int(os.environ.get("WORLD_SIZE", here))
    fabric = Fabric(
        accelerator=config.device,
        devices=here,
        num_nodes=max(1, everywhere // here),
        strategy="ddp" if everywhere > 1 else "auto",
        precision="bf16-mixed" if config.precision == "mixed" else "32-true",
    )
    fabric.launch()
    if everywhere > 1:
        atexit.register(_disconnect)
    return fabric


def _disconnect() -> None:
    """Close the connections in order: a process that ends while another still holds one may abort it."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()
