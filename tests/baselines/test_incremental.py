"""The incremental RNN against its equations, its size, and what its authors claim of its derivative."""

import pytest
import torch
from tolerances import FLOAT64

from cornn._random import generator
from cornn.baselines import IncrementalRNN
from cornn.models import count_parameters


def test_layer_is_its_equations_step_by_step():
    layer = IncrementalRNN(3, 4, inner_steps=3, eta=0.4, alpha=0.8, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    with torch.no_grad():
        layer.cell().eta.copy_(torch.tensor([0.5, 0.3, 0.2]))
    input = torch.randn(6, 2, 3, generator=generator(0, "input"), dtype=torch.float64)
    cell, h = layer.cell(), torch.zeros(2, 4, dtype=torch.float64)
    output, last = layer(input)
    for x, found in zip(input, output, strict=True):
        g = torch.zeros_like(h)
        for eta in cell.eta:
            total = g + h
            g = g + eta * (torch.tanh(total @ cell.weight_hh.T + x @ cell.weight_ih.T + cell.bias) - 0.8 * total)
        h = g
        torch.testing.assert_close(found, h, **FLOAT64)
    torch.testing.assert_close(last[0], h, **FLOAT64)


def test_derivative_at_the_equilibrium_is_minus_the_identity():
    layer = IncrementalRNN(2, 4, inner_steps=200, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    with torch.no_grad():
        layer.cell().weight_hh *= 0.5
    input, h = (torch.randn(1, size, generator=generator(0, "data"), dtype=torch.float64) for size in (2, 4))
    jacobian = torch.autograd.functional.jacobian(lambda state: layer(input, state)[1][0], h)
    torch.testing.assert_close(jacobian[:, 0], -torch.eye(4, dtype=torch.float64), **FLOAT64)


def test_size():
    """One step size for each inner step beside the weights of a plain RNN."""
    d, m, steps = 9, 64, 5
    assert count_parameters(IncrementalRNN(d, m, inner_steps=steps)) == m * (m + d + 1) + steps


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"inner_steps": 0}, "inner_steps must be a positive integer"),
        ({"eta": 1.5, "alpha": 2.0}, "inner steps would diverge"),
        ({"activation": "sine"}, "unknown activation 'sine'"),
    ],
)
def test_bad_options_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        IncrementalRNN(1, 2, **options)
