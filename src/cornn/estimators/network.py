"""The network of an estimator, and its training: AdamW, cosine decay, clipping, early stopping."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._fit_loop import fit_loop
from cornn._random import generator
from cornn._restored_models import check_sizes, construct_with
from cornn._tf32 import no_tf32
from cornn.estimators.preparation import PaddedBatch
from cornn.layers import CoRNN
from cornn.models import SequenceModel
from cornn.theory import suggest
from cornn.theory.linear import stability_limit

__all__ = [
    "NetworkSpec",
    "Schedule",
    "apply_model",
    "compute_outputs",
    "make_dropout",
    "resolve_constants",
    "train",
]

# The suggested initialisation is for values between 0 and 1, with this standard deviation; ours are standardised.
UNIFORM_DEVIATION = 12**-0.5
CLIP = 1.0  # maximum norm of the gradient
WARM_UP = 0.025  # share of the epochs over which the learning rate rises from 0; whole epochs, none of fewer than 40
STABLE = 0.9  # share of the stability limit that a timespan may reach
SEQUENCES_AT_ONCE = 256  # per batch without gradients
STEPS_AT_ONCE = 2**18  # total steps of such a batch

Constant = float | Sequence[float] | None


@dataclass(frozen=True)
class NetworkSpec:
    """Constructor arguments of the model, as JSON values."""

    features: int
    outputs: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    dt: float | list[float]
    gamma: float | list[float]
    epsilon: float | list[float]
    damping: str
    init: str

    def build(self, backend: str = "auto", device: str = "cpu") -> SequenceModel:
        # `initialise` draws the weights again; the caller's random state must not change.
        with torch.random.fork_rng(devices=[]):
            options = asdict(self)
            outputs = options.pop("outputs")
            return SequenceModel(CoRNN(options.pop("features"), **options, backend=backend, device=device), outputs)

    def restore(self, weights: Mapping[str, Tensor], backend: str) -> SequenceModel:
        """Build the model with weights from a file, after comparing the sizes with theirs."""
        sizes = (self.outputs, self.hidden_size, self.num_layers)
        check_sizes(weights, *sizes, bidirectional=self.bidirectional)
        return construct_with(weights, partial(self.build, backend))

    def initialise(self, model: SequenceModel, seed: int, answer: NDArray[np.float64] | None = None) -> None:
        """Draw the initial weights; `answer` is the output that ignores the input, 0 if None."""
        model.reset_parameters(generator(seed, "weights"))
        layer: Any = model.layer
        with torch.no_grad():
            for reverse in (False, True)[: 1 + self.bidirectional]:
                cell = layer.cell(0, reverse)
                cell.weight_ih *= UNIFORM_DEVIATION
                cell.bias *= UNIFORM_DEVIATION
            # Training starts at the loss of an answer that ignores the input, not above it.
            model.head.weight.zero_()
            model.head.bias.zero_()
            if answer is not None:
                model.head.bias.copy_(torch.from_numpy(answer))

    def max_timespan(self) -> float:
        """Return the largest factor on dt for which every uncoupled neuron is stable, less a margin."""
        gamma, epsilon = torch.tensor(self.gamma), torch.tensor(self.epsilon)
        limit = stability_limit(gamma, epsilon, damping=self.damping) / torch.tensor(self.dt)
        return STABLE * limit.min().item()


def resolve_constants(
    length: int,
    hidden_size: int,
    *,
    dt: Constant,
    gamma: Constant,
    epsilon: Constant,
    damping: str,
) -> dict[str, Any]:
    """Return dt, gamma, epsilon, damping and init: those that are given, and the others from `theory.suggest`.

    Classes differ in the shape of a sequence as often as in its sum. The half-lives therefore start at a hundredth of
    its length, which cross-validation on training splits of the archive preferred.
    """
    step = None if dt is None else float(torch.as_tensor(dt, dtype=torch.float64).mean())
    length = max(2, length)
    suggested = partial(suggest, length, hidden_size, shortest=length / 100, longest=2.0 * length)
    suggestion = suggested(dt=step, damping=damping)
    if step is None and damping == "implicit":
        # A force moves a slow neuron by dt / epsilon. Keep that as for explicit damping, which the start is made for.
        usual = suggested()
        step = (suggestion.dt * suggestion.epsilon * usual.dt / usual.epsilon) ** 0.5
        suggestion = suggested(dt=step, damping=damping)
    values = {
        "dt": suggestion.dt if dt is None else dt,
        "gamma": suggestion.gamma if gamma is None else gamma,
        "epsilon": suggestion.epsilon if epsilon is None else epsilon,
    }
    plain = {name: torch.as_tensor(value, dtype=torch.float64).tolist() for name, value in values.items()}
    return {**plain, "damping": damping, "init": suggestion.init}


@dataclass(frozen=True)
class Schedule:
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int  # epochs without a better validation loss after which training stops
    seed: int
    report: Callable[[dict], bool | None]  # called with the losses after every epoch; True ends training


def read_out(model: SequenceModel, batch: PaddedBatch, every: bool) -> Tensor:
    """Return y at the end of each sequence, (batch, hidden), or after every step, (time, batch, hidden)."""
    layer: Any = model.layer
    if every:
        return layer(batch.input, timespans=batch.timespans)[0]
    return model.read_out(layer.last_state(batch.input, timespans=batch.timespans, lengths=batch.lengths))


def apply_model(
    model: SequenceModel, batch: PaddedBatch, every: bool, drop: Callable[[Tensor], Tensor] | None = None
) -> Tensor:
    """Apply the model: (batch, outputs), or (time, batch, outputs) if `every`.

    Args:
        model: The model.
        batch: The sequences.
        every: Whether to read the model out after every step.
        drop: Dropout before the head, for training.
    """
    y = read_out(model, batch, every)
    return model.head(y if drop is None else drop(y))


def make_dropout(probability: float, seed: int) -> Callable[[Tensor], Tensor]:
    """Return a function that drops values where gradients are computed, without touching the global random state."""
    random = generator(seed, "dropout")

    def drop(y: Tensor) -> Tensor:
        if not probability or not torch.is_grad_enabled():
            return y
        kept = torch.rand(y.shape, generator=random).to(y.device) >= probability
        return y * kept / (1 - probability)

    return drop


def compute_outputs(model: SequenceModel, data: PaddedBatch, every: bool, device: torch.device) -> NDArray[np.float64]:
    """Apply the model to all sequences, in batches: the outputs of `apply_model`.

    The head is applied in float64, so that to float32's precision the result does not depend on the batch.
    """
    parts, weight, bias = [], model.head.weight.detach().double().numpy(), model.head.bias.detach().double().numpy()
    count = max(1, min(SEQUENCES_AT_ONCE, STEPS_AT_ONCE // len(data.input)))
    try:
        with torch.no_grad(), no_tf32():
            model.to(device)
            for index in torch.arange(len(data.lengths)).split(count):
                y = read_out(model, data.rows(index).to(device), every).double().cpu().numpy()
                part = y @ weight.T + bias
                if every:
                    # A batch has no steps past its longest sequence; the padding is not used.
                    part = np.pad(part, ((0, len(data.input) - len(part)), (0, 0), (0, 0)))
                parts.append(part)
    finally:
        model.to("cpu")
    outputs = np.concatenate(parts, 1 if every else 0)
    wrong = ~np.isfinite(outputs).all(-1)
    if every:
        wrong = (wrong & (np.arange(len(outputs))[:, None] < data.lengths.cpu().numpy())).any(0)
    if wrong.any():
        raise ValueError(
            f"the network's output for sequence {wrong.argmax()} is not finite: its values are too far from the "
            "training data, or the weights are damaged; correct the values, or fit again"
        )
    return outputs


Loss = Callable[[SequenceModel, PaddedBatch, Tensor], Tensor]
"""Function (model, batch, rows of the batch) -> mean loss."""


def train(
    model: SequenceModel, data: PaddedBatch, loss: Loss, rows: tuple[Tensor, Tensor], schedule: Schedule
) -> list[dict[str, float]]:
    """Train a model in place, on its device.

    Args:
        model: The model to train.
        data: All sequences.
        loss: The loss of a batch.
        rows: Training rows and validation rows. If there are validation rows, the weights of the best epoch are kept.
        schedule: Epochs, batch size, learning rate, early stopping and seed.

    Returns:
        The losses, one dictionary per epoch.
    """
    training, validation = rows
    device, history = data.lengths.device, []
    optimiser = torch.optim.AdamW(
        model.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, foreach=False
    )
    steps = -(-len(training) // schedule.batch_size)  # per epoch
    rising = int(WARM_UP * schedule.epochs) * steps
    best, best_epoch, kept, total = math.inf, 0, None, 0.0

    def clip(*_: object) -> None:
        torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP, foreach=False)

    optimiser.register_step_pre_hook(clip)

    def batches() -> Iterator[Tensor]:
        for epoch in range(1, schedule.epochs + 1):
            order = torch.randperm(len(training), generator=generator(schedule.seed, "order", epoch))
            yield from training[order].to(device).split(schedule.batch_size)

    def rates(step: int) -> list[float]:
        done = (step - 1) // steps
        # Adam's first steps have full size whatever the gradient is: without a warm-up they overshoot.
        warm = 1.0 if step > rising else ((step - 1) / rising) ** 2
        return [schedule.learning_rate * warm * (0.5 + 0.5 * math.cos(math.pi * done / schedule.epochs))]

    def end_epoch(step: int, value: Tensor) -> bool:
        """Sum the loss; after the last step of an epoch evaluate, keep the best weights, and stop early."""
        nonlocal best, best_epoch, kept, total
        epoch, last = -(-step // steps), step % steps == 0
        total += value.item() * (len(training) - (steps - 1) * schedule.batch_size if last else schedule.batch_size)
        if not last:
            return False
        row, total = {"epoch": epoch, "training": total / len(training)}, 0.0
        if not math.isfinite(row["training"]):
            raise ValueError(f"training diverged in epoch {epoch}: lower learning_rate or dt")
        if len(validation):
            with torch.no_grad():
                sums = [
                    loss(model, data.rows(index), index).item() * len(index)
                    for index in validation.to(device).split(SEQUENCES_AT_ONCE)
                ]
            row["validation"] = sum(sums) / len(validation)
            if row["validation"] < best:
                best, best_epoch = row["validation"], epoch
                kept = {name: value.clone() for name, value in model.state_dict().items()}
        history.append(row)
        stop = schedule.report(row | {"epochs": schedule.epochs})
        return bool(stop) or (bool(len(validation)) and epoch - best_epoch >= schedule.patience)

    fit_loop(model, batches(), lambda model, index: loss(model, data.rows(index), index), optimiser, rates, [end_epoch])
    if kept is not None:
        model.load_state_dict(kept)
    return history
