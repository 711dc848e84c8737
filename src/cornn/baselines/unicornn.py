"""UnICORNN: undamped oscillators that are not coupled within a layer.

Source: Rusch and Mishra, UnICORNN: a recurrent model for learning very long time dependencies, ICML 2021.

    s = dt * sigma(c)
    z <- z - s * (tanh(w * y + V u + b) + alpha * y)
    y <- y + s * z

tanh is odd, so this is coRNN with W = -diag(w), W_z = 0, input weights -V and -b, time step s, stiffness alpha and no
damping. So coRNN's kernels run it.
"""

import torch
from torch import Tensor, nn

from cornn._random import uniform_
from cornn.baselines.layer import Arguments, Cell, Layer

__all__ = ["UnICORNN", "UnICORNNCell"]

SAFETY = 0.9
"""Share of the stable range of the stiffness that is used; at its edge rounding errors grow without bound."""


class UnICORNNCell(Cell):
    """Weights and step of `UnICORNN`: weight_ih (hidden, input), weight_hh (hidden), c (hidden), bias (hidden)."""

    states = ("y", "z")
    update = "cornn/explicit/tanh"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        *,
        dt: float = 0.1,
        alpha: float = 1.0,
        device=None,
        dtype=None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if not dt > 0 or not alpha >= 0:
            raise ValueError(f"dt must be above 0 and alpha not below it, got dt={dt} and alpha={alpha}")
        if dt**2 * (alpha + 1) >= 4 * SAFETY:
            raise ValueError(
                f"dt={dt} with alpha={alpha} diverges: dt**2 * (alpha + 1) must be below {4 * SAFETY}, "
                f"for this alpha dt below {(4 * SAFETY / (alpha + 1)) ** 0.5:.3g}"
            )
        self.dt, self.alpha = dt, alpha
        where = {"device": device, "dtype": dtype}
        self.weight_ih = nn.Parameter(torch.empty(hidden_size, input_size, **where))
        self.weight_hh = nn.Parameter(torch.empty(hidden_size, **where))
        self.c = nn.Parameter(torch.empty(hidden_size, **where))
        self.bias = nn.Parameter(torch.empty(hidden_size, **where)) if bias else None
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Initialise as the authors do: V by He et al. for a leaky ReLU of slope 8, w in (0, 1), c in ±0.1, b = 0."""
        reach = (6 / ((1 + 8**2) * self.input_size)) ** 0.5
        uniform_(self.weight_ih, -reach, reach, generator)
        uniform_(self.weight_hh, 0, 1, generator)
        uniform_(self.c, -0.1, 0.1, generator)
        if self.bias is not None:
            self.bias.zero_()

    def constants(self) -> tuple[Tensor, Tensor]:
        """Return w and s as they act, (hidden) each.

        The stiffness alpha + w * tanh' of a neuron lies between alpha and alpha + w. w is kept where that is neither
        negative, which drives a neuron away from rest, nor more than the step can follow.
        """
        return self.weight_hh.clamp(-self.alpha, 4 * SAFETY / self.dt**2 - self.alpha), self.dt * torch.sigmoid(self.c)

    def arguments(self) -> Arguments:
        """Return the weights of the coRNN that computes the same."""
        w, s = self.constants()
        coupling = torch.diag_embed(-w)
        parameters = torch.stack((s, torch.full_like(s, self.alpha), torch.zeros_like(s)))
        bias = None if self.bias is None else -self.bias
        return Arguments(-self.weight_ih, bias, torch.cat((coupling, torch.zeros_like(coupling)), 1), parameters)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, dt={self.dt:.4g}, alpha={self.alpha:.4g}"


class UnICORNN(Layer):
    """Undamped, independent oscillators: `output, (y, z) = layer(input)`, with the arguments and shapes of `nn.LSTM`.

    Neurons are not coupled within a layer, so use two or three layers. `timespans` are factors on dt, as in `CoRNN`.
    `checkpoint_every` saves memory when training on very long sequences.

    Args:
        dt: Longest time step. dt**2 * (alpha + 1) must stay below 3.6, or the oscillators diverge.
        alpha: Stiffness.
    """

    kind = UnICORNNCell
