"""The tanh RNN, FastRNN and FastGRNN: one product per step, and at most two scalars that weight old and new states.

FastRNN and FastGRNN: A. Kusupati, M. Singh, K. Bhatia, A. Kumar, P. Jain and M. Varma, FastGRNN: A Fast, Accurate,
Stable and Tiny Kilobyte Sized Gated Recurrent Neural Network, NeurIPS 2018.
"""

import torch
from torch import Tensor, nn

from cornn._random import fill_, uniform_
from cornn.baselines.layer import Arguments, Cell, Layer

__all__ = ["FastGRNN", "FastGRNNCell", "FastRNN", "FastRNNCell", "TanhRNN", "TanhRNNCell"]


class TanhRNNCell(Cell):
    """h = tanh(W x + U h + b)."""

    update = "leaky"

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, *, device=None, dtype=None) -> None:
        super().__init__(input_size, hidden_size)
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw all parameters from U(±1/sqrt(hidden)), as `nn.RNN` does."""
        for parameter in self.parameters():
            uniform_(parameter, -(self.hidden_size**-0.5), self.hidden_size**-0.5, generator)

    def arguments(self) -> Arguments:
        return Arguments(self.weight_ih, self.bias, self.weight_hh, self._constants(0.0, 1.0))


def _small_(parameter: Tensor, generator: torch.Generator | None) -> None:
    fill_(parameter, lambda fresh: fresh.normal_(0.0, 0.1, generator=generator))


def _set_(parameter: Tensor | None, value: float) -> None:
    if parameter is not None:
        nn.init.constant_(parameter, value)


class FastRNNCell(Cell):
    """h = sigmoid(beta) h + sigmoid(alpha) tanh(W x + U h + b)."""

    update = "leaky"

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
        super().__init__(input_size, hidden_size)
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.alpha = nn.Parameter(torch.empty((), **where))
        self.beta = nn.Parameter(torch.empty((), **where))
        self.start = {"alpha": alpha, "beta": beta}
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        _small_(self.weight_ih, generator)
        _small_(self.weight_hh, generator)
        _set_(self.bias, 1.0)
        for name, value in self.start.items():
            _set_(getattr(self, name), value)

    def arguments(self) -> Arguments:
        constants = torch.sigmoid(torch.stack((self.beta, self.alpha)))
        parameters = constants.unsqueeze(-1).expand(2, self.hidden_size)
        return Arguments(self.weight_ih, self.bias, self.weight_hh, parameters)


class FastGRNNCell(Cell):
    """With s = W x + U h:  z = sigmoid(s + b_z);  h = z h + (sigmoid(zeta) (1 - z) + sigmoid(nu)) tanh(s + b_h)."""

    update = "fastgrnn"

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
        super().__init__(input_size, hidden_size)
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, hidden_size, **where))
        self.bias_z = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.bias_h = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.zeta = nn.Parameter(torch.empty((), **where))
        self.nu = nn.Parameter(torch.empty((), **where))
        self.start = {"zeta": zeta, "nu": nu}
        self.reset_parameters()

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        _small_(self.weight_ih, generator)
        _small_(self.weight_hh, generator)
        _set_(self.bias_z, 1.0)
        _set_(self.bias_h, 1.0)
        for name, value in self.start.items():
            _set_(getattr(self, name), value)

    def arguments(self) -> Arguments:
        constants = torch.sigmoid(torch.stack((self.zeta, self.nu))).unsqueeze(-1).expand(2, self.hidden_size)
        if self.bias_z is None or self.bias_h is None:
            biases = self._constants(0.0, 0.0)
        else:
            biases = torch.stack((self.bias_z, self.bias_h))
        return Arguments(self.weight_ih, None, self.weight_hh, torch.cat((biases, constants)))


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
