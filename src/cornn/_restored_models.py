"""Construct a model with weights from a file, which may be damaged or malicious."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

__all__ = ["check_sizes", "construct_with"]

Model = TypeVar("Model", bound=nn.Module)


def check_sizes(
    weights: Mapping[str, Tensor], outputs: int, hidden_size: int, num_layers: int, *, bidirectional: bool
) -> None:
    """Raise ValueError unless the sizes that a layer's constructor loops over are those of the weights of a model."""
    if "head.weight" not in weights:
        raise ValueError("head.weight is missing")
    width = hidden_size * (2 if bidirectional else 1)
    if weights["head.weight"].shape != (outputs, width):
        shape = tuple(weights["head.weight"].shape)
        raise ValueError(f"head.weight has shape {shape}, expected {(outputs, width)}")
    if num_layers > len(weights):
        raise ValueError(f"num_layers is {num_layers}, the file has {len(weights)} tensors")
    # Each layer has at least one number per neuron; a constructor may keep a few of them even without memory.
    numbers = sum(value.numel() for value in weights.values())
    if num_layers * width > numbers:
        raise ValueError(f"{num_layers} layers of {width} neurons need more than the {numbers} numbers in the file")


def construct_with(weights: Mapping[str, Tensor], construct: Callable[[str], Model]) -> Model:
    """Construct a model with its weights; `construct` makes it on a device.

    First without memory: the sizes in a damaged or malicious file may exceed this machine's.
    """
    shapes = {name: value.to("meta") for name, value in weights.items()}
    construct("meta").load_state_dict(shapes)
    with torch.random.fork_rng(devices=[]):
        model = construct("cpu")
    model.load_state_dict(dict(weights))
    return model
