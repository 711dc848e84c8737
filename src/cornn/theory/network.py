"""What the theory looks at: the weights and constants of one layer and direction, in double precision."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from cornn.functional import ACTIVATIONS, DAMPINGS
from cornn.layers import CoRNN, CoRNNCell

__all__ = ["SLOPES", "Network", "network", "network_from_layer"]

SLOPES = {
    "tanh": lambda x: 1 - torch.tanh(x) ** 2,
    "identity": torch.ones_like,
    "relu": lambda x: (x > 0).to(x),
    "duffing": lambda x: 1 - x**2,
}
"""Activation -> its derivative."""


@dataclass(frozen=True)
class Network:
    """The paper's weights and constants; dt, gamma and epsilon hold one value a neuron. All are float64."""

    V: Tensor  # (hidden, input)
    W: Tensor  # (hidden, hidden), acts on y
    W_z: Tensor  # (hidden, hidden), acts on z
    b: Tensor  # (hidden)
    dt: Tensor  # (hidden)
    gamma: Tensor  # (hidden)
    epsilon: Tensor  # (hidden)
    damping: str = "explicit"
    activation: str = "tanh"

    @property
    def hidden_size(self) -> int:
        return len(self.b)

    @property
    def kept(self) -> Tensor:
        """What a step keeps of z: 1 - dt epsilon, or 1 / (1 + dt epsilon). Also the determinant of a free step."""
        change = self.dt * self.epsilon
        return 1 - change if self.damping == "explicit" else 1 / (1 + change)

    @property
    def push(self) -> Tensor:
        """What a step adds to z per unit of force: dt, or dt / (1 + dt epsilon)."""
        return self.dt if self.damping == "explicit" else self.dt / (1 + self.dt * self.epsilon)

    @property
    def paper_case(self) -> bool:
        """The setting of the paper's main text: gamma = epsilon = 1, implicit damping, one dt, tanh."""
        ones = bool((self.gamma == 1).all() and (self.epsilon == 1).all() and (self.dt == self.dt[0]).all())
        return ones and self.damping == "implicit" and self.activation == "tanh"


def network(
    W: Tensor,
    W_z: Tensor,
    dt: float | Tensor,
    gamma: float | Tensor,
    epsilon: float | Tensor,
    *,
    V: Tensor | None = None,
    b: Tensor | None = None,
    damping: str = "explicit",
    activation: str = "tanh",
) -> Network:
    """A network from its parts. Without V, every neuron has an input of its own (V = I); without b, b is 0."""
    if damping not in DAMPINGS:
        raise ValueError(f"unknown damping {damping!r}: choose one of {', '.join(DAMPINGS)}")
    if activation not in ACTIVATIONS:
        raise ValueError(f"unknown activation {activation!r}: choose one of {', '.join(ACTIVATIONS)}")
    m = len(W)

    def each(value: float | Tensor) -> Tensor:
        return torch.as_tensor(value, dtype=torch.float64, device="cpu").detach().expand(m).clone()

    def double(value: Tensor) -> Tensor:
        return value.detach().to("cpu", torch.float64)

    V = torch.eye(m) if V is None else V
    b = torch.zeros(m) if b is None else b
    constants = (each(dt), each(gamma), each(epsilon))
    made = Network(double(V), double(W), double(W_z), double(b), *constants, damping, activation)
    for name in ("V", "W", "W_z", "b", "dt", "gamma", "epsilon"):
        if not getattr(made, name).isfinite().all():
            raise ValueError(f"{name} holds values that are not finite: nothing can be said of such a network")
    return made


def network_from_layer(layer: nn.Module, number: int = 0, reverse: bool = False) -> Network:
    """The network of one layer and direction of a `CoRNN`, or of a `CoRNNCell`, as it is now."""
    if isinstance(layer, CoRNN):
        layer = layer.cell(number, reverse)
    if not isinstance(layer, CoRNNCell):
        raise ValueError(f"the theory is about CoRNN and CoRNNCell, this is a {type(layer).__name__}")
    V, W, W_z, b = layer.matrices()
    dt, gamma, epsilon = layer.oscillators()
    return network(W, W_z, dt, gamma, epsilon, V=V, b=b, damping=layer.damping, activation=layer.activation)
