"""The pointwise part of a recurrence: what happens to the state once the matrix product of a step is done.

A recurrence is  a_n = R s_{n-1} + drive_n,  s_n = update(a_n, s_{n-1}).  The state s is `states` blocks of `hidden`
values, R has the blocks' columns side by side, and an update is a few pointwise operations with their derivative. All
coRNN variants share one form, linear in four coefficients per neuron (`functional.coefficients`):

    z = keep * z + push * sigma(pre) - pull * y
    y = y + dt * z

The networks of one state h are below them. An update may have several `drives`, pre-activations of a neuron, side by
side; R then has as many blocks of rows (`products`), or a single one whose product goes to all of them.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.functional import ACTIVATIONS, DAMPINGS, Activation, Coefficients, coefficients

__all__ = ["OSCILLATORS", "UPDATES", "OneState", "Oscillator", "Saved", "Update", "saved_activation"]


@dataclass(frozen=True)
class Saved:
    """An activation with what is saved of it for the backward pass: its value, or its argument."""

    save_: Callable[[Tensor], Tensor]  # argument -> saved, in place
    value: Callable[[Tensor], Tensor]  # saved -> sigma(argument)
    backward_: Callable[[Tensor, Tensor, Tensor], object]  # (gradient, saved, out): out = gradient * sigma'(argument)


def saved_activation(activation: Activation) -> Saved:
    """Choose what to save: the value if the slope can be computed from it, else the argument."""
    if activation.value_ is not None and activation.backward_ is not None:
        return Saved(activation.value_, lambda saved: saved, activation.backward_)
    return Saved(
        lambda x: x,
        activation.value,
        lambda gradient, saved, out: torch.mul(gradient, activation.slope(saved), out=out),
    )


def _tanh_backward_(gradient: Tensor, value: Tensor, out: Tensor) -> None:
    torch.ops.aten.tanh_backward.grad_input(gradient, value, grad_input=out)


@dataclass(frozen=True, eq=False)
class Oscillator:
    """coRNN's update. Its parameters are dt, gamma and epsilon; a span multiplies dt for one step.

    There is one object of each, in `OSCILLATORS`.
    """

    damping: str
    activation: str

    states = 2  # y and z
    trail = 2  # besides the output y, the backward pass needs z and what is kept of the activation
    drives = 1
    products = 1
    timed = True  # a step has a time, which a span multiplies
    kernel = "Oscillator"  # its name in kernels/update.cuh
    parameters = ("dt", "gamma", "epsilon")

    @functools.cached_property
    def name(self) -> str:
        """Its key in `UPDATES`, which the operator and the C library are given."""
        return f"cornn/{self.damping}/{self.activation}"

    @functools.cached_property
    def saved(self) -> Saved:
        """The activation, with what is saved of it for the backward pass."""
        return saved_activation(ACTIVATIONS[self.activation])

    def coefficients(self, parameters: Tensor, span: Tensor | None) -> Coefficients:
        """`parameters` is (3, 1, hidden), or (3, group, 1, hidden); `span` is (batch, 1) or None."""
        dt, gamma, epsilon = parameters.unbind(0)
        return coefficients(dt, gamma, epsilon, span, self.damping)

    def parameter_gradients(
        self, parameters: Tensor, span: Tensor | None, gradient: Coefficients
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Turn gradients of the coefficients into those of dt, gamma, epsilon and the span, not yet summed."""
        dt, gamma, epsilon = parameters.unbind(0)
        h = dt if span is None else dt * span
        if self.damping == "explicit":
            for_h = gradient.dt + gradient.push + gamma * gradient.pull - epsilon * gradient.keep
            for_gamma, for_epsilon = h * gradient.pull, -h * gradient.keep
        else:
            keep = 1 / (1 + h * epsilon)
            for_keep = gradient.keep + h * gradient.push + h * gamma * gradient.pull
            for_h = gradient.dt + keep * (gradient.push + gamma * gradient.pull) - epsilon * keep * keep * for_keep
            for_gamma, for_epsilon = h * keep * gradient.pull, -h * keep * keep * for_keep
        return (for_h if span is None else for_h * span), for_gamma, for_epsilon, for_h * dt


@dataclass(frozen=True, eq=False)
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

    @property
    def name(self) -> str:
        """Its key in `UPDATES`, which the operator and the C library are given."""
        return self.pointwise


Update = Oscillator | OneState
"""The pointwise part of a recurrence, forward and backward. Adding one is described in CONTRIBUTING.md."""


def _leaky_step_(pre, h, parameters, out):
    leak, gain = parameters
    torch.mul(h, leak, out=out).addcmul_(pre.tanh_(), gain)


def _leaky_adjoint_(gradient, kept, h, parameters, delta):
    leak, gain = parameters
    terms = gradient * h, gradient * kept
    _tanh_backward_(gradient * gain, kept, delta)
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


OSCILLATORS = {
    (damping, activation): Oscillator(damping, activation) for damping in DAMPINGS for activation in ACTIVATIONS
}
"""(damping, activation) -> coRNN's update."""

_ONE_STATE = (
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

UPDATES: dict[str, Update] = {update.name: update for update in (*OSCILLATORS.values(), *_ONE_STATE)}
"""Name -> update."""
