"""ReLU GRU against its equations, and its size."""

import torch
from tolerances import FLOAT64

from cornn._random import generator
from cornn.baselines import ReLUGRU
from cornn.models import count_parameters


def test_layer_is_its_equations_step_by_step():
    layer = ReLUGRU(3, 4, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    input = torch.randn(6, 2, 3, generator=generator(0, "input"), dtype=torch.float64)
    cell, h = layer.cell(), torch.zeros(2, 4, dtype=torch.float64)
    (W_z, W_r, W_h), (U_z, U_r, U_h), (b_z, b_r, b_h) = (
        part.chunk(3) for part in (cell.weight_ih, cell.weight_hh, cell.bias)
    )
    output, last = layer(input)
    for x, found in zip(input, output, strict=True):
        z = torch.sigmoid(x @ W_z.T + h @ U_z.T + b_z)
        r = torch.sigmoid(x @ W_r.T + h @ U_r.T + b_r)
        h = (1 - z) * h + z * torch.relu(x @ W_h.T + (r * h) @ U_h.T + b_h)
        torch.testing.assert_close(found, h, **FLOAT64)
    torch.testing.assert_close(last[0], h, **FLOAT64)


def test_size_is_that_of_a_gru_with_one_bias_a_gate():
    d, m = 128, 128
    assert count_parameters(ReLUGRU(d, m)) == 3 * m * (m + d + 1) == 98_688
