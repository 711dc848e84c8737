"""Several processes that share each batch: how they connect, and which sequences each of them takes."""

import atexit
import os
from typing import Any

import torch
from torch import Tensor

from cornn._extras import missing_extra
from cornn._machine import resolve_device
from cornn.lab.config import Train
from cornn.lab.tasks import Batch, Task


def connect(config: Train) -> Any:
    """Return Lightning Fabric on the devices of a configuration, with the other processes, if any, started."""
    try:
        from lightning_fabric import Fabric
    except ImportError:
        try:
            from lightning.fabric import Fabric  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise missing_extra("lab", "training needs Lightning Fabric") from None
    settings = config.place
    resolve_device(settings.device)
    # torchrun sets the numbers of processes, on this machine and on all, in the environment.
    local_processes = int(os.environ.get("LOCAL_WORLD_SIZE", settings.devices))
    processes = int(os.environ.get("WORLD_SIZE", local_processes))
    fabric = Fabric(
        accelerator=settings.device,
        devices=local_processes,
        num_nodes=max(1, processes // local_processes),
        strategy="ddp" if processes > 1 else "auto",
        precision="bf16-mixed" if config.autocast else "32-true",
    )
    fabric.launch()
    if processes > 1:
        atexit.register(_disconnect)
    return fabric


def _disconnect() -> None:
    """Close the connections in order: a process that ends early may abort another that still uses them."""
    if torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


def batch_dimension(task: Task) -> int:
    """Return the batch dimension of predictions and targets."""
    return 1 if task.read == "every" else 0


def share_of_batch(batch: Batch, dimension: int, count: int, rank: int, world: int) -> tuple[Batch, tuple[int, int]]:
    """Return the sequences of process `rank` of `world`, and how many sequences count in them and in the whole batch.

    The first `count` sequences of the batch count; the others are padding. `dimension` is that of the targets.
    """
    if world == 1:
        return batch, (count, count)
    size = batch.input.shape[1]
    start, end = rank * size // world, (rank + 1) * size // world
    share = Batch(
        batch.input[:, start:end],
        batch.target.narrow(dimension, start, end - start),
        None if batch.lengths is None else batch.lengths[start:end],
    )
    return share, (max(0, min(count, end) - start), count)


def share_of_loss(task: Task, prediction: Tensor, target: Tensor, count: int, total: int) -> Tensor:
    """Return the contribution of the first `count` sequences of this process to the mean loss over `total` ones."""
    if count == 0:
        return prediction.sum() * 0.0
    dimension = batch_dimension(task)
    if count < prediction.shape[dimension]:
        prediction, target = prediction.narrow(dimension, 0, count), target.narrow(dimension, 0, count)
    loss = task.loss(prediction, target)
    return loss if count == total else loss * (count / total)
