"""Products of pieces on tensor cores: as accurate as products in fp32."""

import pytest
import torch
from test_cuda import arguments, check, results

from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.backends.cuda import weights
from cornn.engine.contract import BackwardInputs, Operands, Scales

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")


@pytest.fixture(autouse=True)
def exact_products(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


@pytest.fixture
def in_fp32(monkeypatch):
    """A device whose tensor cores are not worth it."""
    forget()
    monkeypatch.setattr(cuda, "prefers_pieces", lambda device: False)
    yield
    forget()


def forget() -> None:
    cuda._grid.cache_clear()
    cuda._choose_grid.cache_clear()


def relative(got: torch.Tensor, want: torch.Tensor) -> float:
    return ((got.double() - want).norm() / want.norm()).item()


@pytest.mark.parametrize(
    ("steps", "batch", "hidden", "options"),
    [
        (16, 120, 1024, {}),
        (16, 7, 600, {"ragged": True}),
        (12, 9, 700, {"spans": True, "ragged": True}),
        (10, 5, 530, {"groups": 2, "ragged": True}),
        (1, 3, 1536, {}),
    ],
)
def test_a_grid_in_fp32(in_fp32, steps, batch, hidden, options):
    check(steps, batch, hidden, **options)


@pytest.mark.parametrize(("steps", "batch", "hidden"), [(60, 120, 1024), (60, 120, 512), (60, 50, 650), (40, 9, 1300)])
def test_pieces_are_as_accurate_as_fp32(monkeypatch, steps, batch, hidden):
    if not cuda.prefers_pieces(0):
        pytest.skip("the tensor cores of this GPU are not worth it")
    given, lengths = arguments(steps, batch, hidden)
    weight = given["weight"]
    assert weight is not None
    given["weight"] = 0.3 * weight  # weak coupling: errors do not grow from step to step
    want = results(given, lengths, dtype=torch.float64, backend="portable")
    found = results(given, lengths, dtype=torch.float32, backend="cuda")
    again = results(given, lengths, dtype=torch.float32, backend="cuda")
    monkeypatch.setattr(cuda, "prefers_pieces", lambda device: False)
    forget()
    plain = results(given, lengths, dtype=torch.float32, backend="cuda")
    forget()
    for name, value in want.items():
        assert torch.equal(found[name], again[name])
        # Twice as far from float64 as fp32 is, or a few roundings.
        assert relative(found[name], value) <= max(2 * relative(plain[name], value), 5e-7), name


@pytest.mark.parametrize(
    ("steps", "batch", "hidden", "states", "with_state"),
    [
        (30, 40, 132, 2, True),
        (784, 20, 512, 2, False),
        (9, 7, 1028, 1, True),
        (1, 3, 128, 2, True),
        (50, 33, 300, 2, False),
    ],
)
def test_the_gradient_of_the_weights(steps, batch, hidden, states, with_state):
    random = torch.Generator(device="cuda").manual_seed(0)

    def draw(*shape):
        return torch.randn(shape, generator=random, device="cuda")

    drive, output, trail = draw(steps, batch, hidden), draw(steps, batch, hidden), draw(2, steps, batch, hidden)
    drive *= torch.logspace(-6, 3, hidden, device="cuda")  # neurons of very different sizes
    room = draw(states * batch * hidden + 1)
    state = room[1:].view(states, batch, hidden) if with_state else None  # at an odd address
    weight, scale = draw(hidden, states * hidden), draw(hidden, states * hidden)
    given = Operands(output, state, None, None, weight, weight, None, None)
    after = BackwardInputs(None, None, output, trail)
    got = weights.gradient_by_pieces(drive, given, after, Scales(scale, scale, scale))
    before = torch.zeros(states, batch, hidden, device="cuda") if state is None else state
    wanted = [
        drive.flatten(0, 1).double().mT @ torch.cat((before[i : i + 1], x[:-1])).flatten(0, 1).double()
        for i, x in enumerate((output, trail[0])[:states])
    ]
    want = torch.cat(wanted, 1) * scale
    # Sums of thousands of products in fp32, of each neuron by itself.
    assert ((got - want).norm(dim=1) / want.norm(dim=1)).max() <= 2e-6
