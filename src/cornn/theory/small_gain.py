"""Bounds on the growth and decay of gradients by a small-gain theorem for networks of oscillators (docs/theory.md).

A neuron is a linear filter of its force, and the force of a perturbation is D (W dy + W_z dz) with slopes D in [0, 1].
Weight all sequences by r**-n. If r exceeds the spectral radius of every neuron, the filters have finite gains, and if
the gain of the whole loop is below 1, every perturbation is O(r**n): Jacobian products are at most K r**(n - k). With
r < 1 this proves that gradients vanish, and how fast; with r > 1 it limits how fast they grow.
"""

import math

import torch
from torch import Tensor

from cornn.theory._network import Network
from cornn.theory._threads import spectral_norm
from cornn.theory.linear import spectral_radius

__all__ = ["filter_gains", "log_growth_bound", "loop_gain", "slowest_rate"]


LARGEST_RATE = 1e70  # its fourth power does not overflow


def filter_gains(network: Network, r: float) -> tuple[Tensor, Tensor]:
    """Return the gain of each neuron from its force to y and to z, for sequences weighted by r**-n.

    It is the maximum of the transfer function on the circle |x| = r. The transfer functions are push dt r / |p| and
    push |x - 1| / |p| with p(x) = x**2 - trace x + keep. Both |p|**2 and |x - 1|**2 are polynomials in the cosine of
    the angle, so the maxima are among a few candidates.

    Args:
        network: The network.
        r: Radius of the circle.

    Returns:
        Gains from the force to the previous y and z, each (hidden).
    """
    dt, push, keep = network.dt, network.push, network.keep
    trace = 1 + keep - dt * push * network.gamma
    q2, q1 = 4 * keep * r**2, -2 * trace * r * (r**2 + keep)
    q0 = r**4 + trace**2 * r**2 + keep**2 - 2 * keep * r**2
    n0, n1 = r**2 + 1, -2 * r
    ones = torch.ones_like(keep)
    # |p|**2 is smallest at an end or at the vertex of its parabola, the quotient largest there or where its slope is 0.
    vertex = torch.where(q2 != 0, -q1 / torch.where(q2 != 0, 2 * q2, ones), ones)
    a, half_b, c = -n1 * q2, -n0 * q2, n1 * q0 - n0 * q1
    root = torch.sqrt(torch.clamp(half_b**2 - a * c, min=0))
    safe = torch.where(a != 0, a, ones)
    flat = [torch.where(a != 0, (-half_b + sign * root) / safe, ones) for sign in (1, -1)]
    cosines = torch.stack([ones, -ones, *(torch.clamp(x, -1, 1) for x in (vertex, *flat))])
    # Near a root of p its polynomial in the cosine cancels numerically; the distances to the roots do not.
    x = r * torch.complex(cosines, torch.sqrt(1 - cosines**2))
    half = torch.complex(trace / 2, torch.zeros_like(trace))
    split = torch.sqrt(half**2 - keep)
    size = (x - half - split).abs() * (x - half + split).abs()
    return push * dt * r / size.amin(0), push * ((x - 1).abs() / size).amax(0)


def loop_gain(network: Network, r: float) -> float:
    """Return the gain of the whole loop for sequences weighted by r**-n.

    Args:
        network: The network.
        r: Growth rate per step.

    Returns:
        The gain; infinite unless r exceeds every neuron's spectral radius.
    """
    radii = spectral_radius(network.dt, network.gamma, network.epsilon, damping=network.damping)
    if not (radii < r).all():
        return math.inf
    y, z = filter_gains(network, r)
    if not (y.isfinite().all() and z.isfinite().all()):  # r equals a spectral radius up to rounding
        return math.inf
    return (spectral_norm(network.W * y) + spectral_norm(network.W_z * z)).item()


