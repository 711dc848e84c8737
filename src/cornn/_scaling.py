"""The default parametrisation: constants that cover all time scales, and weights in units of each neuron's response.

An uncoupled neuron is a linear filter of its force f, an autoregressive process of order 2:

    y_n = (1 + K - G) y_{n-1} - K y_{n-2} + k f_n

with K = 1 - dt epsilon, G = dt^2 gamma, k = dt^2 for explicit damping, and K = 1 / (1 + dt epsilon), G = dt^2 gamma K,
k = dt^2 K for implicit damping. K and G determine how it remembers; dt only determines the unit of y. docs/default.md
has the derivations and the measurements behind the numbers below.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from cornn._constants import Oscillators
from cornn.functional import coefficients

__all__ = ["Norms", "WeightScales", "impulse_norms", "log_spaced", "spread_time_scales", "weight_scales"]

HORIZON = 5000.0
"""Steps within which a neuron that never forgets is assumed to forget, so that its norms are finite."""

COUPLING = 0.15  # factor on W and W_z for WIDTH neurons; it falls with the square root of their number
WIDTH = 128
LARGEST = 3.0  # limit on a row's scale
SMALLEST_STATE = 0.02  # limit below which the size of a state is not divided out

FAST_HALF_LIVES = (0.1, 4.0)  # steps; overdamped with K = 0, half of the neurons
SLOW_HALF_LIVES = (8.0, 4000.0)  # steps; overdamped, a quarter of the neurons
SLOW_K = 0.3
PERIODS = (4.0, 1000.0)  # steps; underdamped, a quarter of the neurons
RINGING_HALF_LIFE = 1000.0
LARGEST_DT = 0.99


class Norms(NamedTuple):
    """Sizes of y and z of uncoupled neurons, per unit of force.

    Attributes:
        white_y: RMS of y for a white force: the 2-norm of the impulse response.
        white_z: RMS of z for a white force.
        constant: y for a constant force.
    """

    white_y: Tensor
    white_z: Tensor
    constant: Tensor


def _filter(constants: Oscillators, damping: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return K, G, k and c of the neurons, where c is the factor of the force in z."""
    dt, gamma, epsilon = torch.broadcast_tensors(*(value.detach().double().cpu() for value in constants))
    keep, push, pull, _ = coefficients(dt, gamma, epsilon, damping=damping)
    return keep, dt * pull, dt * push, push


