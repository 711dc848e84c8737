"""PyTorch's optimisers on the weights of models side by side: rates per kind of weight, clipping per model.

A hand-written kernel saved 3 to 4 % of an epoch of psMNIST with 128 neurons on an H200 for one model, and 1 % for five
side by side (results/optimiser-cuda.json). Since the weights are split into pieces (`_split`), a step with PyTorch's
takes 781 us (results/step-cuda.json) where the hand-written one took 777.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from cornn.lab.config import Optimiser
from cornn.lab.training.schedule import learning_rate, shares_of_rate
from cornn.lab.training.side_by_side import SideBySide
from cornn.lab.training.state import RunState

EPSILON = 1e-8
"""PyTorch's default, for Adam and RMSprop."""
PIECES, MIN_SIZE = 32, 1024
"""Maximum number of pieces of weights with one learning rate on a GPU, and the least size of a piece."""


def take_step(
    models: SideBySide, batch: Any, loss: Callable[[SideBySide, Any], Tensor], optimiser: Optimizer
) -> Tensor:
    """Take one step of all models and return the loss of each, (models)."""
    value = loss(models, batch)
    gradients = torch.autograd.grad(value, models.leaves, torch.ones_like(value))
    with torch.no_grad():
        torch.cat([gradient.reshape(len(value), -1) for gradient in gradients], 1, out=models.gradient)
        optimiser.step()
        models.losses += value
    return value.detach()


def build_optimiser(models: SideBySide, fabric: Any) -> tuple[Optimizer, Callable[[int], list[float]]]:
    """Return the optimiser of models side by side, and its schedule for `fit_loop`.

    The parameters are pieces of the models' rows of weights, each with one learning rate. The moments are views of one
    tensor, so that each run has its row of them. The first run sets all but the learning rates. The gradients of all
    processes are added up.
    """
    settings = models.states[0].config.optimiser
    first, second = torch.zeros_like(models.weights), torch.zeros_like(models.weights)
    groups: dict[Any, dict[str, Any]] = {}
    moments: dict[Tensor, dict[str, Tensor]] = {}
    for number, state in enumerate(models.states):
        spans = [piece for span in _spans(state) for piece in _split(*span)] if first.is_cuda else _spans(state)
        updates = torch.zeros(len(spans), device=fabric.device)
        state.tensors |= {"first": first[number], "second": second[number], "updates": updates}
        for (share, begin, end), count in zip(spans, updates, strict=True):
            key = state.config.optimiser, state.plan, share
            # A captured step reads the learning rate from this tensor.
            rate = torch.zeros((), device=fabric.device) if first.is_cuda else 0.0
            piece = models.weights[number, begin:end]
            piece.grad = models.gradient[number, begin:end]
            groups.setdefault(key, {"params": [], "lr": rate})["params"].append(piece)
            moments[piece] = {"step": count, "first": first[number, begin:end], "second": second[number, begin:end]}
    optimiser = _build(settings, list(groups.values()), moments, capturable=first.is_cuda)
    optimiser.register_step_pre_hook(lambda *_: _prepare_gradient(models, settings.clip, fabric))
    if (average := models.average) is not None:

        def follow(*_: Any) -> None:
            average.lerp_(models.weights, 1 - settings.ema)

        optimiser.register_step_post_hook(follow)

    def schedule(step: int) -> list[float]:
        return [learning_rate(settings, plan, step) * share for settings, plan, share in groups]

    return optimiser, schedule


def _spans(state: RunState) -> list[tuple[float, int, int]]:
    """Return (share of the learning rate, begin, end) of the pieces of a run's weights."""
    spans: list[tuple[float, int, int]] = []
    shares = shares_of_rate(state.config.optimiser, state.model, state.task.length)
    for name, value in state.model.named_parameters():
        share = shares[name]
        begin = spans[-1][2] if spans else 0
        if spans and spans[-1][0] == share:
            spans[-1] = share, spans[-1][1], begin + value.numel()
        else:
            spans.append((share, begin, begin + value.numel()))
    return spans


def _split(share: float, begin: int, end: int) -> list[tuple[float, int, int]]:
    """Split a piece for a GPU. PyTorch's fused kernels leave up to 65,536 numbers of a tensor to one block."""
    size = max(MIN_SIZE, -(-(end - begin) // PIECES))
    return [(share, first, min(first + size, end)) for first in range(begin, end, size)]


def _build(
    settings: Optimiser, groups: Sequence[dict[str, Any]], moments: dict[Tensor, dict[str, Tensor]], capturable: bool
) -> Optimizer:
    """Return Adam with decoupled weight decay or RMSprop, with its moments in the given tensors."""
    if settings.name == "adam":
        names = {"step": "step", "first": "exp_avg", "second": "exp_avg_sq"}
        betas = settings.beta1, settings.beta2
        optimiser: Optimizer = torch.optim.AdamW(
            groups,
            betas=betas,
            eps=EPSILON,
            weight_decay=settings.weight_decay,
            fused=True,
            capturable=capturable,
        )
    else:
        names = {"step": "step", "second": "square_avg"}
        optimiser = torch.optim.RMSprop(
            groups, alpha=settings.beta2, eps=EPSILON, foreach=capturable, capturable=capturable
        )
        if settings.weight_decay:  # PyTorch's RMSprop would add it to the gradient
            optimiser.register_step_pre_hook(lambda tensors, *_: _decay(tensors, settings.weight_decay))
    for piece, tensors in moments.items():
        optimiser.state[piece] = {name: tensors[tensor] for tensor, name in names.items()}
    return optimiser


def _prepare_gradient(models: SideBySide, clip: float, fabric: Any) -> None:
    """Sum the gradients of all processes, and clip the gradient of each model by its norm."""
    gradient = models.gradient
    if fabric.world_size > 1:
        gradient.copy_(fabric.all_reduce(gradient, reduce_op="sum"))
    if clip:
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        gradient *= (clip / (norm + 1e-6)).clamp(max=1.0)


def _decay(optimiser: Optimizer, weight_decay: float) -> None:
    for group in optimiser.param_groups:
        for piece in group["params"]:
            piece.mul_(1 - group["lr"] * weight_decay)
