"""HORN: harmonic oscillators with heterogeneous constants that are coupled through their velocities.

F. Effenberger, P. Carvalho, I. Dubinin and W. Singer, The functional role of oscillatory dynamics in neocortical
circuits: A computational perspective, PNAS 2025 (doi 10.1073/pnas.2412830122).

    y <- y + h (alpha tanh(V u + b + W y / sqrt(n)) - omega**2 x - 2 gamma y)
    x <- x + h y

Divided by alpha, x and y are the y and z of coRNN with W = 0, W_z = W diag(alpha) / sqrt(n), stiffness omega**2 and
damping 2 gamma. So coRNN's kernels run it.
"""

import math
from collections.abc import Sequence
from numbers import Real
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cornn import engine
from cornn._layer_arguments import check_trainable
from cornn._random import uniform_
from cornn.baselines.layer import Arguments, Cell, Layer

__all__ = ["HORN", "HORNCell", "HORNConstants"]

CONSTANTS = ("omega", "gamma", "alpha")


class HORNConstants(NamedTuple):
    """The constants of the oscillators, each of shape `(hidden)`.

    Attributes:
        omega: Natural frequency.
        gamma: Damping.
        alpha: Excitability.
    """

    omega: Tensor
    gamma: Tensor
    alpha: Tensor


class HORNCell(Cell):
    """Weights and step of `HORN`: weight_ih (hidden, input), weight_hh (hidden, hidden), bias (hidden)."""

    states = ("x", "y")
    update = "cornn/explicit/tanh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        h: float = 1.0,
        omega: float = 2 * math.pi / 28,
        gamma: float = 0.01,
        alpha: float = 0.04,
        spread: float = 2.0,
        trainable: Sequence[str] = (),
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        for name, value in (("h", h), ("omega", omega), ("gamma", gamma), ("alpha", alpha), ("spread", spread)):
            if not isinstance(value, Real):
                raise TypeError(f"{name} is of type {type(value).__name__}, expected one number for all neurons")
            if name != "spread" and not 0 < value < math.inf:
                raise ValueError(f"{name} must be above 0 and finite, got {value}")
        if not spread >= 1:
            raise ValueError(f"spread must be at least 1, got {spread}")
        angle = h * spread * omega
        reach = angle * angle + 4 * h * spread * gamma
        if not reach < 4:
            raise ValueError(
                f"h={h}, omega={omega:.4g} and gamma={gamma:.4g} with spread={spread} diverge: "
                f"(h * spread * omega)**2 + 4 * h * spread * gamma is {reach:.3g} and must be below 4"
            )
        self.trainable = check_trainable(trainable, CONSTANTS)
        self.h, self.omega, self.gamma, self.alpha, self.spread = h, omega, gamma, alpha, spread
        where = {"device": device, "dtype": dtype}
        self.add_weights(bias, where)
        for name in CONSTANTS:  # as logarithms, so that they stay above 0
            value = torch.empty(hidden_size, **where)
            if name in self.trainable:
                self.register_parameter(f"log_{name}", nn.Parameter(value))
            else:
                self.register_buffer(f"log_{name}", value)
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw the weights as `nn.Linear` does, and omega and gamma from U(value / spread, value * spread)."""
        for parameter, inputs in (
            (self.weight_ih, self.input_size),
            (self.weight_hh, self.hidden_size),
            (self.bias, self.input_size),
        ):
            uniform_(parameter, -(inputs**-0.5), inputs**-0.5, generator)
        for name in CONSTANTS:
            value, tensor = getattr(self, name), getattr(self, f"log_{name}")
            if name == "alpha":
                tensor.fill_(math.log(value))
            else:
                uniform_(tensor, value / self.spread, value * self.spread, generator)
                tensor.log_()

    def constants(self) -> HORNConstants:
        """Return omega, gamma and alpha of every neuron; trainable ones are differentiable."""
        with engine.no_autocast(self.weight_ih.device.type):
            return HORNConstants(*(torch.exp(getattr(self, f"log_{name}")) for name in CONSTANTS))

    def arguments(self) -> Arguments:
        """Return the weights of the coRNN whose state is that of HORN divided by alpha."""
        omega, gamma, alpha = self.constants()
        coupling = self.weight_hh * (alpha * self.hidden_size**-0.5)
        parameters = torch.stack((torch.full_like(omega, self.h), omega * omega, 2 * gamma))
        return Arguments(self.weight_ih, self.bias, torch.cat((torch.zeros_like(coupling), coupling), 1), parameters)

    def forward(self, input: Tensor, state: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, ...]:
        """Compute the next x and y.

        Args:
            input: Shape `(batch, input_size)` or `(input_size)`.
            state: x and y, each of shape `(batch, hidden_size)` or `(hidden_size)`; zeros if None.
        """
        alpha = self.constants().alpha
        scaled = None if state is None else tuple(part / alpha for part in state)
        return tuple(part * alpha for part in super().forward(input, scaled))

    def sequence(self, input: Tensor, state: Tensor | None, *, every: bool, **options) -> tuple[Tensor, tuple]:
        alpha = self.constants().alpha
        scaled = None if state is None else state / alpha
        output, parts = super().sequence(input, scaled, every=every, **options)
        return output * alpha if every else output, tuple(part * alpha for part in parts)

    def extra_repr(self) -> str:
        constants = ", ".join(f"{name}={getattr(self, name):.4g}" for name in ("h", *CONSTANTS, "spread"))
        return f"{super().extra_repr()}, {constants}" + (f", trainable={self.trainable}" if self.trainable else "")


class HORN(Layer):
    """Harmonic oscillators coupled through their velocities: `output, (x, y) = layer(input)`, like `nn.LSTM`.

    The output is x, the amplitude of the oscillators. omega and gamma differ between neurons: they are drawn when the
    layer is made, and stay fixed unless they are `trainable`. `timespans` are factors on h. The other arguments are
    those of `CoRNN`.

    Args:
        h: Time step.
        omega: Natural frequency, in radians per unit of time.
        gamma: Damping.
        alpha: Excitability: factor of the force.
        spread: omega and gamma of the neurons lie between value / spread and value * spread; 1 makes all equal.
        trainable: Names of the constants to train: any of "omega", "gamma", "alpha".

    Examples:
        >>> layer = HORN(3, 64)
        >>> output, (x, y) = layer(torch.randn(100, 8, 3))
    """

    kind = HORNCell
