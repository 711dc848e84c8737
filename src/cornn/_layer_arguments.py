"""Validation of the arguments of layers and cells: sizes, inputs, states, timespans and lengths."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from cornn._arguments import to_names
from cornn._counts import format_count
from cornn._torch_private import count_dispatch_modes, is_wrapped

__all__ = [
    "arrange_timespans",
    "check_count",
    "check_input",
    "check_lengths",
    "check_sizes",
    "check_state",
    "check_tensor",
    "check_timespans",
    "check_trainable",
]


def check_count(name: str, count: int) -> None:
    """Raise ValueError unless an argument is a positive integer."""
    if isinstance(count, bool) or not isinstance(count, int) or count < 1:
        raise ValueError(f"{name} must be a positive integer, got {count!r}")


def check_sizes(input_size: int, hidden_size: int) -> None:
    """Raise ValueError unless both sizes are positive integers."""
    check_count("input_size", input_size)
    check_count("hidden_size", hidden_size)


def check_trainable(trainable: str | Iterable[str], constants: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the constants to train as a tuple, after checking them."""
    choices = ", ".join(constants)
    if not isinstance(trainable, Iterable):
        raise TypeError(f"trainable is {trainable!r}, expected the names of the constants to train: any of {choices}")
    names = to_names(trainable)
    for name in names:
        if name not in constants:
            raise ValueError(f"trainable names {name!r}: choose any of {choices}")
    return names


def check_tensor(value: Any, name: str = "input") -> None:
    """Check that an argument is a tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name} is of type {type(value).__name__}, expected a tensor: use torch.as_tensor")


def check_input(input: Tensor, weight: Tensor, ranks: tuple[int, ...], kind: str) -> Tensor:
    """Check the dimensions, features, device and type of an input; autocast converts the type."""
    check_tensor(input)
    if input.dim() not in ranks:
        raise ValueError(f"input has {format_count(input.dim(), 'dimension')}, expected {kind}")
    if input.shape[-1] != weight.shape[-1]:
        raise ValueError(
            f"input has {input.shape[-1]} features, this layer expects {weight.shape[-1]} "
            f"(input_size={weight.shape[-1]})"
        )
    if input.device != weight.device:
        raise ValueError(f"input is on {input.device}, this layer on {weight.device}: move one with .to(...)")
    if input.dtype != weight.dtype:
        if not torch.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"input is {input.dtype}, this layer's weights are {weight.dtype}: "
                f"convert one, for instance input.to({weight.dtype})"
            )
        input = input.to(weight.dtype)
    # Kernels read the memory, in which a view such as `spectrum.conj().imag` has the other sign. Compilers cannot ask.
    return input.resolve_neg() if not torch.compiler.is_compiling() and input.is_neg() else input


def check_state(
    state: Tensor | tuple[Tensor, ...] | None, names: tuple[str, ...], shape: tuple[int, ...], input: Tensor
) -> tuple[Tensor, ...]:
    """Return the tensors of a state after checking them; zeros if it is None."""
    if state is None:
        return tuple(input.new_zeros(shape) for _ in names)
    if not isinstance(state, (Tensor, tuple, list)):  # a union of types would take longer, in each step of a cell
        raise TypeError(f"state is of type {type(state).__name__}, expected a tuple of tensors: ({', '.join(names)})")
    state = (state,) if isinstance(state, Tensor) else tuple(state)
    if len(state) != len(names):
        raise ValueError(f"state has {format_count(len(state), 'tensor')}, expected {len(names)}: ({', '.join(names)})")
    device, dtype, matches = input.device, input.dtype, True
    for name, part in zip(names, state, strict=True):
        if not isinstance(part, Tensor):
            check_tensor(part, f"state {name}")
        if part.shape != shape:
            raise ValueError(f"state {name} has shape {tuple(part.shape)}, expected {tuple(shape)}")
        if part.device != device:
            raise ValueError(f"state {name} is on {part.device}, the input on {device}: move it with .to(...)")
        if part.dtype != dtype:
            matches = False
            if not torch.is_autocast_enabled(device.type):
                raise ValueError(f"state {name} is {part.dtype}, the input {dtype}: convert one with .to(...)")
    return state if matches else tuple(part.to(dtype) for part in state)


def arrange_timespans(timespans: Tensor, input: Tensor, batch_first: bool) -> Tensor:
    """Return `timespans` as (time, batch), for time-major input."""
    steps, batch = input.shape[:2]
    if not isinstance(timespans, Tensor):
        raise TypeError("timespans must be a tensor with one number per step")
    if timespans.shape == (steps,):
        timespans = timespans.unsqueeze(1).expand(steps, batch)
    else:
        layout = (batch, steps) if batch_first else (steps, batch)
        if timespans.shape != layout:
            raise ValueError(f"timespans have shape {tuple(timespans.shape)}, expected ({steps},) or {layout}")
        timespans = timespans.mT if batch_first else timespans
    return check_timespans(timespans.to(input))


def _can_inspect(values: Tensor) -> bool:
    """Return whether the values can be inspected: on a CPU, outside torch.compile and vmap, and not while traced."""
    if values.device.type != "cpu" or torch.compiler.is_compiling() or is_wrapped(values):
        return False
    return type(values) in (Tensor, nn.Parameter) and not count_dispatch_modes()


def check_lengths(lengths: Tensor, input: Tensor, least: int = 0) -> Tensor:
    """Return `lengths`, each at least `least`, after checking them, as int64 on the device of a time-major input."""
    steps, batch = input.shape[:2]
    if not isinstance(lengths, Tensor) or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise TypeError("lengths must be an integer tensor with one number per sequence")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths have shape {tuple(lengths.shape)}, expected ({batch},)")
    if _can_inspect(lengths) and batch and not least <= lengths.min() <= lengths.max() <= steps:
        raise ValueError(f"lengths must lie between {least} and {steps}, got {lengths.min()} to {lengths.max()}")
    return lengths.to(input.device, torch.int64)  # differences of unsigned numbers would wrap around


def check_timespans(timespans: Tensor) -> Tensor:
    """Return `timespans` after checking their values, where these can be inspected."""
    if _can_inspect(timespans):
        good = (timespans >= 0) & timespans.isfinite()
        if not good.all():
            raise ValueError(f"timespans must be finite and not negative, got {timespans[~good][0].item()}")
    return timespans
