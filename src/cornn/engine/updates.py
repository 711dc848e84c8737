"""The pointwise part of a recurrence: what happens to the state once the matrix product of a step is done.

A recurrence is  a_n = R s_{n-1} + drive_n,  s_n = update(a_n, s_{n-1}).  The state s is `states` blocks of `hidden`
values, R has the blocks' columns side by side, and an update is a few pointwise operations with their derivative. All
coRNN variants share one form, linear in four coefficients per neuron:

    z = a z + c sigma(pre) - g y
    y = y + h z

The networks of one state h are below them. An update may have several `drives`, pre-activations of a neuron, side by
side; R then has as many blocks of rows (`products`), or a single one whose product goes to all of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from cornn.functional import ACTIVATIONS, DAMPINGS, duffing

__all__ = ["UPDATES", "Coefficients", "OneState", "Oscillator"]


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
    drives = 1
    products = 1
    timed = True  # a step has a time, which a span multiplies
    kernel = "Oscillator"  # its name in kernels/update.cuh
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


@dataclass(frozen=True)
class OneState:
    """The update of a network with one state, `functional.POINTWISE[pointwise]`, with its derivative.

    step_: (pre, h, parameters, out): out is the next h; pre, (batch, drives * hidden), becomes what is kept of it.
    adjoint_: (gradient, kept, h, parameters, delta): the gradient of the next h becomes that of h, less what comes
        through the product; delta is that of the pre-activations. Comes back: what the step gives for each parameter.
    """

    pointwise: str
    parameters: tuple[str, ...]
    step_: Callable[[Tensor, Tensor, tuple[Tensor, ...], Tensor], object]
    adjoint_: Callable[[Tensor, Tensor, Tensor, tuple[Tensor, ...], Tensor], tuple[Tensor, ...]]
    kernel: str  # its name in kernels/one_state.cuh
    drives: int = 1
    products: int = 1

    states = 1
    trail = 1  # besides the output h, what is kept of the pre-activations
    timed = False


def _leaky_step_(pre, h, parameters, out):
    leak, gain = parameters
    torch.mul(h, leak, out=out).addcmul_(pre.tanh_(), gain)


def _leaky_adjoint_(gradient, kept, h, parameters, delta):
    leak, gain = parameters
    terms = gradient * h, gradient * kept
    _tanh_slope_(gradient * gain, kept, delta)
    gradient *= leak
    return terms


def _fast_grnn_step_(pre, h, parameters, out):
    bias_z, bias_h, zeta, nu = parameters
    z, candidate = torch.sigmoid(pre + bias_z), torch.tanh(pre + bias_h)
    torch.mul(z, h, out=out).addcmul_(zeta * (1 - z) + nu, candidate)


def _fast_grnn_adjoint_(gradient, kept, h, parameters, delta):
    bias_z, bias_h, zeta, nu = parameters
    z, candidate = torch.sigmoid(kept + bias_z), torch.tanh(kept + bias_h)
    through_candidate = gradient * candidate
    for_z = (gradient * h - zeta * through_candidate) * (z * (1 - z))
    for_candidate = gradient * (zeta * (1 - z) + nu) * (1 - candidate * candidate)
    torch.add(for_z, for_candidate, out=delta)
    gradient *= z
    return for_z, for_candidate, through_candidate * (1 - z), through_candidate


def _gated_step_(pre, h, parameters, out):
    (epsilon,) = parameters
    gate, candidate = pre.chunk(2, -1)
    torch.addcmul(h, gate.sigmoid_() * epsilon, candidate.tanh_(), out=out)


def _gated_adjoint_(gradient, kept, h, parameters, delta):
    (epsilon,) = parameters
    gate, candidate = kept.chunk(2, -1)
    for_gate, for_candidate = delta.chunk(2, -1)
    scaled = gradient * epsilon
    torch.mul(scaled * candidate, gate * (1 - gate), out=for_gate)
    torch.mul(scaled * gate, 1 - candidate * candidate, out=for_candidate)
    return (gradient * gate * candidate,)


def _modrelu_step_(pre, h, parameters, out):
    (bias,) = parameters
    torch.mul(torch.relu_(pre.abs() + bias), torch.sign(pre), out=out)


def _modrelu_adjoint_(gradient, kept, h, parameters, delta):
    (bias,) = parameters
    sign = torch.sign(kept)
    for_bias = gradient * sign * (kept.abs() + bias > 0)
    torch.mul(for_bias, sign, out=delta)
    gradient.zero_()
    return (for_bias,)


def _lipschitz_step_(pre, h, parameters, out):
    (epsilon,) = parameters
    linear, inner = pre.chunk(2, -1)
    torch.addcmul(h, linear + inner.tanh_(), epsilon, out=out)


def _lipschitz_adjoint_(gradient, kept, h, parameters, delta):
    (epsilon,) = parameters
    linear, inner = kept.chunk(2, -1)
    for_linear, for_inner = delta.chunk(2, -1)
    torch.mul(gradient, epsilon, out=for_linear)
    torch.mul(for_linear, 1 - inner * inner, out=for_inner)
    return (gradient * (linear + inner),)


UPDATES: dict[str, Oscillator | OneState] = {
    f"cornn/{damping}/{activation}": Oscillator(damping, activation)
    for damping in DAMPINGS
    for activation in ACTIVATIONS
} | {
    rule.pointwise: rule
    for rule in (
        OneState("leaky", ("leak", "gain"), _leaky_step_, _leaky_adjoint_, kernel="Leaky"),
        OneState(
            "fastgrnn",
            ("bias_z", "bias_h", "zeta", "nu"),
            _fast_grnn_step_,
            _fast_grnn_adjoint_,
            kernel="FastGRNN",
        ),
        OneState("gated", ("epsilon",), _gated_step_, _gated_adjoint_, kernel="Gated", drives=2),
        OneState("modrelu", ("bias",), _modrelu_step_, _modrelu_adjoint_, kernel="ModReLU"),
        OneState(
            "lipschitz",
            ("epsilon",),
            _lipschitz_step_,
            _lipschitz_adjoint_,
            kernel="Lipschitz",
            drives=2,
            products=2,
        ),
    )
}
"""Name -> the pointwise part of a recurrence, forward and backward."""
