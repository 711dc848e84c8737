"""The engine by the names of updates, with the last state as one tensor: what most of its tests want."""

import torch
from tolerances import FLOAT64
from torch import Tensor

from cornn import engine
from cornn.engine.contract import Request
from cornn.engine.op import options
from cornn.functional import Spectrum, spectrum

__all__ = ["assert_same_gradients", "operator_options", "problem", "random_spectrum", "run"]


def run(*arguments, update: str, **others) -> tuple[Tensor, Tensor]:
    """Return the output, and the last state (states, batch, hidden), of `engine.run`."""
    output, parts = engine.run(*arguments, update=engine.UPDATES[update], **others)
    return output, torch.cat(parts)


def problem(update: str, *others, **named) -> engine.Problem:
    return engine.Problem(engine.UPDATES[update], *others, **named)


def operator_options(update: str, backend: str, every: bool, keep: bool, precision: str = "exact") -> tuple:
    """Return the options of the registered operators."""
    return options(backend, Request(engine.UPDATES[update], every, keep, precision))


def random_spectrum(random: torch.Generator, *shape: int) -> Spectrum:
    """Return the spectrum of random constants: overdamped and underdamped neurons."""
    dt, gamma, epsilon = torch.rand(3, *shape, generator=random, dtype=torch.float64)
    return spectrum(0.1 + 0.8 * dt, 0.05 + gamma, 0.02 + 1.5 * epsilon)


def assert_same_gradients(got, want, leaves, again=False):
    """Compare gradients, none of which may be zero; `again`: also those of the sum of their squares."""
    if again:
        want, got = (torch.autograd.grad(sum(x.square().sum() for x in one), leaves) for one in (want, got))
    for one, other in zip(got, want, strict=True):
        assert other.any()
        torch.testing.assert_close(one, other, **FLOAT64)
