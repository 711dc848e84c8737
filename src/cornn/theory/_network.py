"""The weights and constants of one layer and direction, in double precision: the input of all theory functions."""

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from cornn._arguments import check_known
from cornn.functional import ACTIVATIONS, DAMPINGS, Coefficients, coefficients
from cornn.layers import CoRNN, CoRNNCell

__all__ = ["Network", "network", "network_from_layer"]


@dataclass(frozen=True)
class Network:
    """The paper's weights and constants, as float64 tensors on the CPU.

    Build one with `network` or `network_from_layer`.

    Attributes:
        V: Input weights, (hidden, input).
        W: Recurrent weights that act on y, (hidden, hidden).
        W_z: Recurrent weights that act on z, (hidden, hidden).
        b: Bias, (hidden).
        dt: Step size per neuron, (hidden).
        gamma: Stiffness per neuron, (hidden).
        epsilon: Damping per neuron, (hidden).
        damping: "explicit" or "implicit".
        activation: Name of the activation.
    """

    V: Tensor
    W: Tensor
    W_z: Tensor
    b: Tensor
    dt: Tensor
    gamma: Tensor
    epsilon: Tensor
    damping: str = "explicit"
    activation: str = "tanh"

    @property
    def hidden_size(self) -> int:
        """Number of neurons."""
        return len(self.b)

    @cached_property
    def coefficients(self) -> Coefficients:
        """The coefficients of a step, each of shape `(hidden)`."""
        return coefficients(self.dt, self.gamma, self.epsilon, damping=self.damping)

    @cached_property
    def keep(self) -> Tensor:
        """Share of z that a step keeps: 1 - dt epsilon, or 1 / (1 + dt epsilon); the determinant of a free step."""
        return self.coefficients.keep

    @cached_property
    def push(self) -> Tensor:
        """Change of z per unit of force in a step: dt, or dt / (1 + dt epsilon)."""
        return self.coefficients.push

    @property
    def paper_case(self) -> bool:
        """Whether this is the setting of the paper's main text: gamma = epsilon = 1, one dt, implicit damping, tanh."""
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
    """Build a network from copies of weights and constants, which are tensors of any type, or arrays.

    Args:
        W: Recurrent weights that act on y, (hidden, hidden).
        W_z: Recurrent weights that act on z, (hidden, hidden).
        dt: Step size, a number or (hidden).
        gamma: Stiffness, a number or (hidden).
        epsilon: Damping, a number or (hidden).
        V: Input weights, (hidden, input). Default: the identity, one input per neuron.
        b: Bias, (hidden). Default: zeros.
        damping: "explicit" or "implicit".
        activation: Name of the activation.

    Returns:
        The network.

    Raises:
        ValueError: If `damping` or `activation` is unknown, a shape is wrong, a value is not finite, dt is not
            positive, or gamma or epsilon is negative.
    """
    check_known("damping", damping, DAMPINGS)
    check_known("activation", activation, ACTIVATIONS)

    def double(value: float | Tensor) -> Tensor:
        return torch.as_tensor(value, dtype=torch.float64, device="cpu").detach()

    W, W_z = double(W), double(W_z)
    if W.dim() != 2 or not len(W):
        raise ValueError(f"W has shape {tuple(W.shape)}, expected (hidden, hidden) with at least one neuron")
    m = len(W)
    V = torch.eye(m, dtype=torch.float64) if V is None else double(V)
    b = torch.zeros(m, dtype=torch.float64) if b is None else double(b)
    for name, value, shape in (
        ("W", W, (m, m)),
        ("W_z", W_z, (m, m)),
        ("V", V, (m, *V.shape[-1:])),
        ("b", b, (m,)),
    ):
        if value.shape != shape:
            raise ValueError(f"{name} has shape {tuple(value.shape)}, expected {shape} for {m} neurons")

    def each(name: str, value: float | Tensor) -> Tensor:
        value = double(value)
        if value.shape not in ((), (1,), (m,)):
            raise ValueError(f"{name} has shape {tuple(value.shape)}: give one number, or one for each of {m} neurons")
        return value.expand(m).clone()

    constants = (each("dt", dt), each("gamma", gamma), each("epsilon", epsilon))
    # Copies: a later training step must not change the network.
    result = Network(V.clone(), W.clone(), W_z.clone(), b.clone(), *constants, damping, activation)
    for name in ("V", "W", "W_z", "b", "dt", "gamma", "epsilon"):
        if not getattr(result, name).isfinite().all():
            raise ValueError(f"{name} contains NaN or infinite values: the theory needs finite weights and constants")
    if not (result.dt > 0).all():
        raise ValueError(f"dt must be positive, got {result.dt.min().item()}")
    for name in ("gamma", "epsilon"):
        least = getattr(result, name).min().item()
        if least < 0:
            raise ValueError(f"{name} must not be negative, got {least}")
    return result


def network_from_layer(layer: nn.Module, number: int = 0, reverse: bool = False) -> Network:
    """Copy the current weights and constants of a layer.

    Args:
        layer: A `CoRNN` or a `CoRNNCell`.
        number: Index of the layer in a `CoRNN`, from 0.
        reverse: Whether to take the backward direction of a bidirectional `CoRNN`.

    Returns:
        The network.

    Raises:
        ValueError: If `layer` is of another class.

    Examples:
        >>> from cornn import CoRNN, theory
        >>> theory.network_from_layer(CoRNN(2, 64)).hidden_size
        64
    """
    if isinstance(layer, CoRNN):
        layer = layer.cell(number, reverse)
    if not isinstance(layer, CoRNNCell):
        raise ValueError(f"the theory covers CoRNN and CoRNNCell, got {type(layer).__name__}")
    V, W, W_z, b = layer.matrices()
    dt, gamma, epsilon = layer.oscillators()
    return network(W, W_z, dt, gamma, epsilon, V=V, b=b, damping=layer.damping, activation=layer.activation)
