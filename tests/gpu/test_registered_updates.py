"""Registered updates, HORN and UnICORNN on a GPU, against float64."""

import pytest
import torch
from own_updates import OWN
from tolerances import FLOAT64

from cornn import HORN, CustomRNN, engine
from cornn.baselines import UnICORNN

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

# As in test_cuda.py.
OUTPUTS, GRADIENTS = 1e-5, 5e-5


@pytest.fixture(autouse=True)
def _setting(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)
    for name, update in OWN.items():
        monkeypatch.setitem(engine.UPDATES, name, update)


def results(layer, input, lengths=None):
    """Output, last states and all gradients."""
    input = input.clone().requires_grad_()
    if lengths is not None:
        packed = torch.nn.utils.rnn.pack_padded_sequence(input, lengths, enforce_sorted=False)
        output, last = layer(packed)
        output = output.data
    else:
        output, last = layer(input)
    parts = last if isinstance(last, tuple) else (last,)
    random = torch.Generator().manual_seed(5)
    terms = [(x * torch.randn(x.shape, generator=random).to(x)).sum() for x in (output, *parts)]
    return [output, *parts, *torch.autograd.grad(sum(terms), [input, *layer.parameters()])]


def assert_near(found, wanted):
    for number, (got, want) in enumerate(zip(found, wanted, strict=True)):
        error = ((got.double() - want).norm() / want.norm().clamp_min(1e-30)).item()
        assert error <= (OUTPUTS if number < 2 else GRADIENTS), f"result {number} is off by {error:.1e}"


def pair(kind, backend, hidden, **options):
    """The layer on the GPU, and the same in float64 by the reference."""
    layer = kind(3, hidden, backend=backend, device="cuda", **options)
    layer.reset_parameters(torch.Generator().manual_seed(0))
    exact = kind(3, hidden, backend="reference", device="cuda", dtype=torch.float64, **options)
    exact.load_state_dict(layer.state_dict())
    return layer, exact


def input_of(steps, batch):
    return torch.randn(steps, batch, 3, generator=torch.Generator().manual_seed(1)).cuda()


@pytest.mark.parametrize("update", ["undamped", "smooth", "gated", "lipschitz"])
@pytest.mark.parametrize("hidden", [1, 20, 64, 100, 128])
@pytest.mark.parametrize(("batch", "ragged"), [(1, False), (7, True), (300, False)])
def test_a_registered_update_by_its_kernels(update, hidden, batch, ragged):
    # `smooth` jumps where its pre-activation passes `shift`, so a few steps only.
    steps = 3 if update == "smooth" else 30
    layer, exact = pair(CustomRNN, "cuda", hidden, update=update)
    lengths = torch.randint(1, steps + 1, (batch,), generator=torch.Generator().manual_seed(2)) if ragged else None
    input = input_of(steps, batch)
    assert_near(results(layer, input, lengths), results(exact, input.double(), lengths))


@pytest.mark.parametrize("update", ["undamped", "smooth", "leaky"])
def test_a_registered_update_in_a_cuda_graph(update):
    layer = CustomRNN(3, 24, update=update, backend="graph", device="cuda", dtype=torch.float64)
    plain = CustomRNN(3, 24, update=update, backend="portable", device="cuda", dtype=torch.float64)
    plain.load_state_dict(layer.state_dict())
    input = input_of(70, 5).double()
    for got, want in zip(results(layer, input), results(plain, input), strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)


@pytest.mark.parametrize(
    ("update", "hidden", "backend"),
    [("undamped", 128, "cuda"), ("undamped", 129, "graph"), ("plain", 64, "portable")],
)
def test_which_backend_serves(update, hidden, backend):
    device = torch.device("cuda", torch.cuda.current_device())
    found, _ = engine.choose(engine.Problem(engine.UPDATES[update], device, torch.float32, 1, 50, 4, hidden, False))
    assert found == backend
    layer, exact = pair(CustomRNN, "auto", hidden, update=update)
    input = input_of(40, 4)
    assert_near(results(layer, input), results(exact, input.double()))


@pytest.mark.parametrize("hidden", [20, 128, 200, 530])
@pytest.mark.parametrize("batch", [1, 7, 133])
@pytest.mark.parametrize("trainable", [(), ("omega", "gamma", "alpha")], ids=["fixed", "trained"])
def test_horn(hidden, batch, trainable):
    layer, exact = pair(HORN, "cuda", hidden, trainable=trainable)
    input = input_of(40, batch)
    assert_near(results(layer, input), results(exact, input.double()))


@pytest.mark.parametrize("hidden", [20, 128, 200])
def test_unicornn(hidden):
    layer, exact = pair(UnICORNN, "cuda", hidden)
    input = input_of(40, 7)
    assert_near(results(layer, input), results(exact, input.double()))


@pytest.mark.parametrize("kind", [HORN, UnICORNN])
def test_oscillators_with_lengths(kind):
    layer, exact = pair(kind, "cuda", 64)
    input, lengths = input_of(40, 7), torch.tensor([40, 1, 17, 32, 33, 5, 40])
    assert_near(results(layer, input, lengths), results(exact, input.double(), lengths))
