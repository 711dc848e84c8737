"""Training, top to bottom: configuration, model, loop, evaluation."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from cornn import __version__, theory
from cornn.layers import CoRNN
from cornn.models import SequenceModel, count_parameters
from cornn.paper import RECIPES, Recipe
from cornn.runs import Run, create, machine, open_run
from cornn.seeds import generator
from cornn.tasks import TASKS, Adding, Batch, Task

__all__ = ["Progress", "Train", "build", "config_of", "evaluate", "fit", "resume", "task_name", "usual"]


@dataclass(frozen=True)
class Train:
    """A training run. `usual` makes one from a task and the name of a recipe."""

    task: Adding
    settings: Recipe
    recipe: Literal["ours", "paper"] = "ours"
    """Whose settings the others start from."""
    until: float = 0.008
    """Stop once the metric is below this; 0 trains for all steps."""
    evaluate_every: int = 100
    """Steps between evaluations."""
    backend: str = "auto"
    """What runs the recurrence; `cornn doctor` lists what there is."""
    seed: int = 0
    """Same seed, same device, same version: same result."""
    device: str = "auto"
    """auto, cpu or cuda."""


@dataclass(frozen=True)
class Progress:
    """What `fit` tells while it runs, once a step."""

    step: int
    steps: int
    batch_size: int
    loss: float | None  # read from the device only now and then, to keep it busy
    metric: float | None  # of the latest evaluation
    evaluated: bool  # whether that evaluation was just now


Watch = Callable[[Progress], None]


def usual(task: Adding, recipe: Literal["ours", "paper"] = "ours", **changes: Any) -> Train:
    """A run with the settings of a recipe, and `changes` to any of them."""
    base = RECIPES[task_name(task)][recipe]
    if "gamma" in changes or "half_lives" in changes:
        base = replace(base, gamma=None, half_lives=None)
    settings = {field.name for field in fields(Recipe)}
    return Train(
        task,
        replace(base, **{name: value for name, value in changes.items() if name in settings}),
        recipe,
        **{name: value for name, value in changes.items() if name not in settings},
    )


def task_name(task: Adding) -> str:
    return next(name for name, options in TASKS.items() if isinstance(task, options))


def _check(config: Train) -> None:
    recipe = config.settings
    if (recipe.gamma is None) == (recipe.half_lives is None):
        raise ValueError("gamma and half_lives both set the stiffness: give one of them, not both and not none")
    positive = {"evaluate_every": config.evaluate_every}
    positive |= {name: getattr(recipe, name) for name in ("hidden_size", "batch_size", "steps", "learning_rate")}
    for name, value in positive.items():
        if not value > 0:
            raise ValueError(f"{name} must be above 0, got {value}")


def build(config: Train, task: Task) -> SequenceModel:
    """The model of a configuration, with its first weights."""
    recipe = config.settings
    if recipe.half_lives is None:
        gamma = recipe.gamma
    else:
        least = theory.shortest_half_life(recipe.dt, recipe.epsilon, damping=recipe.damping)
        shortest, longest = (max(share * task.length, least) for share in recipe.half_lives)
        steps = theory.log_spaced(shortest, longest, recipe.hidden_size)
        gamma = theory.stiffness(steps, recipe.dt, recipe.epsilon, damping=recipe.damping)
    layer = CoRNN(
        task.inputs,
        recipe.hidden_size,
        dt=recipe.dt,
        gamma=gamma,
        epsilon=recipe.epsilon,
        damping=recipe.damping,
        trainable=recipe.trainable,
        per_neuron=bool(recipe.trainable),
        init=recipe.init,
        backend=config.backend,
    )
    model = SequenceModel(layer, task.outputs)
    model.reset_parameters(generator(config.seed, "weights"))
    if recipe.centre:
        layer.centre_(torch.tensor(task.input_mean))
    return model


def fit(config: Train, out: Path, watch: Watch = lambda progress: None) -> Run:
    """Train, and leave a run folder at `out`."""
    _check(config)
    task = config.task.load(config.seed)
    model = build(config, task)
    fabric = _fabric(config)
    about = {"task_name": task_name(config.task), **asdict(config), "version": __version__, "machine": machine()}
    return _train(config, task, model, fabric, create(out, about), None, watch)


def resume(path: Path, watch: Watch = lambda progress: None) -> Run:
    """Go on with a run that was stopped, from its last checkpoint; it ends as if it had not been."""
    run = open_run(path)
    if run.result is not None:
        raise ValueError(f"{path} is complete: there is nothing to resume")
    checkpoint = run.checkpoint()
    config = config_of(run)
    task = config.task.load(config.seed)
    return _train(config, task, build(config, task), _fabric(config), run, checkpoint, watch)


def evaluate(path: Path) -> tuple[Run, Task, float]:
    """The metric of a finished run on its test part, computed anew from its weights."""
    run = open_run(path)
    config = config_of(run)
    task = config.task.load(config.seed)
    model = build(config, task)
    model.load_state_dict(run.weights())
    fabric = _fabric(config)
    return run, task, _metric(task, fabric.setup_module(model), task.test())


def config_of(run: Run) -> Train:
    """The configuration that a run folder holds."""

    def tuples(content: dict) -> dict:
        return {name: tuple(value) if isinstance(value, list) else value for name, value in content.items()}

    content = run.config
    own = {name: content[name] for name in ("recipe", "until", "evaluate_every", "backend", "seed", "device")}
    options = TASKS[content["task_name"]](**tuples(content["task"]))
    return Train(options, Recipe(**tuples(content["settings"])), **own)


def _train(config: Train, task: Task, model, fabric, run: Run, checkpoint: dict | None, watch: Watch) -> Run:
    recipe = config.settings
    parameters = count_parameters(model)
    optimizer = _optimizer(recipe, model)
    model, optimizer = fabric.setup(model, optimizer)
    random = generator(config.seed, "training", device=fabric.device)
    first, spent, metric = 1, 0.0, None
    if checkpoint is not None:
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
        random.set_state(checkpoint["random"])
        first, spent, metric = checkpoint["step"] + 1, checkpoint["seconds"], checkpoint["metric"]
    run.forget_after(first - 1)

    began = time.perf_counter()
    for step in range(first, recipe.steps + 1):
        batch = task.draw(recipe.batch_size, random)
        loss = task.loss(model(batch.input), batch.target)
        fabric.backward(loss)
        if recipe.clip:
            fabric.clip_gradients(model, optimizer, max_norm=recipe.clip, error_if_nonfinite=False)
        share = 0.5 + 0.5 * math.cos(math.pi * step / recipe.steps) if recipe.schedule == "cosine" else 1.0
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * share
        optimizer.step()
        optimizer.zero_grad()

        due = step % config.evaluate_every == 0 or step == recipe.steps
        if due:
            _refuse_nan(loss, step, run)
            fresh = task.draw(task.evaluation_size, generator(config.seed, "watching", step, device=fabric.device))
            metric = _metric(task, model, fresh)
            seconds = spent + time.perf_counter() - began
            run.log({"step": step, "loss": loss.item(), "metric": metric, "seconds": round(seconds, 3)})
            run.save_checkpoint(
                {
                    "step": step,
                    "seconds": seconds,
                    "metric": metric,
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "random": random.get_state(),
                }
            )
        watch(
            Progress(step, recipe.steps, recipe.batch_size, loss.item() if due or step % 10 == 0 else None, metric, due)
        )
        if due and config.until and metric < config.until:
            break

    seconds = spent + time.perf_counter() - began
    run.save_weights(model.state_dict())
    run.save_result(
        {
            "metric": task.metric,
            "test": _metric(task, model, task.test()),
            "trivial": task.trivial,
            "solved": task.solved,
            "steps": step,
            "seconds": round(seconds, 3),
            "sequences_per_second": round((step - first + 1) * recipe.batch_size / (seconds - spent), 1),
            "parameters": parameters,
            "device": str(fabric.device),
            "machine": machine(),
            "version": __version__,
        }
    )
    return run


def _optimizer(recipe: Recipe, model: SequenceModel) -> torch.optim.Adam:
    coupling = [value for name, value in model.named_parameters() if name.endswith("weight_hh")]
    others = [value for name, value in model.named_parameters() if not name.endswith("weight_hh")]
    groups = [
        {"params": others, "base": recipe.learning_rate},
        {"params": coupling, "base": recipe.learning_rate * recipe.recurrent_rate},
    ]
    return torch.optim.Adam(groups, lr=recipe.learning_rate, betas=(0.9, recipe.beta2))


@torch.no_grad()
def _metric(task: Task, model, batch: Batch) -> float:
    device = next(model.parameters()).device
    return task.loss(model(batch.input.to(device)), batch.target.to(device)).item()


def _refuse_nan(loss: Tensor, step: int, run: Run) -> None:
    if not torch.isfinite(loss):
        raise RuntimeError(
            f"the loss is {loss.item()} at step {step}: try a smaller learning_rate or dt "
            f"(the last good checkpoint is in {run.path})"
        )


def _fabric(config: Train):
    try:
        from lightning_fabric import Fabric
    except ImportError:
        raise ImportError('training needs Lightning Fabric: pip install "cornn[lab]"') from None
    if config.device == "cuda" and not torch.cuda.is_available():
        raise ValueError("no CUDA device here: use --device cpu, or auto")
    return Fabric(accelerator=config.device, devices=1)
