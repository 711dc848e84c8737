"""The rivals with one product a step: their equations, written out here once more, other people's code, and counts."""

import pytest
import torch
from tolerances import FLOAT64
from torch import nn
from torch.nn.utils import parametrizations

from cornn import CoRNN
from cornn.baselines import (
    DTRIV,
    AntisymmetricRNN,
    ExpRNN,
    FastGRNN,
    FastRNN,
    GatedAntisymmetricRNN,
    LipschitzRNN,
    TanhRNN,
)
from cornn.baselines.orthogonal import _exponential
from cornn.models import count_parameters

TIME, BATCH, FEATURES, HIDDEN = 7, 4, 3, 6
LAYERS = (TanhRNN, FastRNN, FastGRNN, AntisymmetricRNN, GatedAntisymmetricRNN, ExpRNN, DTRIV, LipschitzRNN)
every_layer = pytest.mark.parametrize("kind", LAYERS, ids=lambda kind: kind.__name__)


def make(kind, **options):
    """A layer in double precision whose numbers are all drawn, also those that start at 0 or 1."""
    layer = kind(FEATURES, HIDDEN, dtype=torch.float64, **options)
    random = torch.Generator().manual_seed(0)
    layer.reset_parameters(random)
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter += 0.3 * torch.randn(parameter.shape, generator=random, dtype=torch.float64)
    return layer


def data(*shape):
    random = torch.Generator().manual_seed(1)
    return torch.randn(*(shape or (TIME, BATCH, FEATURES)), generator=random, dtype=torch.float64)


def antisymmetric(cell):
    W = torch.zeros(HIDDEN, HIDDEN, dtype=torch.float64)
    W[tuple(torch.triu_indices(HIDDEN, HIDDEN, 1))] = cell.weight_hh
    return W - W.T


def fast_grnn(cell, x, h):
    s = x @ cell.weight_ih.T + h @ cell.weight_hh.T
    z = torch.sigmoid(s + cell.bias_z)
    return z * h + (torch.sigmoid(cell.zeta) * (1 - z) + torch.sigmoid(cell.nu)) * torch.tanh(s + cell.bias_h)


def plain_antisymmetric(cell, x, h):
    A = antisymmetric(cell) - cell.gamma * torch.eye(HIDDEN, dtype=torch.float64)
    return h + cell.epsilon * torch.tanh(h @ A.T + x @ cell.weight_ih.T + cell.bias)


def gated_antisymmetric(cell, x, h):
    A = antisymmetric(cell) - cell.gamma * torch.eye(HIDDEN, dtype=torch.float64)
    V_z, V, b_z, b = *cell.weight_ih.split(HIDDEN), *cell.bias.split(HIDDEN)
    return h + cell.epsilon * torch.sigmoid(h @ A.T + x @ V_z.T + b_z) * torch.tanh(h @ A.T + x @ V.T + b)


def modrelu(cell, x, h, B):
    a = h @ B.T + x @ cell.weight_ih.T
    return torch.sign(a) * torch.relu(a.abs() + cell.bias)


def lipschitz(cell, x, h):
    def matrix(M):
        return cell.beta * (M - M.T) + (1 - cell.beta) * (M + M.T) - cell.gamma * torch.eye(HIDDEN, dtype=torch.float64)

    A, W = matrix(cell.weight_hh_linear), matrix(cell.weight_hh_tanh)
    return h + cell.epsilon * (h @ A.T + torch.tanh(h @ W.T + x @ cell.weight_ih.T + cell.bias))


EQUATIONS = {
    TanhRNN: lambda cell, x, h: torch.tanh(x @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias),
    FastRNN: lambda cell, x, h: (
        torch.sigmoid(cell.beta) * h
        + torch.sigmoid(cell.alpha) * torch.tanh(x @ cell.weight_ih.T + h @ cell.weight_hh.T + cell.bias)
    ),
    FastGRNN: fast_grnn,
    AntisymmetricRNN: plain_antisymmetric,
    GatedAntisymmetricRNN: gated_antisymmetric,
    ExpRNN: lambda cell, x, h: modrelu(cell, x, h, torch.linalg.matrix_exp(antisymmetric(cell))),
    DTRIV: lambda cell, x, h: modrelu(cell, x, h, cell.base @ torch.linalg.matrix_exp(antisymmetric(cell))),
    LipschitzRNN: lipschitz,
}


@every_layer
@pytest.mark.parametrize("backend", ["auto", "portable", "reference"])
def test_layer_and_cell_follow_the_equation(kind, backend):
    layer, input, h = make(kind, backend=backend), data().requires_grad_(), data(BATCH, HIDDEN)
    cell = layer.cell()
    output, last = layer(input, h.unsqueeze(0))
    hs, steps, state = [], [], h
    for x in input:
        steps.append(cell(x, state))
        state = EQUATIONS[kind](cell, x, state)
        hs.append(state)
    torch.testing.assert_close(output, torch.stack(hs), **FLOAT64)
    torch.testing.assert_close(torch.stack(steps), torch.stack(hs), **FLOAT64)
    torch.testing.assert_close(last[0], hs[-1], **FLOAT64)
    variables = [input, *layer.parameters()]
    weights = data(TIME, BATCH, HIDDEN)
    found, want = (torch.autograd.grad((x * weights).sum(), variables) for x in (output, torch.stack(hs)))
    torch.testing.assert_close(found, want, **FLOAT64)


