"""The incremental RNN: a state that is the increment towards the equilibrium of an ordinary differential equation.

Source: Kag, Zhang and Saligrama, RNNs incrementally evolving on an equilibrium manifold, ICLR 2020.

    g = 0, then K times
        g <- g + eta_i * (phi(U (g + h) + W x + b) - alpha * (g + h))
    h <- g

At the equilibrium g + h does not depend on h, so the derivative of the new h by the old one is minus the identity.
"""

import torch
from torch import Tensor, nn

from cornn._arguments import check_known
from cornn._random import uniform_
from cornn.baselines.layer import Layer
from cornn.baselines.stepwise import Step, StepwiseCell
from cornn.functional import ACTIVATIONS

__all__ = ["IncrementalRNN", "IncrementalRNNCell"]


class IncrementalRNNCell(StepwiseCell):
    """Weights and step of `IncrementalRNN`. Weights and bias start in U(+-1 / sqrt(hidden_size))."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        inner_steps: int = 5,
        eta: float = 0.5,
        alpha: float = 1.0,
        activation: str = "tanh",
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if not isinstance(inner_steps, int) or inner_steps < 1:
            raise ValueError(f"inner_steps must be a positive integer, got {inner_steps!r}")
        check_known("activation", activation, ACTIVATIONS)
        if not 0 < eta * alpha < 2:
            raise ValueError(f"eta * alpha must be above 0 and below 2, got {eta * alpha}: inner steps would diverge")
        self.eta_start = eta
        self.alpha = alpha
        self.activation = activation
        where = {"device": device, "dtype": dtype}
        self.add_weights(bias, where)
        self.eta = nn.Parameter(torch.empty(inner_steps, **where))
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        bound = self.hidden_size**-0.5
        for parameter in (self.weight_ih, self.weight_hh, self.bias):
            uniform_(parameter, -bound, bound, generator)
        self.eta.fill_(self.eta_start)

    def stepper(self) -> Step:
        U, etas, phi = self.weight_hh.T, self.eta.unbind(0), ACTIVATIONS[self.activation]

        def step(drive: Tensor, state: tuple[Tensor, ...], span: Tensor | None) -> tuple[Tensor, ...]:
            (h,) = state
            total = h
            for eta in etas:
                total = total + eta * (phi(drive + total @ U) - self.alpha * total)
            return (total - h,)

        return step


class IncrementalRNN(Layer):
    """The incremental RNN: `output, h = layer(input)`, with the arguments and shapes of `nn.RNN`.

    Args:
        inner_steps: K, the number of steps towards the equilibrium per step of the sequence; each is a product.
        eta: Initial value of the K learned step sizes. The default is ours.
        alpha: Decay. The default is ours.
        activation: One of `cornn.functional.ACTIVATIONS`.
    """

    kind = IncrementalRNNCell
