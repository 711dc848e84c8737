"""The metric of a model on a split."""

import copy
from collections.abc import Mapping

import torch
from torch import Tensor, nn

from cornn._random import generator
from cornn.lab.config import Train
from cornn.lab.tasks import Batch, Task
from cornn.lab.tasks.task import Split
from cornn.lab.training.distributed import batch_dimension

SEQUENCES = 1000
"""Number of sequences drawn at once. Ragged sequences come in batches as in training, because their padding depends on
the batch."""
STEPS, AT_LEAST = 250_000, 100
"""Maximum total number of steps predicted at once, and the number of sequences that is always allowed, enough to fill a
device. A gated network takes kilobytes per step."""


@torch.no_grad()
def metric(
    task: Task, model: nn.Module, weights: Mapping[str, Tensor], split: Split, random: torch.Generator, batch_size: int
) -> Tensor:
    """Return the task's metric over a whole split, as a scalar tensor on the split's device.

    A copy of the model is evaluated with the given weights and buffers: on a GPU, calling PyTorch's recurrent layers
    with other weights would move their own to new memory, while training continues in the old one.
    """
    model = copy.deepcopy(model).eval()
    values = dict(model.named_buffers()) | dict(weights)
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        tensor.copy_(values[name])
    scores = []
    for index in torch.arange(split.size, device=random.device).split(batch_size if split.ragged else SEQUENCES):
        batch = split.batch(index, random)
        scores.append(task.score(_predict(task, model, batch), batch.target))
    return task.reduce(torch.cat(scores))


def measure_test(
    config: Train, task: Task, model: nn.Module, weights: Mapping[str, Tensor], device: torch.device
) -> float:
    """Return the metric on the test split, which is read for it."""
    random = generator(config.seed, "testing", device=device)
    return metric(task, model, weights, task.test().to(device), random, config.budget.batch_size).item()


def _predict(task: Task, model: nn.Module, batch: Batch) -> Tensor:
    if batch.lengths is not None:
        return model(batch.input, batch.lengths)
    inputs = batch.input.split(max(AT_LEAST, STEPS // len(batch.input)), 1)
    return torch.cat([model(input) for input in inputs], batch_dimension(task))