@every_layer
def test_derivatives(kind):
    layer, input = make(kind), data(3, 2, FEATURES).requires_grad_()
    names = [name for name, _ in layer.named_parameters()]

    def f(input, *weights):
        return torch.func.functional_call(layer, dict(zip(names, weights, strict=True)), (input,))[0]

    assert torch.autograd.gradcheck(f, (input, *layer.parameters()))


@every_layer
def test_timespans_are_refused(kind):
    with pytest.raises(ValueError, match="timespans scale a time step"):
        make(kind)(data(), timespans=torch.ones(TIME, dtype=torch.float64))


@every_layer
def test_same_seed_same_weights(kind):
    layers = [kind(FEATURES, HIDDEN) for _ in range(2)]
    for layer in layers:
        layer.reset_parameters(torch.Generator().manual_seed(5))
    first, second = (layer.state_dict() for layer in layers)
    assert all(torch.equal(first[name], second[name]) for name in first)


D, M = 5, 16
COUNTS = {
    TanhRNN: M * (D + M + 1),
    FastRNN: M * (D + M + 1) + 2,
    FastGRNN: M * (D + M + 2) + 2,
    AntisymmetricRNN: M * (M - 1) // 2 + M * D + M,
    GatedAntisymmetricRNN: M * (M - 1) // 2 + 2 * (M * D + M),
    ExpRNN: M * (M - 1) // 2 + M * D + M,
    DTRIV: M * (M - 1) // 2 + M * D + M,
    LipschitzRNN: 2 * M * M + M * D + M,
}


@every_layer
def test_count_of_parameters(kind):
    assert count_parameters(kind(D, M)) == COUNTS[kind]


def copied(cell, **weights):
    """A cell of another library with our numbers."""
    with torch.no_grad():
        for name, value in weights.items():
            parameter = getattr(cell, name)
            parameter.copy_(value.reshape(parameter.shape))
    return cell


def upper(cell):
    return antisymmetric(cell).triu(1)


