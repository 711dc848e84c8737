"""coRNN:  z = keep * z + push * sigma(pre) - pull * y,  y = y + dt * z,  with `functional.coefficients`.

Its kernels are written by hand: csrc/oscillator.h shares its step with streams, and kernels/update.cuh has a form with
a shorter critical path. Both support timespans.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from cornn.engine.updates.update import InPlace, Update
from cornn.functional import ACTIVATIONS, DAMPINGS, Activation, Coefficients, advance, coefficients

__all__ = ["OSCILLATORS", "Oscillator", "Saved", "TimedUpdate", "saved_activation"]


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


class TimedUpdate(Update):
    """An update of coRNN: steps have a time, and the kernels are written by hand."""

    timed = True
    kernel: str  # name of its struct in kernels/update.cuh
    activation: str
    damping = "explicit"

    @functools.cached_property
    def macros(self) -> Mapping[str, object]:
        """The macros of the CUDA kernels."""
        implicit = int(self.damping == "implicit")
        return {"UPDATE": self.kernel, "IMPLICIT": implicit, "ACTIVATION": self.activation.upper()}

    @functools.cached_property
    def saved(self) -> Saved:
        """The activation and the values that are saved for the backward pass."""
        return saved_activation(ACTIVATIONS[self.activation])


class Oscillator(TimedUpdate):
    """coRNN's update. Its parameters are dt, gamma and epsilon; a span multiplies dt for one step.

    There is one object of each, in `OSCILLATORS`.
    """

    kernel = "Oscillator"

    def __init__(self, damping: str, activation: str) -> None:
        def reference(pre, y, z, dt, gamma, epsilon):
            return advance(ACTIVATIONS[activation](pre), y, z, dt, gamma, epsilon, damping=damping)

        object.__setattr__(self, "damping", damping)
        object.__setattr__(self, "activation", activation)
        super().__init__(
            f"cornn/{damping}/{activation}",
            {"dt": 0.05, "gamma": 0.5, "epsilon": 4.0},
            reference,
            state=("y", "z"),
            in_place=InPlace(self._step_, self._adjoint_),
        )

    def coefficients(self, parameters: Tensor, span: Tensor | None) -> Coefficients:
        """`parameters` is (3, 1, hidden), or (3, group, 1, hidden); `span` is (batch, 1) or None."""
        dt, gamma, epsilon = parameters.unbind(0)
        return coefficients(dt, gamma, epsilon, span, self.damping)

    def parameter_gradients(
        self, parameters: Tensor, span: Tensor | None, gradient: Sequence[Tensor]
    ) -> tuple[Sequence[Tensor], Tensor]:
        """Turn gradients of the coefficients into those of dt, gamma, epsilon and the span, not yet summed."""
        dt, gamma, epsilon = parameters.unbind(0)
        grad = Coefficients(*gradient)
        h = dt if span is None else dt * span
        if self.damping == "explicit":
            for_h = grad.dt + grad.push + gamma * grad.pull - epsilon * grad.keep
            for_gamma, for_epsilon = h * grad.pull, -h * grad.keep
        else:
            keep = 1 / (1 + h * epsilon)
            for_keep = grad.keep + h * grad.push + h * gamma * grad.pull
            for_h = grad.dt + keep * (grad.push + gamma * grad.pull) - epsilon * keep * keep * for_keep
            for_gamma, for_epsilon = h * keep * grad.pull, -h * keep * keep * for_keep
        return (for_h if span is None else for_h * span, for_gamma, for_epsilon), for_h * dt

    def _step_(self, pre, state, k, after) -> None:
        (y, z), (next_y, next_z), sigma = state, after, self.saved
        force = sigma.value(sigma.save_(pre))
        torch.mul(z, k.keep, out=next_z).addcmul_(force, k.push).addcmul_(y, k.pull, value=-1)
        torch.addcmul(y, next_z, k.dt, out=next_y)

    def _adjoint_(self, gradient, kept, before, after, k, delta, sums) -> None:
        (grad_y, grad_z), (y, z), sigma = gradient, before, self.saved
        if sums is not None:
            sums[3].addcmul_(grad_y, after[1])
        grad_z.addcmul_(grad_y, k.dt)
        if sums is not None:
            sums[0].addcmul_(grad_z, z)
            sums[1].addcmul_(grad_z, sigma.value(kept))
            sums[2].addcmul_(grad_z, y, value=-1)
        torch.mul(grad_z, k.push, out=delta)
        sigma.backward_(delta, kept, delta)
        grad_y.addcmul_(grad_z, k.pull, value=-1)
        grad_z *= k.keep


OSCILLATORS = {
    (damping, activation): Oscillator(damping, activation) for damping in DAMPINGS for activation in ACTIVATIONS
}
"""(damping, activation) -> coRNN's update."""
