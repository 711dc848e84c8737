"""How good a model is on a part."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cornn.tasks import Task
from cornn.tasks.task import Part

__all__ = ["metric"]

SEQUENCES = 1000
"""That are predicted at once: enough to fill a device. Ragged ones go in batches as in training: how far a sequence is
padded depends on those beside it."""


@torch.no_grad()
def metric(
    task: Task, model: nn.Module, weights: Mapping[str, Tensor], part: Part, random: torch.Generator, batch_size: int
) -> Tensor:
    """The task's metric of a model with these weights, over all of a part that is on the generator's device; one
    number, which is there."""
    scores = []
    for index in torch.arange(part.size, device=random.device).split(batch_size if part.ragged else SEQUENCES):
        batch = part.batch(index, random)
        prediction = torch.func.functional_call(model, dict(weights), (batch.input, batch.lengths))
        scores.append(task.score(prediction, batch.target))
    return task.reduce(torch.cat(scores))
