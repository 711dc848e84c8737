"""LinOSS and D-LinOSS: convolution and scan, the recurrence step by step, coRNN as a special case, stability, sizes."""

import copy
import math

import pytest
import torch
from tolerances import FLOAT64
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from cornn import CoRNN
from cornn._random import generator, uniform_
from cornn.baselines import DLinOSS, LinOSS, linoss
from cornn.baselines.linoss import Frame, convolve, frame, scan, stable_range
from cornn.models import count_parameters

MADE = {
    "implicit": lambda *sizes, **options: LinOSS(*sizes, discretisation="implicit", **options),
    "imex": lambda *sizes, **options: LinOSS(*sizes, discretisation="imex", **options),
    "damped": DLinOSS,
}
every_kind = pytest.mark.parametrize("name", MADE)


def numbers(*shape, purpose="data"):
    return torch.randn(*shape, generator=generator(0, purpose), dtype=torch.float64)


@pytest.mark.parametrize("shared", [True, False], ids=["one-matrix", "a-matrix-a-step"])
@pytest.mark.parametrize("steps", [1, 2, 3, 4, 5, 8, 9, 33])
def test_scan_is_the_loop(steps, shared):
    M = Frame(*numbers(4, 1 if shared else steps, 2, 3).mul(0.5))
    z, x = numbers(2, steps, 2, 3, purpose="drive")
    found = scan(M, z, x)
    state = z[0], x[0]
    for n in range(steps):
        if n:
            m = Frame(*(part[0 if shared else n] for part in M))
            state = m.zz * state[0] + m.zx * state[1] + z[n], m.xz * state[0] + m.xx * state[1] + x[n]
        torch.testing.assert_close((found[0][n], found[1][n]), state, **FLOAT64)


def test_scan_has_the_depth_of_a_logarithm(monkeypatch):
    calls = []
    monkeypatch.setattr(linoss, "scan", lambda *arguments: calls.append(1) or scan(*arguments))
    linoss.scan(Frame(*numbers(4, 1, 1, 1)), numbers(1000, 1, 1), numbers(1000, 1, 1))
    assert len(calls) == math.ceil(math.log2(1000))


