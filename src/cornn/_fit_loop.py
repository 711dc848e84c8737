"""The training loop of the estimators and, with a step that can be captured on a GPU, of the laboratory."""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from torch import Tensor
from torch.optim import Optimizer

__all__ = ["Callback", "fit_loop", "set_learning_rates", "take_step"]

Model = TypeVar("Model")
Batch = TypeVar("Batch")

Callback = Callable[[int, Tensor], bool | None]
"""Function of a step, counted from 1, and its loss. Training ends when it returns True."""


def take_step(model: Model, batch: Batch, loss: Callable[[Model, Batch], Tensor], optimiser: Optimizer) -> Tensor:
    """Take one step down the gradient and return the loss before it."""
    value = loss(model, batch)
    optimiser.zero_grad()
    value.backward()
    optimiser.step()
    return value.detach()


def fit_loop(
    model: Model,
    batches: Iterable[Batch],
    loss: Callable[[Model, Batch], Tensor],
    optimiser: Optimizer,
    schedule: Callable[[int], Sequence[float]],
    callbacks: Sequence[Callback] = (),
    *,
    first: int = 1,
    take_step: Callable[[Model, Batch, Callable[[Model, Batch], Tensor], Optimizer], Tensor] = take_step,
) -> None:
    """Train a model in place.

    Clipping, averaging and the like are hooks of the optimiser (`register_step_pre_hook`, `register_step_post_hook`).

    Args:
        model: The model.
        batches: The batch of each step. Training ends after the last one.
        loss: Function (model, batch) -> mean loss.
        optimiser: The optimiser of the model's parameters.
        schedule: Function of a step -> the learning rate of each parameter group.
        callbacks: Called in this order after every step.
        first: Number of the first step.
        take_step: Takes one step; the function of this module unless another is given.
    """
    for step, batch in enumerate(batches, first):
        set_learning_rates(optimiser, schedule(step))
        value = take_step(model, batch, loss, optimiser)
        answers = [callback(step, value) for callback in callbacks]
        if any(answers):
            return


def set_learning_rates(optimiser: Optimizer, rates: Sequence[float]) -> None:
    """Set the learning rate of each parameter group. A tensor stays in its place, where a graph reads it."""
    for group, rate in zip(optimiser.param_groups, rates, strict=True):
        if not isinstance(group["lr"], Tensor):
            group["lr"] = rate
        elif group.get("rate") != rate:
            group["lr"].fill_(rate)
            group["rate"] = rate
