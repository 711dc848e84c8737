"""LEM against its equations, its size, and the range of its step."""

import pytest
import torch
from tolerances import FLOAT64

from cornn._random import generator
from cornn.baselines import LEM
from cornn.models import count_parameters


def test_layer_is_its_equations_step_by_step():
    layer = LEM(3, 4, dt=0.3, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    input = torch.randn(6, 2, 3, generator=generator(0, "input"), dtype=torch.float64)
    spans = torch.rand(6, 2, generator=generator(0, "spans"), dtype=torch.float64)
    cell = layer.cell()
    V_1, V_2, V_z, V_y = cell.weight_ih.chunk(4)
    W_1, W_2, W_z = cell.weight_hh.chunk(3)
    b_1, b_2, b_z, b_y = cell.bias.chunk(4)
    y = z = torch.zeros(2, 4, dtype=torch.float64)
    output, last = layer(input, timespans=spans)
    for u, span, found in zip(input, spans.unsqueeze(-1), output, strict=True):
        d1 = 0.3 * span * torch.sigmoid(y @ W_1.T + u @ V_1.T + b_1)
        d2 = 0.3 * span * torch.sigmoid(y @ W_2.T + u @ V_2.T + b_2)
        z = (1 - d2) * z + d2 * torch.tanh(y @ W_z.T + u @ V_z.T + b_z)
        y = (1 - d1) * y + d1 * torch.tanh(z @ cell.weight_zy.T + u @ V_y.T + b_y)
        torch.testing.assert_close(found, y, **FLOAT64)
    torch.testing.assert_close((last[0][0], last[1][0]), (y, z), **FLOAT64)


def test_size():
    d, m = 2, 128
    assert count_parameters(LEM(d, m)) == 4 * m * (m + d + 1)


def test_states_stay_within_one():
    """Both states are averages of values of tanh, whatever the weights and the input."""
    layer = LEM(3, 4)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter *= 50
        output, _ = layer(100 * torch.randn(200, 2, 3, generator=generator(0, "input")))
    assert output.abs().max() <= 1


def test_step_out_of_range_is_refused():
    with pytest.raises(ValueError, match="dt must be above 0 and at most 1"):
        LEM(1, 2, dt=1.5)
