"""The sizes that are measured, and the contenders."""

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from cornn import CoRNN, engine


@dataclass(frozen=True)
class Case:
    """The size of a problem."""

    steps: int
    batch: int
    hidden: int
    inputs: int = 1
    devices: tuple[str, ...] = ("cpu", "cuda")
    """Devices on which it is measured by default; some take minutes on a CPU."""


CASES = {
    "psmnist-128": Case(784, 120, 128),
    "psmnist-256": Case(784, 120, 256),
    "psmnist-512": Case(784, 120, 512, devices=("cuda",)),
    "har2-64": Case(128, 64, 64, 9),
    "adding-500": Case(500, 50, 128, 2),
    "adding-5000": Case(5000, 50, 128, 2, devices=("cuda",)),
    "cifar-128": Case(1000, 100, 128, 96),
    "one-128": Case(784, 1, 128),
    "one-256": Case(784, 1, 256, devices=("cuda",)),
    "many-128": Case(784, 1024, 128, devices=("cuda",)),
}
"""The sizes of the paper's experiments, and the smallest and largest batch."""

QUICK = ("har2-64", "adding-500", "one-128")


def _torchrecurrent(inputs: int, hidden: int, device: str) -> nn.Module:
    import torchrecurrent  # pyright: ignore[reportMissingImports]

    # Without the redundant biases of its coRNN.
    return torchrecurrent.coRNN(inputs, hidden, recurrent_bias=False, cell_bias=False, device=torch.device(device))


TORCH_LAYERS: dict[str, Callable[..., nn.Module]] = {"nn.LSTM": nn.LSTM, "nn.GRU": nn.GRU, "nn.RNN": nn.RNN}

OTHERS: dict[str, Callable[..., nn.Module]] = {
    "plain loop": functools.partial(CoRNN, backend="reference"),  # autograd through the reference equations
    "torchrecurrent coRNN": _torchrecurrent,
    **TORCH_LAYERS,
}


def contenders(case: Case, device: str) -> tuple[dict[str, nn.Module], dict[str, str]]:
    """Return name -> layer, and name -> reason for those that are left out. On a GPU, cuDNN runs PyTorch's layers."""
    layers, left_out = {}, {}
    for name, make in OTHERS.items():
        if make is _torchrecurrent and importlib.util.find_spec("torchrecurrent") is None:
            left_out[name] = "not installed: pip install torchrecurrent"
        else:
            layers[name] = make(case.inputs, case.hidden, device=device)
    update = engine.OSCILLATORS["explicit", "tanh"]
    problem = engine.Problem(update, torch.device(device), torch.float32, 1, case.steps, case.batch, case.hidden, False)
    for name, backend in engine.BACKENDS.items():
        usable, reason = backend.usable(problem)
        if usable:
            layers[f"coRNN, {name}"] = CoRNN(case.inputs, case.hidden, backend=name, device=device)
        else:
            left_out[f"coRNN, {name}"] = reason
    return layers, left_out
