"""The network of an estimator, and its training: Adam, cosine decay, clipping, early stopping."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from cornn._random import generator
from cornn._tf32 import no_tf32
from cornn.estimators.preparation import Padded
from cornn.layers import CoRNN
from cornn.models import SequenceModel
from cornn.theory import suggest
from cornn.theory.linear import stability_limit

__all__ = ["Network", "Schedule", "device_of", "outputs", "predicted", "train", "wanted"]

# The suggested start is for values between 0 and 1, whose deviation is this; standardised ones have 1.
UNIFORM_DEVIATION = 12**-0.5
CLIP = 1.0  # of the gradient's norm
STABLE = 0.9  # the share of the stability limit that a timespan may reach
SEQUENCES_AT_ONCE = 256  # without gradients
STEPS_AT_ONCE = 2**18  # of all of them together

Constant = float | Sequence[float] | None


@dataclass(frozen=True)
class Network:
    """What builds the model, in numbers that JSON holds."""

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

    def build(self, backend: str = "auto") -> SequenceModel:
        # What the constructors draw is drawn anew by `start`: the caller's own random numbers stay where they are.
        with torch.random.fork_rng(devices=[]):
            layer = CoRNN(
                self.features,
                self.hidden_size,
                self.num_layers,
                bidirectional=self.bidirectional,
                dt=self.dt,
                gamma=self.gamma,
                epsilon=self.epsilon,
                damping=self.damping,
                init=self.init,
                backend=backend,
            )
            return SequenceModel(layer, self.outputs)

    def start(self, model: SequenceModel, seed: int) -> None:
        """Draw the weights."""
        model.reset_parameters(generator(seed, "weights"))
        layer: Any = model.layer
        with torch.no_grad():
            for name, cell in layer.cells.items():
                if name.startswith("l0"):
                    cell.weight_ih *= UNIFORM_DEVIATION
                    cell.bias *= UNIFORM_DEVIATION

    def longest_span(self) -> float:
        """The largest factor on dt with which every neuron, uncoupled, is stable, less a margin."""
        gamma, epsilon = torch.tensor(self.gamma), torch.tensor(self.epsilon)
        limit = stability_limit(gamma, epsilon, damping=self.damping) / torch.tensor(self.dt)
        return STABLE * limit.min().item()


def wanted(
    length: int,
    hidden_size: int,
    *,
    dt: Constant,
    gamma: Constant,
    epsilon: Constant,
    damping: str,
) -> dict[str, Any]:
    """dt, gamma, epsilon, damping and init: those that are given, the others from `theory.suggest`.

    What has to be told apart is in the shape of a sequence as often as in its sum: the half-lives go down to a
    hundredth of it, which cross-validation on training parts of the archive preferred.
    """
    step = None if dt is None else float(torch.as_tensor(dt, dtype=torch.float64).mean())
    length = max(2, length)
    suggested = partial(suggest, length, hidden_size, shortest=length / 100, longest=2.0 * length)
    found = suggested(dt=step, damping=damping)
    if step is None and damping == "implicit":
        # A force moves a slow neuron by dt / epsilon: as far as with explicit damping, for which the start is made.
        usual = suggested()
        step = (found.dt * found.epsilon * usual.dt / usual.epsilon) ** 0.5
        found = suggested(dt=step, damping=damping)
    values = {
        "dt": found.dt if dt is None else dt,
        "gamma": found.gamma if gamma is None else gamma,
        "epsilon": found.epsilon if epsilon is None else epsilon,
    }
    plain = {name: torch.as_tensor(value, dtype=torch.float64).tolist() for name, value in values.items()}
    return {**plain, "damping": damping, "init": found.init}


@dataclass(frozen=True)
class Schedule:
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    patience: int  # epochs without a better validation loss, after which training ends
    seed: int
    report: Callable[[dict], None]  # called with the losses after every epoch


def device_of(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise ValueError(f"no CUDA device here: use device='cpu' or 'auto' instead of {name!r}")
    return torch.device(name)


def read_out(model: SequenceModel, batch: Padded, every: bool) -> Tensor:
    """What the head reads: y at each sequence's end, (batch, hidden), or after every step, (time, batch, hidden)."""
    layer: Any = model.layer
    if every:
        return layer(batch.input, timespans=batch.timespans)[0]
    return model.read_out(layer.last_state(batch.input, timespans=batch.timespans, lengths=batch.lengths))


