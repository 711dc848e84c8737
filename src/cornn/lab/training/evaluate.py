"""How good a model is on a part."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cornn.lab.tasks import Batch, Task
from cornn.lab.tasks.task import Part
from cornn.lab.training.batches import batch_dimension

__all__ = ["metric"]

SEQUENCES = 1000
"""That are drawn at once. Ragged ones go in batches as in training: how far a sequence is padded depends on those
beside it."""
STEPS, AT_LEAST = 250_000, 100
"""Steps of all sequences that are predicted at once, at the most, but for so many sequences: enough to fill a device.
A gated network takes kilobytes a step."""


@torch.no_grad()
def metric(
    task: Task, model: nn.Module, weights: Mapping[str, Tensor], part: Part, random: torch.Generator, batch_size: int
) -> Tensor:
    """The task's metric of a model with these weights, and buffers, if any are given, over all of a part that is on the
    generator's device; one number, which is there.

    A copy is evaluated. On a GPU PyTorch's own recurrent layers, once called with other weights, give theirs a new
    place, while training goes on in the old one.
    """
    model = copy.deepcopy(model).eval()
    values = dict(model.named_buffers()) | dict(weights)
    for name, held in (*model.named_parameters(), *model.named_buffers()):
        held.copy_(values[name])
    scores = []
    for index in torch.arange(part.size, device=random.device).split(batch_size if part.ragged else SEQUENCES):
        batch = part.batch(index, random)
        scores.append(task.score(_predicted(task, model, batch), batch.target))
    return task.reduce(torch.cat(scores))


def _predicted(task: Task, model: nn.Module, batch: Batch) -> Tensor:
    if batch.lengths is not None:
        return model(batch.input, batch.lengths)
    inputs = batch.input.split(max(AT_LEAST, STEPS // len(batch.input)), 1)
    return torch.cat([model(input) for input in inputs], batch_dimension(task))
