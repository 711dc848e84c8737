"""The tanh RNN, FastRNN and FastGRNN: one product per step, and at most two scalars that weight old and new states.

FastRNN and FastGRNN: A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain and M. Varma, FastGRNN: A Fast, Accurate,
Stable and Tiny Kilobyte Sized Gated Recurrent Neural Network, NeurIPS 2018.
"""

import torch
from torch import Tensor, nn

from cornn._random import normal_
from cornn.baselines.layer import Arguments, Cell, Layer

__all__ = ["FastGRNN", "FastGRNNCell", "FastRNN", "FastRNNCell", "TanhRNN", "TanhRNNCell"]


class TanhRNNCell(Cell):
    """h = tanh(W x + U h + b)."""

    update = "leaky"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, *, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size)
        self.add_weights(bias, {"device": device, "dtype": dtype})
        self.reset_parameters()

    def arguments(self) -> Arguments:
        return Arguments(self.weight_ih, self.bias, self.weight_hh, self._constants(0.0, 1.0))


class _ScalarCell(Cell):
    """A cell with biases that start at 1, and with two trained scalars."""

    biases: tuple[str, ...]

    def __init__(self, input_size: int, hidden_size: int, bias: bool, start: dict[str, float], where: dict) -> None:
        super().__init__(input_size, hidden_size)
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, hidden_size, **where))
        for name in self.biases:
            self.register_parameter(name, nn.Parameter(torch.empty(hidden_size, **where)) if bias else None)
        for name in start:
            self.register_parameter(name, nn.Parameter(torch.empty((), **where)))
        self.start = start
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        for weight in (self.weight_ih, self.weight_hh):
            normal_(weight, 0.1, generator)
        for name, value in (*dict.fromkeys(self.biases, 1.0).items(), *self.start.items()):
            if (parameter := getattr(self, name)) is not None:
                nn.init.constant_(parameter, value)

    def _scalars(self, *names: str) -> Tensor:
        """Return the scalars as they act, (scalars, hidden)."""
        scalars = torch.sigmoid(torch.stack([getattr(self, name) for name in names]))
        return scalars.unsqueeze(-1).expand(len(names), self.hidden_size)


class FastRNNCell(_ScalarCell):
    """h = sigmoid(beta) h + sigmoid(alpha) tanh(W x + U h + b)."""

    update = "leaky"
    biases = ("bias",)
    bias: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        alpha: float = -3.0,
        beta: float = 3.0,
        device=None,
        dtype=None,
    ) -> None:
        where = {"device": device, "dtype": dtype}
        super().__init__(input_size, hidden_size, bias, {"alpha": alpha, "beta": beta}, where)

    def arguments(self) -> Arguments:
        return Arguments(self.weight_ih, self.bias, self.weight_hh, self._scalars("beta", "alpha"))


class FastGRNNCell(_ScalarCell):
    """With s = W x + U h:  z = sigmoid(s + b_z);  h = z h + (sigmoid(zeta) (1 - z) + sigmoid(nu)) tanh(s + b_h)."""

    update = "fastgrnn"
    biases = ("bias_z", "bias_h")
    bias_z: Tensor | None
    bias_h: Tensor | None

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        zeta: float = 1.0,
        nu: float = -4.0,
        device=None,
        dtype=None,
    ) -> None:
        where = {"device": device, "dtype": dtype}
        super().__init__(input_size, hidden_size, bias, {"zeta": zeta, "nu": nu}, where)

    def arguments(self) -> Arguments:
        if self.bias_z is None or self.bias_h is None:
            biases = self._constants(0.0, 0.0)
        else:
            biases = torch.stack((self.bias_z, self.bias_h))
        return Arguments(self.weight_ih, None, self.weight_hh, torch.cat((biases, self._scalars("zeta", "nu"))))


class TanhRNN(Layer):
    """The plain recurrent network, h = tanh(W x + U h + b): `output, h = layer(input)`.

    It is `nn.RNN` with one bias instead of two, on this package's engine.
    """

    kind = TanhRNNCell


class FastRNN(Layer):
    """A tanh RNN with a residual path of two trained numbers (Kusupati et al. 2018): `output, h = layer(input)`.

        h = sigmoid(beta) h + sigmoid(alpha) tanh(W x + U h + b)

    Weights are initialised from 0.1 N(0, 1), b as 1.

    Args:
        alpha: Initial value.
        beta: Initial value.
    """

    kind = FastRNNCell


class FastGRNN(Layer):
    """A gated network whose gate and candidate share one product (Kusupati et al. 2018): `output, h = layer(input)`.

        s = W x + U h;  z = sigmoid(s + b_z);  h = z h + (sigmoid(zeta) (1 - z) + sigmoid(nu)) tanh(s + b_h)

    Weights are initialised from 0.1 N(0, 1), both biases as 1. The low-rank and sparse forms of W and U are not
    implemented.

    Args:
        zeta: Initial value.
        nu: Initial value.
    """

    kind = FastGRNNCell
