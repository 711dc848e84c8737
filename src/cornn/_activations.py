"""The activation functions, in one table; `cornn.functional` exports them."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["ACTIVATIONS", "Activation", "duffing"]


def duffing(x: Tensor) -> Tensor:
    """Return x - x**3 / 3, the first two terms of tanh: each neuron is then a Duffing oscillator (appendix C)."""
    return x - x**3 / 3


@dataclass(frozen=True)
class Activation:
    """An activation function sigma, for every part of the package that needs one.

    Attributes:
        value: sigma(x).
        slope: The derivative sigma'(x).
        numpy: sigma(x) of a NumPy array. None: PyTorch computes it, more slowly.
        onnx: sigma in ONNX operators: a function of `op` and the name of x that returns the name of the result.
            `op("Mul", x, 3.0)` adds one operator, whose inputs are names or numbers. None: no ONNX export.
        value_: Computes sigma(x) in place, for an activation whose slope is a function of its value. The portable
            backend then saves the value for the backward pass, and calls `backward_`. None: it saves x.
        backward_: Function of `(gradient, value, out)` that writes gradient * sigma'(x) to `out`; goes with `value_`.
        unit_bounded: Whether |sigma(x)| <= 1 for every x. The theory proves bounds on states only then.
        unit_slope: Whether 0 <= sigma'(x) <= 1 for every x. The theory proves bounds on gradients only then.
    """

    value: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor], Tensor]
    numpy: Callable[[NDArray], NDArray] | None = None
    onnx: Callable[[Callable[..., str], str], str] | None = None
    value_: Callable[[Tensor], Tensor] | None = None
    backward_: Callable[[Tensor, Tensor, Tensor], object] | None = None
    unit_bounded: bool = False
    unit_slope: bool = False

    def __call__(self, x: Tensor) -> Tensor:
        """Return sigma(x)."""
        return self.value(x)

    def of_array(self, x: NDArray) -> NDArray:
        """Return sigma(x) of a NumPy array."""
        return self.value(torch.from_numpy(x)).numpy() if self.numpy is None else self.numpy(x)


ACTIVATIONS: dict[str, Activation] = {
    "tanh": Activation(
        value=torch.tanh,
        slope=lambda x: 1 - torch.tanh(x) ** 2,
        numpy=np.tanh,
        onnx=lambda op, x: op("Tanh", x),
        value_=torch.tanh_,
        backward_=lambda gradient, value, out: torch.ops.aten.tanh_backward.grad_input(gradient, value, grad_input=out),
        unit_bounded=True,
        unit_slope=True,
    ),
    "identity": Activation(
        value=lambda x: x,
        slope=torch.ones_like,
        numpy=lambda x: x,
        onnx=lambda op, x: x,
        value_=lambda x: x,
        backward_=lambda gradient, value, out: out.copy_(gradient),
        unit_slope=True,
    ),
    "relu": Activation(
        value=torch.relu,
        slope=lambda x: (x > 0).to(x),
        numpy=lambda x: np.maximum(x, 0),
        onnx=lambda op, x: op("Relu", x),
        value_=torch.relu_,
        backward_=lambda gradient, value, out: torch.mul(gradient, value > 0, out=out),
        unit_slope=True,
    ),
    "duffing": Activation(
        value=duffing,
        slope=lambda x: 1 - x**2,
        numpy=lambda x: x - x**3 / 3,
        onnx=lambda op, x: op("Sub", x, op("Div", op("Mul", x, op("Mul", x, x)), 3.0)),
    ),
}
"""Name -> activation. A new entry works everywhere; the C and CUDA kernels need their own code (CONTRIBUTING.md)."""