def _move_inside(K: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """Move K and G to where every norm is finite: inside the stable triangle, by 1 / HORIZON."""
    edge = 1 / HORIZON
    K = K.clamp(-1 + edge, 1 - edge)
    G = torch.minimum(G, (2 - edge) * (1 + K))
    return K, torch.maximum(G, edge * (1 - K))  # the slow eigenvalue of an overdamped neuron is about 1 - G / (1 - K)


def impulse_norms(constants: Oscillators, damping: str) -> Norms:
    """Compute the sizes of uncoupled neurons in closed form, in float64.

    Unstable neurons, and neurons that never forget, are treated as if they forgot within `HORIZON` steps.

    Args:
        constants: dt, gamma and epsilon, each of shape `()` or `(hidden)`.
        damping: "explicit" or "implicit".
    """
    K, G, k, c = _filter(constants, damping)
    K, G = _move_inside(K, G)
    rest = (1 - K) * (2 * (1 + K) - G)
    return Norms(k * torch.sqrt((1 + K) / (G * rest)), c * torch.sqrt(2 / rest), k / G)


def log_spaced(shortest: float, longest: float, count: int) -> Tensor:
    """Return `count` logarithmically spaced values from `shortest` to `longest`.

    Args:
        shortest: First value, above 0.
        longest: Last value.
        count: Number of values.

    Returns:
        The values, (count).
    """
    if not 0 < shortest <= longest:
        raise ValueError(f"shortest must be positive and at most longest, got {shortest:g} and {longest:g}")
    ends = math.log(shortest), math.log(longest)
    values = torch.exp(torch.linspace(*ends, count, dtype=torch.float64, device="cpu"))
    # Rounding must not leave the range: shortest may be the smallest possible value.
    return values.clamp(shortest, longest)


def _spread(shortest: float, longest: float, count: int) -> Tensor:
    """Return log-spaced values; a single one in the middle."""
    middle = math.sqrt(shortest * longest)
    return log_spaced(middle, middle, 1) if count == 1 else log_spaced(shortest, longest, count)


def _overdamped(half_lives: Tensor, K: float) -> tuple[Tensor, Tensor]:
    """Return K and G of neurons with the eigenvalues 0.5**(1 / half-life) and K divided by it."""
    slow = 0.5 ** (1 / half_lives)
    kept = torch.minimum(torch.full_like(slow, K), 0.99 * slow)
    return kept, (1 - slow) * (slow - kept) / slow


def _underdamped(periods: Tensor, half_life: float) -> tuple[Tensor, Tensor]:
    """Return K and G of neurons with the eigenvalues 0.5**(1 / half-life) * exp(+-2 pi i / period)."""
    modulus = 0.5 ** (1 / half_life)
    angle = 2 * math.pi / periods
    return torch.full_like(angle, modulus**2), (1 - modulus) ** 2 + 4 * modulus * torch.sin(angle / 2) ** 2


def spread_time_scales(hidden_size: int, damping: str) -> Oscillators:
    """Choose dt, gamma and epsilon of every neuron such that together they cover all time scales.

    Half of the neurons are fast and overdamped, a quarter slow and overdamped, a quarter underdamped. dt is chosen per
    neuron such that white input of RMS 1 gives a y of RMS 1.

    Args:
        hidden_size: Number of neurons.
        damping: "explicit" or "implicit".

    Returns:
        The constants, each of shape `(hidden_size)`, in float64.
    """
    slow = math.ceil(hidden_size / 4)
    fast = min(hidden_size - slow, math.ceil(hidden_size / 2))
    # Implicit damping keeps K of the velocity and moves y by dt^2 K: with K = 0 a neuron would not move.
    explicit = damping == "explicit"
    fast_half_lives = FAST_HALF_LIVES if explicit else (0.6, FAST_HALF_LIVES[1])
    filters = (
        _overdamped(_spread(*fast_half_lives, fast), 0.0 if explicit else 0.25),
        _overdamped(_spread(*SLOW_HALF_LIVES, slow), SLOW_K),
        _underdamped(_spread(*PERIODS, hidden_size - slow - fast), RINGING_HALF_LIFE),
    )
    K, G = map(torch.cat, zip(*filters, strict=True))
    unit = impulse_norms(_constants(K, G, torch.ones_like(K), damping), damping).white_y
    return _constants(K, G, unit.rsqrt().clamp(max=LARGEST_DT), damping)


def _constants(K: Tensor, G: Tensor, dt: Tensor, damping: str) -> Oscillators:
    if damping == "explicit":
        return Oscillators(dt, G / dt**2, (1 - K) / dt)
    return Oscillators(dt, G / (dt**2 * K), (1 / K - 1) / dt)


class WeightScales(NamedTuple):
    """Factors between the trained weights and V, W and W_z, and b.

    Attributes:
        scale_ih: Of V, shape `(hidden, 1)`.
        scale_hh: Of W and W_z, shape `(hidden, 2 * hidden)`.
        scale_bias: Of b, shape `(hidden)`.
    """

    scale_ih: Tensor
    scale_hh: Tensor
    scale_bias: Tensor


def weight_scales(constants: Oscillators, damping: str, hidden_size: int) -> WeightScales:
    """Compute the factors that make all trained weights act alike, whatever the time scale of their neuron.

    Args:
        constants: dt, gamma and epsilon, each of shape `()` or `(hidden)`.
        damping: "explicit" or "implicit".
        hidden_size: Number of neurons.
    """
    white_y, white_z, constant = (value.expand(hidden_size) for value in impulse_norms(constants, damping))
    ih = (1 / white_y).clamp(max=LARGEST)
    bias = torch.minimum(ih, 1 / constant)  # a bias is a constant force
    rows = ih * COUPLING * (WIDTH / hidden_size) ** 0.5
    states = torch.cat((ih * white_y, ih * white_z)).clamp(min=SMALLEST_STATE)
    return WeightScales(ih.unsqueeze(1), rows.unsqueeze(1) / states, bias)
