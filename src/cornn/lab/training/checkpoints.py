"""The files of a run: checkpoints, weights and the result."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch

from cornn import __version__
from cornn._machine import machine
from cornn._random import derive_seed, generator
from cornn._source import source
from cornn.lab.runs import save_checkpoints
from cornn.lab.training.config import as_dictionary, differences, from_dictionary
from cornn.lab.training.evaluate import metric
from cornn.lab.training.state import Best, Trainee
from cornn.lab.training.step import Group, named
from cornn.models import count_parameters

__all__ = ["finish", "restore", "save"]


def save(trainees: Sequence[Trainee], group: Group, numbers: Sequence[int]) -> None:
    """Write the checkpoints of these runs. A run that has diverged keeps its last good one."""
    finite = group.weights.isfinite().all(1).tolist()
    contents = []
    for number in numbers:
        trainee, best = trainees[number], trainees[number].best
        if not finite[number]:
            trainee.fail(f"the weights are not finite after step {trainee.step}")
        elif trainee.run is not None:
            kept = None
            if best is not None:
                kept = {"metric": best.metric, "step": best.step, "weights": best.weights.cpu()}
                kept["buffers"] = {name: buffer.cpu() for name, buffer in best.buffers.items()}
            content = {
                "config": as_dictionary(trainee.config),
                "step": trainee.step,
                "seconds": trainee.seconds,
                "evaluated": trainee.evaluated,
                "metric": trainee.metric,
                "best": kept,
                "weights": group.weights[number].cpu().clone(),
                "buffers": {name: buffer.cpu() for name, buffer in trainee.buffers().items()},
                "first": group.first[number].cpu().clone(),
                "second": group.second[number].cpu().clone(),
                "average": None if group.average is None else group.average[number].cpu().clone(),
                "loss": group.loss[number].cpu().clone(),
                "random": trainee.random.get_state(),
            }
            contents.append((trainee.run, content))
    save_checkpoints(contents)


def restore(trainee: Trainee, group: Group, number: int, checkpoint: dict) -> None:
    # Converted back and forth, so that settings newer than the checkpoint have their defaults.
    began = as_dictionary(from_dictionary(checkpoint["config"]))
    changed = differences(began, as_dictionary(trainee.config))
    if changed:
        raise ValueError(f"the configuration of this run has changed: {'; '.join(changed)}")
    trainee.step, trainee.seconds = checkpoint["step"], checkpoint["seconds"]
    trainee.evaluated, trainee.metric = checkpoint["evaluated"], checkpoint["metric"]
    if checkpoint["best"] is not None:
        kept = checkpoint["best"]
        device = group.weights.device
        buffers = {name: buffer.to(device) for name, buffer in kept.get("buffers", {}).items()}
        trainee.best = Best(kept["metric"], kept["step"], kept["weights"].to(device), buffers)
    own = dict(trainee.model.named_buffers())
    for name, buffer in checkpoint.get("buffers", {}).items():
        own[name].copy_(buffer)
    group.take_buffers(number)
    for name in ("weights", "first", "second", "average", "loss"):
        tensor = getattr(group, name)
        if tensor is not None:
            tensor[number] = checkpoint[name].to(tensor.device)
    group.go_on_after(trainee.step)
    if checkpoint["random"].shape == trainee.random.get_state().shape:
        trainee.random.set_state(checkpoint["random"])
    else:  # on another kind of device, whose random numbers are others anyway
        trainee.random.manual_seed(derive_seed(trainee.config.seed, "training", trainee.step))


@torch.no_grad()
def finish(trainee: Trainee, group: Group, number: int, fabric: Any, steps: int, seconds: float) -> None:
    """Test the best or the last weights and write the result. `steps` and `seconds` are those of this process."""
    if trainee.failure is not None:
        return
    if not trainee.tested:
        trainee.complete = True
        return
    task, recipe, best = trainee.task, trainee.config.settings, trainee.best
    last = (group.weights if group.average is None else group.average)[number]
    chosen = trainee.buffers() | named(trainee.model, last)
    if recipe.keep == "best" and best is not None:
        chosen |= best.buffers | named(trainee.model, best.weights)
    random = generator(trainee.config.seed, "testing", device=fabric.device)
    test = metric(task, trainee.model, chosen, task.test().to(fabric.device), random, recipe.batch_size).item()
    trainee.complete = True
    if trainee.run is None:
        return
    trainee.run.save_weights(chosen)
    epochs = None if trainee.plan.epoch is None else trainee.step / trainee.plan.epoch
    best_epoch = None if best is None or trainee.plan.epoch is None else best.step / trainee.plan.epoch
    trainee.run.save_result(
        {
            "task": {"name": task.name, **asdict(trainee.config.task)},
            "recipe": trainee.config.recipe,
            "model": trainee.config.model,
            "seed": trainee.config.seed,
            "metric": task.metric,
            "test": test,
            "tested": f"the {recipe.keep} weights",
            "validation": trainee.kept_metric,
            "best_step": None if best is None else best.step,
            "best_epoch": None if best_epoch is None else round(best_epoch, 3),
            "better": task.better,
            "evaluated_on": task.evaluated_on,
            "trivial": task.trivial,
            "trivial_words": task.trivial_words,
            "solved": task.solved,
            "notes": list(task.notes),
            "steps": trainee.step,
            "epochs": None if epochs is None else round(epochs, 3),
            "seconds": round(trainee.seconds, 3),
            "sequences_per_second": round(steps * trainee.plan.batch / seconds, 1) if steps else None,
            "side_by_side": len(group.members),
            "parameters": count_parameters(trainee.model),
            "device": str(fabric.device),
            "processes": fabric.world_size,
            "machine": machine(),
            "version": __version__,
            **source(),
        }
    )