ORACLES = {
    FastRNN: (
        "FastRNNCell",
        {"alpha_init": -3.0, "beta_init": 3.0},
        lambda c: {
            "weight_ih": c.weight_ih, "weight_hh": c.weight_hh, "bias_ih": c.bias, "alpha": c.alpha, "beta": c.beta
        },
    ),
    FastGRNN: (
        "FastGRNNCell",
        {"nonlinearity": "sigmoid"},  # of its gate, which is a tanh there unless one says so
        lambda c: {
            "weight_ih": c.weight_ih,
            "weight_hh": c.weight_hh,
            "bias_ih": torch.cat((c.bias_z, c.bias_h)),
            "zeta": c.zeta,
            "nu": c.nu,
        },
    ),
    AntisymmetricRNN: (
        "AntisymmetricRNNCell",
        {"epsilon": 0.01, "gamma": 0.01},
        lambda c: {"weight_ih": c.weight_ih, "weight_hh": upper(c), "bias_ih": c.bias},
    ),
    GatedAntisymmetricRNN: (
        "GatedAntisymmetricRNNCell",
        {"epsilon": 0.01, "gamma": 0.01},
        lambda c: {"weight_ih": c.weight_ih, "weight_hh": upper(c), "bias_ih": c.bias},
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", ORACLES, ids=lambda kind: kind.__name__)
def test_torchrecurrent_computes_the_same(kind):
    torchrecurrent = pytest.importorskip("torchrecurrent", reason="torchrecurrent is not installed")
    name, options, weights = ORACLES[kind]
    layer = make(kind)
    other = getattr(torchrecurrent, name)(FEATURES, HIDDEN, recurrent_bias=False, dtype=torch.float64, **options)
    copied(other, **weights(layer.cell()))
    state, hs = torch.zeros(BATCH, HIDDEN, dtype=torch.float64), []
    for x in data():
        state = other(x, state)
        hs.append(state)
    torch.testing.assert_close(layer(data())[0], torch.stack(hs), **FLOAT64)


def test_cornn_of_torchrecurrent_computes_the_same():
    torchrecurrent = pytest.importorskip("torchrecurrent", reason="torchrecurrent is not installed")
    constants = {"dt": 0.2, "gamma": 1.5, "epsilon": 2.5}
    layer = CoRNN(FEATURES, HIDDEN, dtype=torch.float64, **constants)
    V, W, W_z, b = layer.matrices()
    biases = {"recurrent_bias": False, "cell_bias": False}
    other = torchrecurrent.coRNNCell(FEATURES, HIDDEN, dtype=torch.float64, **biases, **constants)
    copied(other, weight_ih=V, weight_hh=W, weight_ch=W_z, bias_ih=b)
    state, ys = (torch.zeros(BATCH, HIDDEN, dtype=torch.float64),) * 2, []
    for x in data():
        state = other(x, state)
        ys.append(state[0])
    output, (_, z) = layer(data())
    torch.testing.assert_close(output, torch.stack(ys), **FLOAT64)
    torch.testing.assert_close(z[0], state[1], **FLOAT64)


def test_tanh_rnn_is_that_of_pytorch():
    layer, other = make(TanhRNN), nn.RNN(FEATURES, HIDDEN, dtype=torch.float64)
    cell = layer.cell()
    zeros = torch.zeros(HIDDEN, dtype=torch.float64)
    copied(other, weight_ih_l0=cell.weight_ih, weight_hh_l0=cell.weight_hh, bias_ih_l0=cell.bias, bias_hh_l0=zeros)
    torch.testing.assert_close(layer(data()), other(data()), **FLOAT64)


def test_exponential_is_that_of_pytorchs_parametrisation():
    cell = make(ExpRNN).cell()
    linear = parametrizations.orthogonal(
        nn.Linear(HIDDEN, HIDDEN, bias=False, dtype=torch.float64),
        orthogonal_map="matrix_exp",
        use_trivialization=False,
    )
    with torch.no_grad():
        linear.parametrizations.weight.original.copy_(antisymmetric(cell).tril())
    torch.testing.assert_close(cell.matrix(), linear.weight, **FLOAT64)


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 10.0, 400.0])
def test_exponential_and_its_derivative_are_those_of_pytorch(size):
    """size: the largest sum of a column's absolute values."""
    A = torch.randn(9, 9, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = A - A.T
    A = (A * size / A.abs().sum(0).max()).requires_grad_()
    found, want = _exponential(A), torch.linalg.matrix_exp(A)
    torch.testing.assert_close(found, want, **FLOAT64)
    weights = data(9, 9)
    torch.testing.assert_close(*(torch.autograd.grad((x * weights).sum(), A)[0] for x in (found, want)), **FLOAT64)


def off_orthogonal(matrix):
    return (matrix.double().T @ matrix.double() - torch.eye(len(matrix))).abs().max().item()


@pytest.mark.parametrize("kind", [ExpRNN, DTRIV], ids=lambda kind: kind.__name__)
def test_matrix_stays_orthogonal_in_training(kind):
    layer = kind(2, 32)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    optimiser = torch.optim.RMSprop(layer.parameters(), lr=1e-2)
    input = data(20, 8, 2).float()
    start = layer.cell().matrix().detach().clone()
    for step in range(30):
        optimiser.zero_grad()
        layer(input)[0].square().mean().backward()
        optimiser.step()
        if kind is DTRIV and step % 10 == 9:
            layer.rebase_()
    assert (layer.cell().matrix() - start).abs().max() > 0.1
    assert off_orthogonal(layer.cell().matrix().detach()) < 1e-5


def test_rebasing_changes_the_numbers_and_not_the_function():
    layer = make(DTRIV)
    want, before = layer(data())[0].detach(), layer.cell().base.clone()
    layer.rebase_()
    assert not torch.allclose(layer.cell().base, before)
    assert (layer.cell().weight_hh == 0).all()
    torch.testing.assert_close(layer(data())[0], want, **FLOAT64)


@pytest.mark.parametrize("init", ["henaff", "cayley"])
@pytest.mark.parametrize("kind", [ExpRNN, DTRIV], ids=lambda kind: kind.__name__)
def test_orthogonal_layers_start_with_rotations_of_pairs(kind, init):
    matrix = kind(2, 5, init=init, dtype=torch.float64).cell().matrix().detach()
    assert off_orthogonal(matrix) < 1e-12
    pairs = torch.block_diag(torch.ones(2, 2), torch.ones(2, 2), torch.ones(1, 1)).bool()
    assert (matrix[~pairs] == 0).all()
    torch.testing.assert_close(matrix[4, 4].item(), 1.0, **FLOAT64)


def test_unknown_init_is_refused():
    with pytest.raises(ValueError, match="unknown init 'random': choose one of henaff, cayley"):
        ExpRNN(2, 4, init="random")


def test_antisymmetric_eigenvalues_lie_on_a_line():
    cell = make(AntisymmetricRNN, gamma=0.3).cell()
    eigenvalues = torch.linalg.eigvals(cell.matrix().detach())
    torch.testing.assert_close(eigenvalues.real, torch.full_like(eigenvalues.real, -0.3), **FLOAT64)
    assert eigenvalues.imag.abs().max() > 0.1


@pytest.mark.parametrize("beta", [0.5, 1.0])
def test_lipschitz_matrices_are_between_symmetric_and_skew(beta):
    A, W = make(LipschitzRNN, beta=beta, gamma=0.2).cell().matrices()
    for matrix in (A, W):
        rest = matrix + 0.2 * torch.eye(HIDDEN, dtype=torch.float64)
        symmetric, skew = (rest + rest.T) / 2, (rest - rest.T) / 2
        assert (symmetric.abs().max() > 0.01) == (beta < 1)
        assert skew.abs().max() > 0.01