def slowest_rate(network: Network, tolerance: float = 1e-9) -> float:
    """Return the smallest r whose loop gain is below 1.

    No Jacobian product decays slower, or grows faster, than r**lag. A rate below 1 proves that gradients
    vanish for every input.

    Args:
        network: The network.
        tolerance: Relative tolerance of the bisection.

    Returns:
        The rate per step; infinite where the weights are so large that r would overflow.

    Examples:
        >>> import torch
        >>> from cornn import theory
        >>> uncoupled = theory.network(torch.zeros(2, 2), torch.zeros(2, 2), dt=0.1, gamma=1.0, epsilon=1.0)
        >>> round(theory.small_gain.slowest_rate(uncoupled), 4)
        0.9487
    """
    radius = spectral_radius(network.dt, network.gamma, network.epsilon, damping=network.damping).max().item()
    low, high = radius, max(2 * radius, 2.0)
    while loop_gain(network, high) >= 1:
        low, high = high, 2 * high
        if high > LARGEST_RATE:
            return math.inf
    while high - low > tolerance * high:
        middle = (low + high) / 2
        low, high = (low, middle) if loop_gain(network, middle) < 1 else (middle, high)
    return high


def log_growth_bound(network: Network, steps: int, rates: int = 12) -> Tensor:
    """Return the natural logarithm of a bound on the Euclidean norm of dX_n/dX_k.

    It is the minimum over several values of r: those near `slowest_rate` have large constants and win at long lags.

    Args:
        network: The network.
        steps: Largest lag.
        rates: Number of values of r.

    Returns:
        The bound for lags n - k from 0 to `steps`, (steps + 1).
    """
    least = slowest_rate(network)
    if not math.isfinite(least):
        return torch.cat((torch.zeros(1), torch.full((steps,), math.inf))).double()
    rs = least + torch.logspace(-6, 0.3, rates, dtype=torch.float64) * max(least, 0.1)
    gains = torch.tensor([loop_gain(network, r) for r in rs.tolist()], dtype=torch.float64)
    rs, gains = rs[gains < 1], gains[gains < 1]
    free, impulse = _weighted_responses(network, rs, steps)
    coupling = spectral_norm(torch.cat((network.W, network.W_z), 1))
    # free[n] is the norm of n uncoupled steps over r**n; the force they cause acts one step later.
    caused = coupling * torch.sqrt((free**2).sum(0)) / rs
    constants = free.amax(0) + torch.sqrt((impulse**2).sum(0)) * caused / (1 - gains)
    lags = torch.arange(steps + 1, dtype=torch.float64)[:, None]
    return torch.cat((torch.zeros(1, dtype=torch.float64), (torch.log(constants) + lags * torch.log(rs)).amin(1)[1:]))


def _weighted_responses(network: Network, rs: Tensor, steps: int) -> tuple[Tensor, Tensor]:
    """Return the largest norms over the neurons of n uncoupled steps, and of the state n steps after a unit force.

    Both are divided by r**n, for n from 0 to `steps` and each r: (steps + 1, rates).
    """
    # Neurons with equal constants have equal responses.
    distinct = torch.unique(
        torch.stack((network.dt, network.gamma, network.epsilon, network.keep, network.push)), dim=1
    )
    dt, gamma, _, keep, push = distinct.unsqueeze(2)
    y = torch.stack((torch.ones_like(dt), torch.zeros_like(dt), dt * push)).expand(-1, -1, len(rs))
    z = torch.stack((torch.zeros_like(dt), torch.ones_like(dt), push)).expand(-1, -1, len(rs))
    free, impulse = [], []
    for _ in range(steps + 1):
        squared = y**2 + z**2
        # The Frobenius norm of the 2 x 2 power is an upper bound on its spectral norm.
        free.append(torch.sqrt(squared[0] + squared[1]).amax(0))
        impulse.append(torch.sqrt(squared[2]).amax(0))
        z = (keep * z - push * gamma * y) / rs
        y = y / rs + dt * z
    return torch.stack(free), torch.stack(impulse)
