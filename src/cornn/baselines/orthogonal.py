"""Networks whose recurrent matrix stays orthogonal by the matrix exponential: expRNN and DTRIV.

M. Lezcano-Casado and D. Martinez-Rubio, Cheap Orthogonal Constraints in Neural Networks, ICML 2019 (expRNN). M.
Lezcano-Casado, Trivializations for Gradient-Based Optimization on Manifolds, NeurIPS 2019 (DTRIV).

What is trained is the upper triangle of a skew-symmetric matrix, m (m - 1) / 2 numbers, as published. PyTorch's own
parametrisation (`torch.nn.utils.parametrizations.orthogonal`) keeps all m² of them and cannot be pickled; a test
compares both.
"""

import math

import torch
from torch import Tensor, nn

from cornn._arguments import check_known
from cornn._random import fill_, normal_, uniform_
from cornn.baselines.layer import Arguments, Cell, Layer, skew

__all__ = ["DTRIV", "INITS", "DTRIVCell", "ExpRNN", "ExpRNNCell"]


def _henaff(blocks: int, generator: torch.Generator | None) -> Tensor:
    """Draw angles from U(-π, π)."""
    return torch.empty(blocks, dtype=torch.float64, device="cpu").uniform_(-math.pi, math.pi, generator=generator)


def _cayley(blocks: int, generator: torch.Generator | None) -> Tensor:
    """Draw angles -sqrt((1 - cos t) / (1 + cos t)) with t from U(0, π/2)."""
    t = torch.empty(blocks, dtype=torch.float64, device="cpu").uniform_(0.0, math.pi / 2, generator=generator)
    return -torch.sqrt((1 - torch.cos(t)) / (1 + torch.cos(t)))


INITS = {"henaff": _henaff, "cayley": _cayley}
"""Name -> function (number of 2 x 2 blocks, generator) -> angle of each block."""


SQUARINGS = 10
"""Number of squarings: enough for matrices with absolute column sums up to 2**(SQUARINGS - 1)."""


def _exponential(matrix: Tensor) -> Tensor:
    """Compute the matrix exponential by scaling, the first 16 terms of its series, and squaring.

    `torch.linalg.matrix_exp` chooses the number of terms from the values, which makes the host wait for a GPU and
    cannot be captured in a CUDA graph. Here the number of squarings is fixed, and superfluous ones are discarded. It is
    computed in double precision, since its rounding error acts at every step of the sequence.
    """
    A = matrix.double()
    norm = A.detach().abs().sum(-2).amax(-1)
    needed = torch.log2(norm).add(1).ceil().clamp(0, SQUARINGS)[..., None, None]
    A = A * torch.exp2(-needed)  # of norm at most 1/2: the omitted terms are below 1e-18
    powers = [torch.eye(A.shape[-1], dtype=A.dtype, device=A.device), A, A @ A]
    powers.append(powers[2] @ A)
    fourth = powers[2] @ powers[2]

    def four_terms(first: int) -> Tensor:
        return sum((power / math.factorial(first + i) for i, power in enumerate(powers)), torch.zeros_like(A))

    total = four_terms(12)
    for first in (8, 4, 0):
        total = total @ fourth + four_terms(first)
    for number in range(SQUARINGS):
        total = torch.where(number < needed, total @ total, total)
    return total.to(matrix.dtype)


class ExpRNNCell(Cell):
    """h = modReLU(B h + V x),  B = exp(A), A skew-symmetric;  modReLU(a) = sign(a) relu(|a| + b).

    Without `bias` modReLU's b is 0, and the network is linear.
    """

    update = "modrelu"

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, *, init: str = "henaff", device=None, dtype=None
    ) -> None:
        super().__init__(input_size, hidden_size)
        check_known("init", init, INITS)
        self.init = init
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size * (hidden_size - 1) // 2, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self._make_base(where)
        self.reset_parameters()

    def _make_base(self, where: dict) -> None:
        """Add no base: the exponential of expRNN starts from the identity."""

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draw V from a Kaiming normal, b from U(±0.01), and the 2 x 2 blocks of A by `init`."""
        normal_(self.weight_ih, (2 / self.input_size) ** 0.5, generator)
        uniform_(self.bias, -0.01, 0.01, generator)
        if not self.weight_hh.is_meta:  # the blocks are drawn on the CPU, in a matrix of hidden_size**2 numbers
            self._start(self._blocks(generator))

    def _blocks(self, generator: torch.Generator | None) -> Tensor:
        """Draw the upper triangle of the initial skew-symmetric matrix, in double precision."""
        size = self.hidden_size
        upper = torch.zeros(size, size, dtype=torch.float64, device="cpu")
        first = torch.arange(0, size - 1, 2, device="cpu")
        upper[first, first + 1] = INITS[self.init](size // 2, generator)
        row, column = torch.triu_indices(size, size, 1, device="cpu")
        return upper[row, column]

    def _start(self, upper: Tensor) -> None:
        fill_(self.weight_hh, lambda fresh: upper)

    def matrix(self) -> Tensor:
        """Return B, (hidden, hidden), orthogonal."""
        return _exponential(skew(self.weight_hh, self.hidden_size))

    def arguments(self) -> Arguments:
        parameters = self._constants(0.0) if self.bias is None else self.bias.unsqueeze(0)
        return Arguments(self.weight_ih, None, self.matrix(), parameters)


class DTRIVCell(ExpRNNCell):
    """`ExpRNNCell` with B = B₀ exp(A), where A starts at 0 and `base` is B₀."""

    base: Tensor

    def _make_base(self, where: dict) -> None:
        self.register_buffer("base", torch.empty(self.hidden_size, self.hidden_size, **where))

    def _start(self, upper: Tensor) -> None:
        nn.init.zeros_(self.weight_hh)
        fill_(self.base, lambda fresh: torch.linalg.matrix_exp(skew(upper, self.hidden_size)))

    def matrix(self) -> Tensor:
        return self.base @ super().matrix()

    @torch.no_grad()
    def rebase_(self) -> None:
        """Set the base to the current B, orthogonal up to rounding, and A to 0."""
        left, _, right = torch.linalg.svd(self.matrix().double())
        self.base.copy_(left @ right)
        self.weight_hh.zero_()


class ExpRNN(Layer):
    """An orthogonal recurrent network (Lezcano-Casado and Martinez-Rubio 2019): `output, h = layer(input)`.

        h = modReLU(B h + V x),  B = exp(A), A skew-symmetric

    The exponential is computed once per call. The authors train A (`weight_hh`) at a tenth of the learning rate.

    Args:
        init: Initialisation of A, "henaff" or "cayley".
    """

    kind = ExpRNNCell


class DTRIV(Layer):
    """An orthogonal recurrent network by dynamic trivialisation (Lezcano-Casado 2019): `output, h = layer(input)`.

        h = modReLU(B h + V x),  B = B₀ exp(A), A skew-symmetric

    By default this is DTRIV∞. For DTRIV-K call `rebase_()` after every K steps of the optimiser, as
    `cornn train --rebase-every K` does; the author keeps the optimiser's moments of `weight_hh`.

    Args:
        init: Initialisation of B₀: exp of "henaff" or "cayley" blocks.
    """

    kind = DTRIVCell

    def rebase_(self) -> None:
        """Set every base B₀ to the current B and A to 0; the layer computes the same function."""
        for cell in self.cells.values():
            assert isinstance(cell, DTRIVCell)
            cell.rebase_()
