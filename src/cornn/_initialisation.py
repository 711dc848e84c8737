"""The initialisations of the weights of `CoRNN`, by name."""

from typing import NamedTuple

import torch
from torch import Tensor

from cornn._random import uniform_

__all__ = ["INITS", "SCALED", "InitialRanges", "draw_weights_"]


class InitialRanges(NamedTuple):
    """The distribution of the initial weights.

    Attributes:
        V: Half-width of the uniform distribution of V.
        W: Half-width of the uniform distribution of W and W_z.
        b: Half-width of the uniform distribution of b.
        feedback: kappa. Adds -kappa V V^+ to W, so that V u + W y = V (u - kappa V^+ y): this subtracts the accumulated
            input from the next one. In the directions of V the noise of a long input then does not accumulate; in the
            directions orthogonal to V the neurons stay uncoupled and keep their values.
    """

    V: float
    W: float
    b: float
    feedback: float = 0.0


def _memory(d: int, m: int) -> InitialRanges:
    # With many inputs V spans most directions, and feedback would leave no direction in which values are kept.
    return InitialRanges(3.0 * (2 / d) ** 0.5, 0.0, 0.0, feedback=0.1 if 4 * d <= m else 0.0)


INITS = {
    # The authors' one affine map of [u, z, y].
    "paper": lambda d, m: InitialRanges((d + 2 * m) ** -0.5, (d + 2 * m) ** -0.5, (d + 2 * m) ** -0.5),
    # Their three separate maps of u, z and y (noise-padded CIFAR-10).
    "separate": lambda d, m: InitialRanges(d**-0.5, m**-0.5, d**-0.5),
    # Their two separate maps of u and of [z, y] (IMDB).
    "separate-pair": lambda d, m: InitialRanges(d**-0.5, (2 * m) ** -0.5, d**-0.5),
    # Ours for long memory: large input weights, and feedback as the only coupling (docs/adding.md).
    "memory": _memory,
    # Ours for underdamped oscillators with spread frequencies: large input weights, no coupling.
    "uncoupled": lambda d, m: InitialRanges(3.0 * (2 / d) ** 0.5, 0.0, 0.0),
}


SCALED = "scaled"
"""The default initialisation. Unlike those of `INITS` it also scales the weights; see docs/default.md."""


@torch.no_grad()
def draw_weights_(
    V: Tensor, R: Tensor, b: Tensor | None, ranges: InitialRanges, generator: torch.Generator | None
) -> None:
    """Draw the weights of a cell in place.

    Args:
        V: Input weights, (hidden, input).
        R: W and W_z side by side, (hidden, 2 * hidden).
        b: Bias, (hidden), or None.
        ranges: Their distribution.
        generator: A CPU generator; PyTorch's default one if None.
    """
    for parameter, bound in ((V, ranges.V), (R, ranges.W), (b, ranges.b)):
        uniform_(parameter, -bound, bound, generator)
    if ranges.feedback and not R.is_meta:
        known = V.to("cpu", torch.float64)
        R[:, : len(R)] += (-ranges.feedback * known @ torch.linalg.pinv(known)).to(R)
