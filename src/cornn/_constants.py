"""Validation of dt, gamma and epsilon, and the maps that keep them in range during training."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

__all__ = [
    "CONSTANTS",
    "Oscillators",
    "Values",
    "complete",
    "constant",
    "constrain",
    "format_constants",
    "unconstrain",
]

Values = float | Sequence[float] | Tensor
"""dt, gamma or epsilon: one number, or one per neuron."""

CONSTANTS = ("dt", "gamma", "epsilon")

DEFAULT_CONSTANTS = {"dt": 0.05, "gamma": 0.5, "epsilon": 4.0}
"""What dt, gamma and epsilon are if only some of them are given, or an init of `INITS`."""


class Oscillators(NamedTuple):
    """The constants of the oscillators, each of shape `()` or `(hidden)`.

    Attributes:
        dt: Time step.
        gamma: Stiffness.
        epsilon: Damping.
    """

    dt: Tensor
    gamma: Tensor
    epsilon: Tensor


def constant(name: str, value: Values, hidden_size: int, per_neuron: bool) -> Tensor:
    """Validate `value` and return it as a float64 tensor of shape () or (hidden)."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64, device="cpu").detach().clone()
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} must be a number, or one for each neuron, got {value!r}") from error
    if tensor.shape not in ((), (1,), (hidden_size,)):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}: give one number, or one for each of the {hidden_size} neurons"
        )
    if name == "dt":
        _check_values(tensor, (tensor > 0) & (tensor < 1), "dt must lie between 0 and 1")
    else:
        _check_values(tensor, (tensor >= 0) & tensor.isfinite(), f"{name} must be finite and not negative")
    if tensor.shape == (hidden_size,):
        return tensor
    tensor = tensor.reshape(())
    return tensor.expand(hidden_size).clone() if per_neuron else tensor


def complete(constants: Mapping[str, Values | None], hidden_size: int, per_neuron: bool) -> dict[str, Tensor]:
    """Validate constants as `constant` does; those that are None get their default."""
    return {
        name: constant(name, DEFAULT_CONSTANTS[name] if value is None else value, hidden_size, per_neuron)
        for name, value in constants.items()
    }


def _check_values(tensor: Tensor, good: Tensor, requirement: str) -> None:
    """Raise ValueError with the first value that is not good. Fake tensors have no values."""
    if type(tensor) is Tensor and not good.all():
        raise ValueError(f"{requirement}, got {tensor[~good].flatten()[0].item()}")


def unconstrain(name: str, value: Tensor) -> Tensor:
    """Return the unconstrained parameter of a trainable constant; the inverse of `constrain`."""
    if name == "dt":
        return torch.logit(value)
    _check_values(value, value > 0, f"a trainable {name} must start above 0")
    return value + torch.log(-torch.expm1(-value))


def constrain(name: str, raw: Tensor) -> Tensor:
    """Map dt into (0, 1) by a sigmoid, and gamma and epsilon above 0 by a softplus; the bounds are never reached."""
    limits = torch.finfo(raw.dtype)
    least = min(limits.tiny, 1e-7)  # tiny of float16 is as large as the constants for long memory
    if name == "dt":
        return least + (1 - limits.eps) * torch.sigmoid(raw)
    return torch.nn.functional.softplus(raw, threshold=40) + least


def format_constants(constants: Oscillators) -> str:
    """Return the constants as text, for `repr`; a range for one value per neuron."""
    return ", ".join(f"{name}={_format(value)}" for name, value in constants._asdict().items())


def _format(value: Tensor) -> str:
    if value.is_meta or type(value) is not Tensor:  # a fake tensor has no values
        return "?"
    return f"{value.item():.4g}" if value.dim() == 0 else f"{value.min():.3g}..{value.max():.3g}"
