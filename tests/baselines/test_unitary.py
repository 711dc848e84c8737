"""uRNN against its equations, the length that its matrix keeps, and its size."""

import pytest
import torch
from tolerances import FLOAT64
from torch import nn

from cornn._random import generator
from cornn.baselines import UnitaryRNN
from cornn.models import SequenceModel, count_parameters

UNITS = 4


def network():
    layer = UnitaryRNN(3, 2 * UNITS, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    nn.init.constant_(layer.cell().bias, -0.1)
    return layer, torch.randn(6, 2, 3, generator=generator(0, "input"), dtype=torch.float64)


def matrix(cell):
    """W = D3 R2 F^-1 D2 P R1 F D1, factor by factor."""
    unit = torch.eye(UNITS, dtype=torch.complex128)
    D = [torch.diag(torch.exp(1j * phase)) for phase in cell.phases]
    R = []
    for real, imaginary in cell.reflections:
        v = (real + 1j * imaginary).unsqueeze(1)
        R.append(unit - 2 * v @ v.mH / (v.mH @ v).real)
    number = torch.arange(UNITS, dtype=torch.float64)
    F = torch.exp(-2j * torch.pi * number.unsqueeze(1) * number / UNITS) / UNITS**0.5
    P = unit[cell.permutation]
    return D[2] @ R[1] @ F.mH @ D[1] @ P @ R[0] @ F @ D[0]


def test_layer_is_its_equations_step_by_step():
    layer, input = network()
    cell = layer.cell()
    W, h = matrix(cell), torch.complex(*cell.start.chunk(2)).expand(2, UNITS)
    torch.testing.assert_close(cell.evolution(), W, **FLOAT64)
    output, last = layer(input)
    for x, found in zip(input, output, strict=True):
        a = h @ W.T + torch.complex(*(x @ cell.weight_ih.T).chunk(2, -1))
        h = a * torch.relu(a.abs() + cell.bias) / (a.abs() + 1e-5)
        torch.testing.assert_close(found, torch.cat((h.real, h.imag), -1), **FLOAT64)
    assert torch.equal(last[0], output[-1])


def test_matrix_is_unitary_also_after_training():
    layer, input = network()
    optimiser = torch.optim.RMSprop(layer.parameters(), lr=1e-2)
    for _ in range(5):
        optimiser.zero_grad()
        layer(input)[0].square().mean().backward()
        optimiser.step()
    W = layer.cell().evolution()
    torch.testing.assert_close(W @ W.mH, torch.eye(UNITS, dtype=torch.complex128), **FLOAT64)


def test_learned_start_is_used_unless_a_state_is_given():
    layer, input = network()
    start = layer.cell().start.expand(1, 2, -1)
    assert torch.equal(layer(input)[0], layer(input, start)[0])
    assert not torch.allclose(layer(input)[0], layer(input, torch.zeros_like(start))[0])
    (gradient,) = torch.autograd.grad(layer(input)[0].sum(), layer.cell().start)
    assert (gradient != 0).all()


def test_sizes():
    """With its readout the network of 512 complex units for MNIST has 16,394 parameters; the paper's table says 9k."""
    d, n = 1, 512
    layer = UnitaryRNN(d, 2 * n)
    assert count_parameters(layer) == 2 * n * d + 10 * n
    assert count_parameters(SequenceModel(layer, 10)) == 16_394


def test_odd_size_is_refused():
    with pytest.raises(ValueError, match="hidden_size must be even"):
        UnitaryRNN(1, 5)
