"""The state_dicts of CoRNN's cells: those of version 0.1.0, and those of layers with other constants."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from cornn._constants import CONSTANTS
from cornn._scaling import WeightScales

__all__ = ["adopt_paper_layer", "describe_other_constants", "is_without_scales"]

SCALES_SINCE = 2
"""Version of the state_dicts from which on they have scales."""
KINDS = {True: "the default constants", False: "dt, gamma or epsilon"}


def is_without_scales(cell: Any, state_dict: Mapping[str, Tensor], prefix: str, metadata: Mapping[str, Any]) -> bool:
    """Return whether a cell with scales loads a complete state_dict of version 0.1.0, which has none."""
    names = ["weight_ih", *_name_constants(cell)]
    return (
        cell.scale_ih is not None
        and metadata.get("version", 1) < SCALES_SINCE
        and f"{prefix}scale_ih" not in state_dict
        and all(prefix + name in state_dict for name in names)  # not a selection, such as the parameters alone
    )


def adopt_paper_layer(cell: Any, state_dict: dict[str, Tensor], prefix: str, neurons: int) -> None:
    """Make a cell the one that a state_dict of version 0.1.0 was saved from, and give each neuron its constants."""
    cell.init, cell.default_constants = "paper", False
    for name in WeightScales._fields:
        setattr(cell, name, None)
    for name in _name_constants(cell):
        if state_dict[prefix + name].dim() == 0:
            # A clone, since `assign=True` keeps the tensor, in which each neuron needs a number of its own.
            state_dict[prefix + name] = state_dict[prefix + name].expand(neurons).clone()


def describe_other_constants(default: bool, prefix: str, metadata: Mapping[str, Any]) -> str | None:
    """Return the error of a state_dict whose tensors fit, but whose timespans have another unit; None if they agree."""
    if metadata.get("default_constants", default) == default:
        return None
    return (
        f"{prefix}weight_hh is from a layer with {KINDS[not default]}, this one has {KINDS[default]}: pass the same "
        "arguments to both"
    )


def _name_constants(cell: Any) -> list[str]:
    return [f"free_{name}" if name in cell.trainable else name for name in CONSTANTS]
