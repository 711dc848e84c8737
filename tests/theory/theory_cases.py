"""Random networks and inputs for hypothesis: both dampings, constants per neuron, small and very large weights."""

import torch
from hypothesis import strategies as some

from cornn.theory import Network, network

DAMPINGS = ("explicit", "implicit")


@some.composite
def networks(
    draw, *, within: float | None = None, dampings=DAMPINGS, gammas=(0.01, 30.0), scales=(0.0, 30.0)
) -> Network:
    """within: dt is this share of the energy limit or less, for each neuron; else anything up to 0.9."""
    m = draw(some.integers(1, 4))
    random = torch.Generator().manual_seed(draw(some.integers(0, 2**31)))

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(*shape, generator=random, dtype=torch.float64)

    damping = draw(some.sampled_from(dampings))
    gamma, epsilon = torch.exp(uniform(*(torch.tensor(gammas).log().tolist()), m)), uniform(0.05, 8.0, m)
    dt = uniform(0.01, 0.9, m)
    if within is not None:
        stiff = gamma + epsilon**2 if damping == "explicit" else gamma
        dt = torch.minimum(dt, within * 2 * epsilon / stiff)
    scale = draw(some.floats(*scales))
    W, W_z = scale * uniform(-1, 1, m, m), scale * uniform(-1, 1, m, m)
    return network(W, W_z, dt, gamma, epsilon, V=3 * uniform(-1, 1, m, 2), b=uniform(-1, 1, m), damping=damping)


@some.composite
def inputs(draw, steps: int = 40, batch: int = 3) -> torch.Tensor:
    """Noise, steps and pulses of all sizes."""
    random = torch.Generator().manual_seed(draw(some.integers(0, 2**31)))
    size = draw(some.floats(0.0, 50.0))
    noise = torch.randn(steps, batch, 2, generator=random, dtype=torch.float64)
    held = draw(some.integers(1, steps))
    return size * noise[torch.arange(steps) // held * held % steps]
