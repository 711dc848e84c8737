"""Skip LSTM and Skip GRU against their equations, their straight-through gradient, and their sizes."""

import pytest
import torch
from tolerances import FLOAT64
from torch import nn

from cornn._random import generator
from cornn.baselines import SkipGRU, SkipLSTM
from cornn.baselines.skip import round_straight_through
from cornn.models import count_parameters

TIME = 12


def network(kind, bias_skip):
    """A layer whose gate is shut for some steps, and its input (time, batch, features)."""
    layer = kind(3, 4, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    nn.init.constant_(layer.cell().bias_skip, bias_skip)
    return layer, torch.randn(TIME, 2, 3, generator=generator(0, "input"), dtype=torch.float64)


def oracle(layer, input):
    """Outputs, chances and steps taken, by PyTorch's own cells and plain branches."""
    cell, lstm = layer.cell(), isinstance(layer, SkipLSTM)
    outputs, taken = [], torch.zeros(input.shape[1])
    for column in range(input.shape[1]):
        h = c = torch.zeros(4, dtype=torch.float64)
        chance, rows = torch.tensor(1.0, dtype=torch.float64), []
        for x in input[:, column]:
            if chance > 0.5:
                drive = cell.weight_ih @ x + cell.bias
                if lstm:
                    i, f, g, o = (drive + cell.weight_hh @ h).chunk(4)
                    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
                    h = torch.sigmoid(o) * torch.tanh(c)
                else:
                    (U_z, U_r, U_h), (d_z, d_r, d_h) = cell.weight_hh.chunk(3), drive.chunk(3)
                    z, r = torch.sigmoid(d_z + U_z @ h), torch.sigmoid(d_r + U_r @ h)
                    h = (1 - z) * h + z * torch.tanh(d_h + U_h @ (r * h))
                growth = torch.sigmoid(cell.weight_skip @ (c if lstm else h) + cell.bias_skip).squeeze()
                chance, taken[column] = growth, taken[column] + 1
            else:
                chance = torch.clamp(chance + growth, max=1.0)
            rows.append(h)
        outputs.append(torch.stack(rows))
    return torch.stack(outputs, 1), taken


@pytest.mark.parametrize("kind", [SkipLSTM, SkipGRU])
@pytest.mark.parametrize("bias_skip", [1.0, -1.5, -3.0])
def test_layer_is_its_equations_step_by_step(kind, bias_skip):
    layer, input = network(kind, bias_skip)
    output, state = layer(input)
    want, taken = oracle(layer, input)
    torch.testing.assert_close(output, want, **FLOAT64)
    assert torch.equal(state[-1][0], taken.unsqueeze(-1).expand(2, 4).double())
    assert (taken == TIME).all() if bias_skip == 1.0 else (taken < TIME).all()


def test_gate_is_exact_and_its_gradient_that_of_the_identity():
    chance = torch.tensor([0.1, 0.3, 0.7, 0.9], requires_grad=True)
    gate = round_straight_through(chance)
    (gradient,) = torch.autograd.grad((gate * torch.arange(4.0)).sum(), chance)
    assert gate.tolist() == [0, 0, 1, 1]
    assert torch.equal(gradient, torch.arange(4.0))


@pytest.mark.parametrize("kind", [SkipLSTM, SkipGRU])
def test_skipped_steps_copy_the_state_to_the_bit(kind):
    layer, input = network(kind, -3.0)
    output, _ = layer(input)
    same = (output[1:] == output[:-1]).all(-1)
    assert same.sum() >= TIME
    assert not same.all()


@pytest.mark.parametrize("kind", [SkipLSTM, SkipGRU])
def test_a_price_on_steps_reaches_the_gate(kind):
    layer, input = network(kind, -1.5)
    taken = layer(input)[1][-1]
    (gradient,) = torch.autograd.grad(taken[..., 0].mean(), layer.cell().bias_skip)
    assert gradient > 0


def test_sizes_are_the_published_ones():
    """220k and 164k of the paper's IMDB table, for words of 300 numbers."""
    d, m = 300, 128
    assert count_parameters(SkipLSTM(d, m)) == 4 * m * (m + d + 1) + m + 1 == 219_777
    assert count_parameters(SkipGRU(d, m)) == 3 * m * (m + d + 1) + m + 1 == 164_865
