"""The files of a run: checkpoints, weights and the result."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from cornn import __version__
from cornn._checked import Count, Natural, NotNegative, convert
from cornn._checksums import DamagedFileError
from cornn._device_errors import describe_device_error
from cornn._machine import machine
from cornn._random import derive_seed
from cornn._source import source
from cornn.lab.config import as_dictionary, differences, from_dictionary
from cornn.lab.runs import save_checkpoints
from cornn.lab.training.evaluate import measure_test
from cornn.lab.training.side_by_side import name_parameters
from cornn.lab.training.state import Best, RunState
from cornn.models import count_parameters


def save(states: Sequence[RunState]) -> None:
    """Write the checkpoints of these runs. A run that has diverged keeps its last good one."""
    finite = torch.stack([state.tensors["weights"].isfinite().all() for state in states]).tolist()
    contents = []
    for state, is_finite in zip(states, finite, strict=True):
        if not is_finite:
            state.failure = f"the weights are not finite after step {state.step}"
        elif state.run is not None:
            contents.append((state.run, _pack_checkpoint(state)))
    save_checkpoints(contents)


def _pack_checkpoint(state: RunState) -> dict[str, Any]:
    best, best_state = state.best, None
    if best is not None:
        best_state = {"metric": best.metric, "step": best.step, "weights": best.weights.cpu()}
        best_state["buffers"] = {name: buffer.cpu() for name, buffer in best.buffers.items()}
    return {
        "config": as_dictionary(state.config),
        "step": state.step,
        "seconds": state.seconds,
        "evaluated": state.evaluated,
        "metric": state.metric,
        "best": best_state,
        "buffers": {name: buffer.cpu() for name, buffer in state.buffers().items()},
        "random": state.random.get_state(),
        "side_by_side": state.side_by_side,
        **{name: tensor.cpu().clone() for name, tensor in state.tensors.items() if name != "updates"},
    }


def restore(state: RunState, checkpoint: dict) -> None:
    """Continue a run from a checkpoint of the same configuration.

    Raises:
        DamagedFileError: If an entry is missing or has another type, which only a checkpoint without a checksum can.
        ValueError: If the configuration has changed.
    """
    try:
        changed = differences(from_dictionary(checkpoint["config"]), state.config)
        if not changed:
            _restore(state, checkpoint)
    except KeyError as error:
        raise _checkpoint_error(state, f"is incomplete, it lacks {error.args[0]!r}") from error
    except (ValueError, TypeError, AttributeError, RuntimeError, ArithmeticError) as error:
        if describe_device_error(error):
            raise
        raise _checkpoint_error(state, f"is damaged ({' '.join(str(error).split())})") from error
    if changed:
        raise ValueError(
            f"the configuration of this run has changed ({'; '.join(changed)}): undo the change, or use a new folder"
        )


def _checkpoint_error(state: RunState, problem: str) -> DamagedFileError:
    if state.run is None:  # another process names the file
        return DamagedFileError(f"the checkpoint {problem}: use another one")
    return state.run.checkpoint_error(problem)


def _restore(state: RunState, checkpoint: dict) -> None:
    weights = state.tensors["weights"]
    state.step, state.evaluated = (convert(Natural, checkpoint[name], name) for name in ("step", "evaluated"))
    state.seconds = convert(NotNegative, checkpoint["seconds"], "seconds")
    state.metric = None if checkpoint["metric"] is None else _check_number(checkpoint["metric"])
    state.side_by_side = max(state.side_by_side, convert(Count, checkpoint.get("side_by_side", 1), "side_by_side"))
    own_buffers = dict(state.model.named_buffers())
    if checkpoint["best"] is not None:
        best_state = checkpoint["best"]
        buffers = {
            name: _check_tensor(own_buffers[name], buffer, name) for name, buffer in best_state["buffers"].items()
        }
        best = _check_tensor(weights, best_state["weights"], "the best weights")
        state.best = Best(
            _check_number(best_state["metric"]), convert(Natural, best_state["step"], "step"), best, buffers
        )
    for name, buffer in checkpoint["buffers"].items():
        own_buffers[name].copy_(_check_tensor(own_buffers[name], buffer, name))
    for name, tensor in state.tensors.items():
        # The optimiser counts its updates for every piece of the weights: they are as many as the steps.
        tensor.copy_(
            tensor.new_tensor(state.step) if name == "updates" else _check_tensor(tensor, checkpoint[name], name)
        )
    if checkpoint["random"].shape == state.random.get_state().shape:
        state.random.set_state(checkpoint["random"])
    else:  # random numbers differ on another kind of device anyway
        state.random.manual_seed(derive_seed(state.config.seed, "training", state.step))


def _check_tensor(tensor: Tensor, value: Any, name: str) -> Tensor:
    """Return a value on the device of a tensor, of whose shape and type it must be."""
    if not isinstance(value, Tensor) or (value.shape, value.dtype) != (tensor.shape, tensor.dtype):
        actual = f"{value.dtype} {tuple(value.shape)}" if isinstance(value, Tensor) else type(value).__name__
        raise ValueError(f"{name} must be {tensor.dtype} {tuple(tensor.shape)}, got {actual}")
    return value.to(tensor.device)


def _check_number(value: Any) -> float:
    if not isinstance(value, int | float):
        raise ValueError(f"a metric must be a number, got {value!r}")
    return value


@torch.no_grad()
def finish(state: RunState, fabric: Any, steps: int, seconds: float) -> None:
    """Test the best or the last weights and write the result. `steps` and `seconds` are those of this process."""
    if state.failure is not None:
        return
    if not state.tested:
        state.complete = True
        return
    task, budget, best = state.task, state.config.budget, state.best
    values = state.buffers() | name_parameters(state.model, state.weights)
    if budget.keep == "best" and best is not None:
        values |= best.buffers | name_parameters(state.model, best.weights)
    test = measure_test(state.config, task, state.model, values, fabric.device)
    state.complete = True
    if state.run is None:
        return
    state.run.save_model(state.model, values)
    epochs = None if state.plan.epoch is None else state.step / state.plan.epoch
    best_epoch = None if best is None or state.plan.epoch is None else best.step / state.plan.epoch
    state.run.save_result(
        {
            "task": {"name": task.name, **asdict(state.config.task)},
            "recipe": state.config.recipe,
            "model": state.config.model.name,
            "seed": state.config.seed,
            "metric": task.metric,
            "test": test,
            "tested": f"the {budget.keep} weights",
            "validation": state.kept_metric,
            "best_step": None if best is None else best.step,
            "best_epoch": None if best_epoch is None else round(best_epoch, 3),
            "better": task.better,
            "evaluated_on": task.evaluated_on,
            "trivial": task.trivial,
            "trivial_words": task.trivial_words,
            "solved": task.solved,
            "notes": list(task.notes),
            "steps": state.step,
            "epochs": None if epochs is None else round(epochs, 3),
            "seconds": round(state.seconds, 3),
            "sequences_per_second": round(steps * state.plan.batch / seconds, 1) if steps else None,
            "side_by_side": state.side_by_side,
            "parameters": count_parameters(state.model),
            "device": str(fabric.device),
            "processes": fabric.world_size,
            "machine": machine(),
            "version": __version__,
            **source(),
        }
    )