def outputs(model: SequenceModel, batch: Padded, every: bool) -> Tensor:
    """(batch, outputs), or (time, batch, outputs)."""
    return model.head(read_out(model, batch, every))


def predicted(model: SequenceModel, data: Padded, every: bool, device: torch.device) -> NDArray[np.float64]:
    """`outputs` for all sequences.

    The head is applied in float64: what a sequence gives then does not depend on those beside it, to float32's digits.
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
                    # Past the end of its longest sequence a batch has no steps; nobody looks there.
                    part = np.pad(part, ((0, len(data.input) - len(part)), (0, 0), (0, 0)))
                parts.append(part)
    finally:
        model.to("cpu")
    found = np.concatenate(parts, 1 if every else 0)
    wrong = ~np.isfinite(found).all(-1)
    if every:
        wrong = (wrong & (np.arange(len(found))[:, None] < data.lengths.cpu().numpy())).any(0)
    if wrong.any():
        raise ValueError(
            f"the network's answer to sequence {wrong.argmax()} is not finite: its values are too far from those of "
            "the training, or the weights are damaged; correct the values, or fit anew"
        )
    return found


Loss = Callable[[SequenceModel, Padded, Tensor], Tensor]
"""(model, the batch, its rows) -> the mean loss."""


def train(
    model: SequenceModel, data: Padded, loss: Loss, parts: tuple[Tensor, Tensor], schedule: Schedule
) -> list[dict[str, float]]:
    """Trains in place, on the device where the model is, and returns the losses of every epoch.

    parts: rows to train on and rows to validate on. With the latter, the weights end as they were at the best epoch.
    """
    training, validation = parts
    optimiser = torch.optim.Adam(
        model.parameters(), lr=schedule.learning_rate, weight_decay=schedule.weight_decay, foreach=False
    )
    best, best_epoch, kept, history = math.inf, 0, None, []
    for epoch in range(1, schedule.epochs + 1):
        share = 0.5 + 0.5 * math.cos(math.pi * (epoch - 1) / schedule.epochs)
        optimiser.param_groups[0]["lr"] = schedule.learning_rate * share
        drawn = torch.randperm(len(training), generator=generator(schedule.seed, "order", epoch))
        total = 0.0
        for rows in training[drawn].to(data.lengths.device).split(schedule.batch_size):
            value = loss(model, data.rows(rows), rows)
            optimiser.zero_grad()
            value.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), CLIP, foreach=False)
            optimiser.step()
            total += value.item() * len(rows)
        row = {"epoch": epoch, "training": total / len(training)}
        if not math.isfinite(total):
            raise ValueError(f"training diverged in epoch {epoch}: lower learning_rate, or dt")
        if len(validation):
            with torch.no_grad():
                sums = [
                    loss(model, data.rows(rows), rows).item() * len(rows)
                    for rows in validation.to(data.lengths.device).split(SEQUENCES_AT_ONCE)
                ]
            row["validation"] = sum(sums) / len(validation)
            if row["validation"] < best:
                best, best_epoch = row["validation"], epoch
                kept = {name: value.clone() for name, value in model.state_dict().items()}
        history.append(row)
        schedule.report(row | {"epochs": schedule.epochs})
        if len(validation) and epoch - best_epoch >= schedule.patience:
            break
    if kept is not None:
        model.load_state_dict(kept)
    return history