@pytest.mark.parametrize(("size", "chunks", "steps"), [(1, 1, 1), (2, 1, 2), (3, 2, 4), (3, 3, 9), (2, 5, 9)])
@pytest.mark.parametrize("ragged", [False, True], ids=["even", "ragged"])
def test_convolution_is_the_loop(size, chunks, steps, ragged):
    parts, hidden, batch = 2, 3, 4
    M, F = Frame(*numbers(4, hidden).mul(0.5)), numbers(hidden, 2, purpose="F")
    drive = numbers(parts, hidden, size, chunks, batch, purpose="drive")
    first = numbers(parts, hidden, 2, batch, purpose="first")
    lengths = torch.tensor([steps, 0, 1, steps // 2]) if ragged else torch.full((batch,), steps)
    found = convolve(M, F, drive, first, steps, lengths if ragged else None)
    matrix = torch.stack(tuple(M), -1).unflatten(-1, (2, 2))
    state = end = first
    for n in range(steps):
        chunk, place = divmod(n, size)
        state = matrix @ state + F.unsqueeze(-1) * drive[:, :, place, chunk].unsqueeze(2)
        end = torch.where(n < lengths, state, end)
        torch.testing.assert_close(found.x[:, :, place, chunk], state[:, :, 1], **FLOAT64)
    torch.testing.assert_close(torch.stack((found.z_end, found.x_end), 2), end, **FLOAT64)


@every_kind
@pytest.mark.parametrize("steps", [1, 2, 50])
def test_convolution_and_scan_are_the_same_layer(name, steps):
    layer, input = MADE[name](3, 4, dtype=torch.float64), numbers(steps, 3, 3)
    layer.reset_parameters(generator(0, "weights"))
    state, lengths = tuple(numbers(5, 1, 3, 4, purpose="state")), torch.tensor([steps, 0, 1])
    spans = torch.ones(steps, 3, dtype=torch.float64)

    def results(**options):
        output, last = layer(input, state, **options)
        ends = layer.last_state(input, state, lengths=lengths, **options)
        loss = output.square().sum() + sum(part.square().sum() for part in (*last, *ends))
        return output, *last, *ends, *torch.autograd.grad(loss, list(layer.parameters()))

    torch.testing.assert_close(results(), results(timespans=spans), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["implicit", "imex"])
def test_float32_does_not_lose_the_phase_over_many_steps(name):
    exact, input = MADE[name](3, 16, dtype=torch.float64), numbers(2000, 2, 3)
    exact.reset_parameters(generator(0, "weights"))
    single = copy.deepcopy(exact).float()
    exact.load_state_dict(single.state_dict())
    want, got = exact(input.float().double())[0], single(input.float())[0]
    assert (got - want).norm() < 2e-6 * want.norm()


class Operations(TorchDispatchMode):
    """Counts operations, views included."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_operations_grow_with_the_logarithm_of_the_length():
    counts = []
    for steps in (64, 4096):
        layer = DLinOSS(1, 2)
        with Operations() as operations:
            layer(torch.zeros(steps, 1, 1))[0].sum().backward()
        counts.append(operations.count)
    assert counts[1] < 1.5 * counts[0]


@every_kind
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
def test_block_is_its_equations_step_by_step(name, uneven):
    layer = MADE[name](3, 4, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    cell, input = layer.cell(), numbers(7, 2, 3)
    spans = torch.rand(7, 2, generator=generator(0, "spans"), dtype=torch.float64) if uneven else torch.ones(7, 2)
    A, G, d = cell.oscillators()
    B, C = (torch.complex(*part) for part in (cell.B, cell.C))
    z = x = torch.zeros(2, 4, dtype=torch.complex128)
    output, last = layer(input, timespans=spans if uneven else None)
    for u, span, found in zip(input, spans.unsqueeze(-1), output, strict=True):
        features = u @ cell.weight_ih.T + cell.bias_ih
        normed = nn.functional.layer_norm(features, (4,))
        force, step = normed.to(torch.complex128) @ B.T, d * span
        if name == "implicit":
            z = (z + step * (force - A * x)) / (1 + step**2 * A)
        elif name == "imex":
            z = z + step * (force - A * x)
        else:
            z = (z + step * (force - A * x)) / (1 + step * G)
        x = x + step * z
        y = nn.functional.gelu((x @ C.T).real + cell.D * normed)
        value, gate = (y @ weight.T + bias for weight, bias in zip(cell.weight_glu, cell.bias_glu, strict=True))
        want = features + value * torch.sigmoid(gate)
        torch.testing.assert_close(found, want, **FLOAT64)
    torch.testing.assert_close(torch.stack(last)[:, 0], torch.stack((want, z.real, z.imag, x.real, x.imag)), **FLOAT64)


def test_cornn_without_coupling_and_activation_is_the_recurrence_of_d_linoss():
    """dt is the step, gamma A, epsilon G; the damping of coRNN's theory is implicit, as D-LinOSS's is."""
    constants = {
        name: low + width * torch.rand(5, generator=generator(0, name), dtype=torch.float64)
        for name, low, width in (("dt", 0.1, 0.5), ("gamma", 0.5, 2.0), ("epsilon", 0.1, 1.0))
    }
    layer = CoRNN(3, 5, damping="implicit", activation="identity", dtype=torch.float64, **constants)
    layer.reset_parameters(generator(0, "weights"))
    V, W, W_z, b = layer.matrices()
    layer.set_matrices(W=torch.zeros_like(W), W_z=torch.zeros_like(W_z))
    input, (y, z) = numbers(40, 2, 3), numbers(2, 2, 5, purpose="state")
    output, (last_y, last_z) = layer(input, (y.unsqueeze(0), z.unsqueeze(0)))

    M, F_z, F_x = frame("damped", constants["gamma"], constants["epsilon"], constants["dt"])
    drive = input @ V.T + b
    zs, ys = scan(
        Frame(*(part.expand(1, 1, -1) for part in M)),
        torch.cat((z.unsqueeze(0), F_z * drive)),
        torch.cat((y.unsqueeze(0), F_x * drive)),
    )
    torch.testing.assert_close(ys[1:], output, **FLOAT64)
    torch.testing.assert_close((ys[-1], zs[-1]), (last_y[0], last_z[0]), **FLOAT64)


def radii(cell):
    """Moduli of the eigenvalues of every unit's matrix: (hidden, 2)."""
    M, _, _ = frame(cell.discretisation, *cell.oscillators())
    matrices = torch.stack([part.expand(cell.hidden_size) for part in M], -1).unflatten(-1, (2, 2))
    return torch.linalg.eigvals(matrices).abs()


@every_kind
@pytest.mark.parametrize("stiffness", [-1e3, 0.0, 1.0, 1e3])
def test_no_state_can_grow_whatever_is_learned(name, stiffness):
    layer = MADE[name](1, 50, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    cell = layer.cell()
    with torch.no_grad():
        cell.A.fill_(stiffness)
        if cell.damping is not None:
            cell.damping.mul_(3).sub_(0.2)
    # On the edge of the range eigenvalues are double, and their rounding the square root of that of the matrix.
    assert radii(cell).max() <= 1 + 1e-7


def test_damped_units_start_on_the_ring_of_the_authors():
    layer = DLinOSS(1, 200, dtype=torch.float64)
    layer.reset_parameters(generator(0, "weights"))
    found, cell = radii(layer.cell()), layer.cell()
    assert 0.9 - 1e-9 <= found.min() < 0.92
    assert 0.98 < found.max() <= 1 + 1e-9
    A, G, d = cell.oscillators()
    low, high = stable_range(d, G)
    torch.testing.assert_close(A, cell.A, **FLOAT64)
    assert ((low <= A) & (high >= A)).all()
    # The angles of the eigenvalues are uniform in [0, pi].
    S = 1 + d * G
    angles = torch.arccos(((S + 1 - d**2 * A) / (2 * S.sqrt())).clamp(-1, 1)) / torch.pi
    assert angles.sort().values.diff().max() < 0.05
    assert angles.min() < 0.05
    assert angles.max() > 0.95
    assert abs(angles.mean() - 0.5) < 0.05


def test_the_angle_of_a_damped_unit_is_pi_times_its_draw(monkeypatch):
    layer, draws = DLinOSS(1, 50, dtype=torch.float64), {}

    def record(parameter, low, high, random):
        uniform_(parameter, low, high, random)
        draws[parameter] = parameter.detach().clone()

    monkeypatch.setattr(linoss, "uniform_", record)
    layer.reset_parameters(generator(0, "weights"))
    cell = layer.cell()
    A, G, d = cell.oscillators()
    S = 1 + d * G
    expected = S + 1 - 2 * S.sqrt() * torch.cos(torch.pi * draws[cell.A])
    torch.testing.assert_close(d**2 * A, expected, **FLOAT64)


@pytest.mark.parametrize("discretisation", ["implicit", "imex"])
def test_undamped_units_start_with_a_stiffness_between_0_and_1(discretisation):
    layer = LinOSS(1, 200, discretisation=discretisation)
    layer.reset_parameters(generator(0, "weights"))
    A = layer.cell().A.detach()
    assert 0 <= A.min() < 0.05
    assert 0.95 < A.max() <= 1
    assert abs(A.mean() - 0.5) < 0.06


def test_kinds_forget_as_they_should():
    """After a push imex keeps its energy within bounds, implicit loses it."""
    amplitudes = {}
    for name in ("implicit", "imex"):
        A, d = torch.tensor([1.0]), torch.tensor([0.3])
        M, F_z, F_x = frame(name, A, 0.0, d)
        push = torch.zeros(400, 1)
        push[0] = 1.0
        M = Frame(*(part.expand(1, 1) for part in M))
        amplitudes[name] = scan(M, F_z * push, F_x * push)[1][-40:].abs().max().item()
    assert amplitudes["imex"] > 0.25
    assert amplitudes["implicit"] < 1e-4


@every_kind
def test_sizes(name):
    d, m, layers = 3, 16, 3
    block = 2 * m * m + 2 * m * m + m + 2 * m * (m + 1) + (3 if name == "damped" else 2) * m
    assert count_parameters(MADE[name](d, m, layers)) == m * (d + 1) + layers * block
    assert "weight_ih" not in dict(MADE[name](m, m, 2).cell(1).named_parameters())


def test_block_dropout_acts_in_training_only():
    layer, input = LinOSS(3, 4, block_dropout=0.5, dtype=torch.float64), numbers(5, 2, 3)
    assert not torch.equal(layer(input)[0], layer(input)[0])
    layer.eval()
    assert torch.equal(layer(input)[0], layer(input)[0])


@pytest.mark.slow
def test_compiled_layer_computes_the_same():
    torch.compiler.reset()
    layer, input = DLinOSS(3, 4, dtype=torch.float64), numbers(6, 2, 3)
    compiled = torch.compile(layer, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(input)[0], layer(input)[0], **FLOAT64)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"discretisation": "explicit"}, "unknown discretisation 'explicit'"),
        ({"block_dropout": 1.0}, "block_dropout must be a probability below 1"),
        ({"block_dropout": 0.1, "checkpoint_every": 4}, "use block_dropout=0"),
    ],
)
def test_bad_options_are_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        LinOSS(1, 2, **options)


def test_checkpoints_that_are_set_later_do_not_run_a_block_twice_with_dropout():
    layer, input = LinOSS(3, 4, block_dropout=0.5, dtype=torch.float64), numbers(5, 2, 3)
    layer.checkpoint_every = 2
    with pytest.raises(ValueError, match="use block_dropout=0"):
        layer(input)
    layer.eval()(input)
