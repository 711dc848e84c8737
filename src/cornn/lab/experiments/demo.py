"""The demo: coRNN, an LSTM and a GRU learn the adding problem with the same number of neurons and steps.

The recipe is `ours` of adding for all three; the rivals leave out what only coRNN has. Each model has the learning rate
that was best on other seeds (`benchmarks/demo_rates.py`, recorded in results/demo-rates.json).
"""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Event
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from cornn._fit_loop import fit_loop
from cornn._random import generator
from cornn.baselines import MODELS
from cornn.lab.config import Train
from cornn.lab.recipes import resolve
from cornn.lab.tasks import Batch
from cornn.lab.tasks.adding import draw
from cornn.lab.training import build, load
from cornn.lab.training.schedule import shares_of_rate
from cornn.models import count_parameters

LENGTH = 500
HIDDEN_SIZE = 48
BATCH_SIZE = 64
STEPS = 400
EVALUATE_EVERY = 10
VALIDATION_SEQUENCES = 256
PATIENCE = 10  # evaluations in a row below the goal after which a model of the demo stops
GOAL = 0.01  # mean squared error; always answering 1 has 1/6

RATES = {"cornn": 0.05, "lstm": 0.05, "gru": 0.03}
"""Model -> learning rate: the `chosen` ones of results/demo-rates.json."""


class Evaluation(NamedTuple):
    """A point of a learning curve."""

    step: int
    seconds: float
    """Processor time of this model's training steps so far."""
    error: float
    """Mean squared error on the validation sequences."""


@dataclass(frozen=True)
class Curve:
    """How one model learned."""

    model: str
    title: str
    parameters: int
    learning_rate: float
    evaluations: tuple[Evaluation, ...]

    @property
    def last(self) -> Evaluation:
        """The last evaluation."""
        return self.evaluations[-1]

    @property
    def solved(self) -> Evaluation | None:
        """The first evaluation below the goal from which the curve stays below it."""
        first = None
        for evaluation in reversed(self.evaluations):
            if not evaluation.error < GOAL:
                break
            first = evaluation
        return first


Report = Callable[[str, Evaluation], None]


def configure(
    model: str, *, length: int = LENGTH, steps: int = STEPS, rate: float | None = None, seed: int = 0
) -> Train:
    """Return the configuration of one model in the demo."""
    return resolve(
        "adding",
        "ours",
        length=length,
        model=model,
        hidden_size=HIDDEN_SIZE,
        batch_size=BATCH_SIZE,
        steps=steps,
        learning_rate=RATES[model] if rate is None else rate,
        seed=seed,
    )


def train(
    config: Train,
    report: Report | None = None,
    stop: Event | None = None,
    *,
    device: torch.device | str = "cpu",
    patience: int | None = None,
) -> Curve:
    """Train one model from scratch, with a configuration from `configure`, and return its learning curve.

    Training ends early once `stop` is set, or after `patience` evaluations in a row below the goal. The validation
    sequences and the initial weights are the same on every device.
    """
    optimising, seed = config.optimiser, config.seed
    steps = config.budget.steps or STEPS
    task = load(config)
    length = task.length
    model = build(config, task).to(device)
    shares = shares_of_rate(optimising, model, length)
    optimiser = torch.optim.Adam(
        [
            {"params": [parameter], "lr": optimising.learning_rate * shares[name]}
            for name, parameter in model.named_parameters()
        ],
        betas=(optimising.beta1, optimising.beta2),
    )

    def clip(*_: Any) -> None:
        nn.utils.clip_grad_norm_(model.parameters(), optimising.clip)

    optimiser.register_step_pre_hook(clip)
    rates = [group["lr"] for group in optimiser.param_groups]
    sequences = generator(seed, "demo", "training", device=device)
    validation = draw(VALIDATION_SEQUENCES, length, generator(seed, "demo", "validation"))
    validation_input, validation_target = validation.input.to(device), validation.target.to(device)

    evaluations, seconds, started = [], 0.0, 0.0

    def batches() -> Iterator[Batch]:
        nonlocal started
        for _ in range(steps):
            # Other threads train at the same time: count the processor time of this one.
            started = time.thread_time()
            yield draw(config.budget.batch_size, length, sequences)

    def evaluate(step: int, loss: Tensor) -> bool:
        """Evaluate the model when it is due, and return whether training ends."""
        nonlocal seconds
        seconds += time.thread_time() - started
        if step % EVALUATE_EVERY == 0 or step == steps:
            with torch.no_grad():
                error = task.loss(model(validation_input), validation_target).item()
            evaluations.append(Evaluation(step, seconds, error))
            if report is not None:
                report(config.model.name, evaluations[-1])
            below = [evaluation.error < GOAL for evaluation in evaluations[-patience:]] if patience else []
            if below and len(below) == patience and all(below):
                return True
        return stop is not None and stop.is_set()

    fit_loop(
        model,
        batches(),
        lambda model, batch: task.loss(model(batch.input), batch.target),
        optimiser,
        lambda step: [rate * (0.5 + 0.5 * math.cos(math.pi * (step - 1) / steps)) for rate in rates],
        [evaluate],
    )
    title = MODELS[config.model.name].title
    return Curve(config.model.name, title, count_parameters(model), optimising.learning_rate, tuple(evaluations))


def race(
    *,
    length: int = LENGTH,
    steps: int = STEPS,
    seed: int = 0,
    models: Sequence[str] = tuple(RATES),
    report: Report | None = None,
) -> list[Curve]:
    """Train the models at the same time, each on one thread and on the same sequences of `length` steps.

    The same seed gives the same curves. A model that stays below the goal for `PATIENCE` evaluations ends earlier.
    `report` is called from each model's own thread.
    """
    configs = [configure(model, length=length, steps=steps, seed=seed) for model in models]
    load(configs[0])  # an invalid length is an error here, before any thread starts
    stop = Event()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with ThreadPoolExecutor(len(configs)) as pool:
            try:
                running = [pool.submit(train, config, report, stop, patience=PATIENCE) for config in configs]
                return [racer.result() for racer in running]
            finally:
                stop.set()
    finally:
        torch.set_num_threads(threads)


def summarise(curves: Sequence[Curve]) -> list[str]:
    """Return one sentence per model: whether it solved the task, after how many steps and seconds."""
    return [_sentence(curve) for curve in curves]


def _sentence(curve: Curve) -> str:
    title, last, solved = curve.title, curve.last, curve.solved
    if not math.isfinite(last.error):
        return f"{title} diverged."
    if solved is None:
        return f"{title} did not solve it in {last.step} steps, {last.seconds:.1f} s: its error is {last.error:.3f}."
    return f"{title} solved it after {solved.step} steps, {solved.seconds:.1f} s; its final error is {last.error:.4f}."


def describe_limits(length: int, seed: int) -> str:
    """Describe where the learning rates come from, and what a single run does not show."""
    rates = ", ".join(f"{MODELS[model].title} {rate:g}" for model, rate in RATES.items())
    tuned = "" if length == LENGTH else f" at length {LENGTH}"
    return (
        f"One seed ({seed}). The learning rates are {rates}: each the best of six on four other seeds{tuned} "
        "(results/demo-rates.json). There coRNN and the GRU solve every run, and the GRU needs fewer steps and reaches "
        "a lower error: coRNN saves time per step. The LSTM solves none, even with five times as many steps. Seconds "
        "are processor time of the training steps, with one thread per model."
    )
