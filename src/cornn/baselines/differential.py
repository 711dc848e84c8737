"""Networks read off a differential equation of one state: antisymmetric, gated antisymmetric and Lipschitz RNN.

B. Chang, M. Chen, E. Haber and E. H. Chi, AntisymmetricRNN: A Dynamical System View on Recurrent Neural Networks,
ICLR 2019. N. B. Erichson, O. Azencot, A. Queiruga, L. Hodgkinson and M. W. Mahoney, Lipschitz Recurrent Neural
Networks, ICLR 2021.
"""

import torch
from torch import Tensor, nn

from cornn._random import normal_, uniform_
from cornn.baselines.layer import Arguments, Cell, Layer, skew

__all__ = [
    "AntisymmetricRNN",
    "AntisymmetricRNNCell",
    "GatedAntisymmetricRNN",
    "GatedAntisymmetricRNNCell",
    "LipschitzRNN",
    "LipschitzRNNCell",
]


class AntisymmetricRNNCell(Cell):
    """h = h + epsilon tanh(A h + V x + b),  A = W - W' - gamma I, W strictly upper triangular."""

    update = "leaky"
    drives = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        epsilon: float = 0.01,
        gamma: float = 0.01,
        spread: float = 1.0,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        _check_not_negative(epsilon=epsilon, gamma=gamma, spread=spread)
        self.epsilon, self.gamma, self.spread = epsilon, gamma, spread
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(self.drives * hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size * (hidden_size - 1) // 2, **where))
        self.bias = nn.Parameter(torch.empty(self.drives * hidden_size, **where)) if bias else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw V from N(0, 1/inputs) and W from N(0, spread²/hidden); b is 0."""
        normal_(self.weight_ih, self.input_size**-0.5, generator)
        normal_(self.weight_hh, self.spread * self.hidden_size**-0.5, generator)
        if self.bias is not None:
            nn.init.zeros_(self.bias)

    def matrix(self) -> Tensor:
        """Return A, (hidden, hidden); all its eigenvalues have the real part -gamma."""
        return skew(self.weight_hh, self.hidden_size) - self.gamma * _identity(self.hidden_size, self.weight_hh)

    def arguments(self) -> Arguments:
        return Arguments(self.weight_ih, self.bias, self.matrix(), self._constants(1.0, self.epsilon))

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, epsilon={self.epsilon}, gamma={self.gamma}"


class GatedAntisymmetricRNNCell(AntisymmetricRNNCell):
    """h = h + epsilon sigmoid(A h + V_z x + b_z) tanh(A h + V x + b). V_z is above V in `weight_ih`, b_z before b."""

    update = "gated"
    drives = 2

    def arguments(self) -> Arguments:
        return Arguments(self.weight_ih, self.bias, self.matrix(), self._constants(self.epsilon))


class LipschitzRNNCell(Cell):
    """h = h + epsilon (A h + tanh(W h + E x + b)), A and W each beta (M - M') + (1 - beta) (M + M') - gamma I.

    M is `weight_hh_linear` for A and `weight_hh_tanh` for W.
    """

    update = "lipschitz"
    recurrent_weights = ("weight_hh_linear", "weight_hh_tanh")

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        epsilon: float = 0.03,
        beta: float = 0.75,
        gamma: float = 0.001,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        _check_not_negative(epsilon=epsilon, gamma=gamma)
        if not 0 <= beta <= 1:
            raise ValueError(f"beta must lie between 0 and 1, got {beta!r}")
        self.epsilon, self.beta, self.gamma = epsilon, beta, gamma
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh_linear = nn.Parameter(torch.empty(hidden_size, hidden_size, **where))
        self.weight_hh_tanh = nn.Parameter(torch.empty(hidden_size, hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw both M from N(0, (0.1/hidden)²), E and b from U(±1/sqrt(inputs)), as `nn.Linear` does."""
        uniform_(self.weight_ih, -(self.input_size**-0.5), self.input_size**-0.5, generator)
        for parameter in (self.weight_hh_linear, self.weight_hh_tanh):
            normal_(parameter, 0.1 / self.hidden_size, generator)
        uniform_(self.bias, -(self.input_size**-0.5), self.input_size**-0.5, generator)

    def matrices(self) -> tuple[Tensor, Tensor]:
        """Return A and W, each (hidden, hidden)."""
        shift = self.gamma * _identity(self.hidden_size, self.weight_ih)
        A, W = (
            self.beta * (M - M.mT) + (1 - self.beta) * (M + M.mT) - shift
            for M in (self.weight_hh_linear, self.weight_hh_tanh)
        )
        return A, W

    def arguments(self) -> Arguments:
        # The linear part has a product and no drive: its drive is zero.
        bias = None if self.bias is None else torch.cat((torch.zeros_like(self.bias), self.bias))
        return Arguments(
            torch.cat((torch.zeros_like(self.weight_ih), self.weight_ih)),
            bias,
            torch.cat(self.matrices()),
            self._constants(self.epsilon),
        )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, epsilon={self.epsilon}, beta={self.beta}, gamma={self.gamma}"


def _identity(size: int, like: Tensor) -> Tensor:
    return torch.eye(size, dtype=like.dtype, device=like.device)


def _check_not_negative(**values: float) -> None:
    for name, value in values.items():
        if not 0 <= value < float("inf"):
            raise ValueError(f"{name} must be finite and not negative, got {value!r}")


class AntisymmetricRNN(Layer):
    """Euler steps of a system that neither grows nor fades (Chang et al. 2019): `output, h = layer(input)`.

        h = h + epsilon tanh(A h + V x + b),  A = W - W' - gamma I

    Args:
        epsilon: Step size; the authors chose among 0.01, 0.1 and 1.
        gamma: Diffusion, which keeps such steps stable.
        spread: Standard deviation of the initial W, times sqrt(hidden_size).
    """

    kind = AntisymmetricRNNCell


class GatedAntisymmetricRNN(Layer):
    """An antisymmetric RNN with an input gate on its step (Chang et al. 2019): `output, h = layer(input)`.

        h = h + epsilon sigmoid(A h + V_z x + b_z) tanh(A h + V x + b)

    Args:
        epsilon: As in `AntisymmetricRNN`.
        gamma: As in `AntisymmetricRNN`.
        spread: As in `AntisymmetricRNN`.
    """

    kind = GatedAntisymmetricRNNCell


class LipschitzRNN(Layer):
    """Euler steps of a linear part and a tanh, both kept near skew-symmetric (Erichson et al. 2021).

        h = h + epsilon (A h + tanh(W h + E x + b))

    Args:
        epsilon: Step size.
        beta: From symmetric (0) to skew-symmetric (1).
        gamma: Subtracted from both diagonals.
    """

    kind = LipschitzRNNCell
