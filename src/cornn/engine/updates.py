"""The pointwise part of a recurrence: what happens to the state once the matrix product of a step is done.

A recurrence is  a_n = R s_{n-1} + drive_n,  s_n = update(a_n, s_{n-1}).  The state s is `states` blocks of `hidden`
values, R has the blocks' columns side by side, and an update is a few pointwise operations with their derivative. All
coRNN variants share one form, linear in four coefficients per neuron:

    z = a z + c sigma(pre) - g y
    y = y + h z
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.functional import ACTIVATIONS, DAMPINGS, duffing

__all__ = ["UPDATES", "Coefficients", "Oscillator"]


@dataclass(frozen=True)
class Kept:
    """What is kept of an activation for the backward pass, in place of its argument."""

    keep_: Callable[[Tensor], Tensor]  # argument -> kept, in place
    value: Callable[[Tensor], Tensor]  # kept -> sigma(argument)
    slope_: Callable[[Tensor, Tensor, Tensor], object]  # (gradient, kept, out): out = gradient * sigma'(argument)


def _tanh_slope_(gradient: Tensor, kept: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(gradient, kept, grad_input=out)


KEPT = {
    "tanh": Kept(torch.tanh_, lambda kept: kept, _tanh_slope_),
    "identity": Kept(lambda x: x, lambda kept: kept, lambda gradient, kept, out: out.copy_(gradient)),
    "relu": Kept(torch.relu_, lambda kept: kept, lambda gradient, kept, out: torch.mul(gradient, kept > 0, out=out)),
    "duffing": Kept(lambda x: x, duffing, lambda gradient, kept, out: torch.mul(gradient, 1 - kept * kept, out=out)),
}


class Coefficients(NamedTuple):
    """a, c, g, h of  z = a z + c sigma(pre) - g y;  y = y + h z. They broadcast against (batch, hidden)."""

    a: Tensor
    c: Tensor
    g: Tensor
    h: Tensor


@dataclass(frozen=True)
class Oscillator:
    """coRNN's update. Its parameters are dt, gamma and epsilon; a span multiplies dt for one step."""

    damping: str
    activation: str

    states = 2  # y and z
    trail = 2  # besides the output y, the backward pass needs z and what is kept of the activation
    parameters = ("dt", "gamma", "epsilon")

    def coefficients(self, parameters: Tensor, span: Tensor | None) -> Coefficients:
        """`parameters` is (3, 1, hidden), or (3, group, 1, hidden); `span` is (batch, 1) or None."""
        dt, gamma, epsilon = parameters.unbind(0)
        h = dt if span is None else dt * span
        if self.damping == "explicit":
            return Coefficients(1 - h * epsilon, h, h * gamma, h)
        w = 1 / (1 + h * epsilon)
        return Coefficients(w, h * w, h * gamma * w, h)

    def parameter_gradients(
        self, parameters: Tensor, span: Tensor | None, gradient: Coefficients
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """From gradients for the coefficients to gradients for dt, gamma, epsilon and the span, not yet summed."""
        dt, gamma, epsilon = parameters.unbind(0)
        h = dt if span is None else dt * span
        if self.damping == "explicit":
            for_h = gradient.h + gradient.c + gamma * gradient.g - epsilon * gradient.a
            for_gamma, for_epsilon = h * gradient.g, -h * gradient.a
        else:
            w = 1 / (1 + h * epsilon)
            for_w = gradient.a + h * gradient.c + h * gamma * gradient.g
            for_h = gradient.h + w * (gradient.c + gamma * gradient.g) - epsilon * w * w * for_w
            for_gamma, for_epsilon = h * w * gradient.g, -h * w * w * for_w
        return (for_h if span is None else for_h * span), for_gamma, for_epsilon, for_h * dt


UPDATES = {
    f"cornn/{damping}/{activation}": Oscillator(damping, activation)
    for damping in DAMPINGS
    for activation in ACTIVATIONS
}
