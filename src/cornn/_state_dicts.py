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
    """Return whether a cell with scales loads a complete state_dict of version 0.1.0, which has none, of its sizes."""
    if cell.scale_ih is None or metadata.get("version", 1) >= SCALES_SINCE or f"{prefix}scale_ih" in state_dict:
        return False
    constants = _name_constants(cell)
    # Of a selection, such as the parameters alone, or of other sizes: then loading fails, and the layer must stay as
    # it is.
    for name, own in (*cell.named_parameters(recurse=False), *cell.named_buffers(recurse=False)):
        given = state_dict.get(prefix + name)
        if name in WeightScales._fields:
            continue
        if given is None or (given.shape != own.shape and not (name in constants and given.dim() == 0)):
            return False
    return True


def adopt_paper_layer(cell: Any, state_dict: dict[str, Tensor], prefix: str) -> None:
    """Make a cell the one that a state_dict of version 0.1.0 was saved from, with constants of the cell's shapes."""
    cell.init, cell.default_constants = "paper", False
    for name in WeightScales._fields:
        setattr(cell, name, None)
    for name in _name_constants(cell):
        # A clone, since `assign=True` keeps the tensor, in which each neuron needs a number of its own.
        state_dict[prefix + name] = state_dict[prefix + name].expand_as(getattr(cell, name)).clone()


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
