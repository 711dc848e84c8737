"""Training, top to bottom: configuration, model, loop, evaluation."""

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from cornn import __version__, theory
from cornn.layers import CoRNN
from cornn.models import SequenceModel, count_parameters
from cornn.paper import RECIPES, Recipe
from cornn.runs import Run, create, machine, open_run
from cornn.seeds import generator
from cornn.tasks import TASKS, Adding, Batch, Task

__all__ = ["Progress", "Train", "build", "config_of", "evaluate", "fit", "resolve", "resume"]


@dataclass(frozen=True)
class Train:
    """A training run. What is None is as the recipe says."""

    task: Adding
    recipe: Literal["ours", "paper"] = "ours"
    """Whose settings to start from: ours, or the paper's."""
    hidden_size: int | None = None
    """Neurons."""
    batch_size: int | None = None
    """Sequences a step."""
    steps: int | None = None
    """Training steps, at the most."""
    until: float = 0.008
    """Stop once the metric is below this; 0 trains for all steps."""
    evaluate_every: int = 100
    """Steps between evaluations."""
    learning_rate: float | None = None
    """Of Adam."""
    schedule: Literal["constant", "cosine"] | None = None
    """Whether the learning rate stays, or falls to 0 over all steps along a cosine."""
    recurrent_rate: float | None = None
    """The learning rate of the coupling W and W_z, as a share of that of the other weights."""
    beta2: float | None = None
    """Adam's second moment."""
    clip: float | None = None
    """Largest norm of the gradient; 0 does not clip."""
    dt: float | None = None
    """Time step, between 0 and 1."""
    epsilon: float | None = None
    """Damping."""
    gamma: float | None = None
    """Stiffness, the same for all neurons; in place of --half-lives."""
    half_lives: tuple[float, float] | None = None
    """Shortest and longest memory of a neuron, as shares of the sequence; in place of --gamma."""
    damping: Literal["explicit", "implicit"] = "explicit"
    """Whether the damping acts on the old velocity or on the new one."""
    trainable: tuple[Literal["dt", "gamma", "epsilon"], ...] = ()
    """Constants that are trained, neuron by neuron."""
    init: Literal["paper", "separate", "separate-pair", "memory"] | None = None
    """How the weights start."""
    centre: bool | None = None
    """Start the biases such that the average input drives no neuron."""
    backend: str = "auto"
    """What runs the recurrence."""
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


def resolve(config: Train) -> Train:
    """The configuration with the recipe's values filled in, and checked."""
    recipe = RECIPES[_task_name(config)][config.recipe]
    names = {field.name for field in fields(Recipe)} & {field.name for field in fields(Train)}
    if config.gamma is not None and config.half_lives is not None:
        raise ValueError("gamma and half_lives both set the stiffness: give one of them")
    if config.gamma is not None or config.half_lives is not None:
        names -= {"gamma", "half_lives"}
    config = replace(config, **{name: getattr(recipe, name) for name in names if getattr(config, name) is None})
    for name in ("hidden_size", "batch_size", "steps", "evaluate_every", "learning_rate"):
        if not getattr(config, name) > 0:
            raise ValueError(f"{name} must be above 0, got {getattr(config, name)}")
    return config


def build(config: Train, task: Task) -> SequenceModel:
    """The model of a resolved configuration, with its first weights."""
    if config.half_lives is None:
        gamma = config.gamma
    else:
        least = theory.shortest_half_life(config.dt, config.epsilon, damping=config.damping)
        shortest, longest = (max(share * task.length, least) for share in config.half_lives)
        steps = theory.log_spaced(shortest, longest, config.hidden_size)
        gamma = theory.stiffness(steps, config.dt, config.epsilon, damping=config.damping)
    layer = CoRNN(
        task.inputs,
        config.hidden_size,
        dt=config.dt,
        gamma=gamma,
        epsilon=config.epsilon,
        damping=config.damping,
        trainable=config.trainable,
        per_neuron=bool(config.trainable),
        init=config.init,
        backend=config.backend,
    )
    model = SequenceModel(layer, task.outputs)
    model.reset_parameters(generator(config.seed, "weights"))
    if config.centre:
        layer.centre_(torch.tensor(task.input_mean))
    return model


def fit(config: Train, out: Path, watch: Watch = lambda progress: None) -> Run:
    """Train, and leave a run folder at `out`."""
    config = resolve(config)
    task = config.task.load(config.seed)
    model = build(config, task)
    fabric = _fabric(config)
    run = create(out, {"task_name": _task_name(config), **asdict(config), "version": __version__, "machine": machine()})
    return _train(config, task, model, fabric, run, None, watch)


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
    content = run.config
    options = TASKS[content["task_name"]](**content["task"])
    names = {field.name for field in fields(Train)} - {"task"}
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in content.items() if name in names
    }
    return Train(task=options, **values)


def _train(config, task: Task, model, fabric, run: Run, checkpoint: dict | None, watch: Watch) -> Run:
    parameters = count_parameters(model)
    optimizer = _optimizer(config, model)
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
    for step in range(first, config.steps + 1):
        batch = task.draw(config.batch_size, random)
        loss = task.loss(model(batch.input), batch.target)
        fabric.backward(loss)
        if config.clip:
            fabric.clip_gradients(model, optimizer, max_norm=config.clip, error_if_nonfinite=False)
        share = 0.5 + 0.5 * math.cos(math.pi * step / config.steps) if config.schedule == "cosine" else 1.0
        for group in optimizer.param_groups:
            group["lr"] = group["base"] * share
        optimizer.step()
        optimizer.zero_grad()

        due = step % config.evaluate_every == 0 or step == config.steps
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
            Progress(step, config.steps, config.batch_size, loss.item() if due or step % 10 == 0 else None, metric, due)
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
            "sequences_per_second": round((step - first + 1) * config.batch_size / (seconds - spent), 1),
            "parameters": parameters,
            "device": str(fabric.device),
            "machine": machine(),
            "version": __version__,
        }
    )
    return run


def _optimizer(config: Train, model: SequenceModel) -> torch.optim.Adam:
    coupling = [value for name, value in model.named_parameters() if name.endswith("weight_hh")]
    others = [value for name, value in model.named_parameters() if not name.endswith("weight_hh")]
    groups = [
        {"params": others, "base": config.learning_rate},
        {"params": coupling, "base": config.learning_rate * config.recurrent_rate},
    ]
    return torch.optim.Adam(groups, lr=config.learning_rate, betas=(0.9, config.beta2))


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


def _task_name(config: Train) -> str:
    return next(name for name, options in TASKS.items() if isinstance(config.task, options))
