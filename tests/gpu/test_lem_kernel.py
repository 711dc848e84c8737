"""LEM's kernels against its steps in float64, and inside a graph."""

import pytest
import torch
from test_cuda import assert_same_in_a_graph

from cornn.baselines import LEM
from cornn.engine import lem

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

OUTPUTS, GRADIENTS = 1e-5, 5e-5
"""As of the other kernels: rounding of fp32 over some hundred steps."""

# steps, batch, neurons
CASES = [(100, 7, hidden) for hidden in (1, 20, 32, 33, 64, 65, 127, 128)]
CASES += [(1, 1, 20), (1, 120, 128), (2, 1, 128), (2, 300, 33), (784, 120, 128)]


def drawn(steps, batch, hidden):
    random = torch.Generator().manual_seed(steps + batch + hidden)
    layer = LEM(3, hidden, dt=0.7, backend="cuda")
    layer.reset_parameters(random)
    input, state = torch.randn(steps, batch, 3, generator=random), torch.randn(2, 1, batch, hidden, generator=random)
    gradients = torch.randn(steps, batch, hidden, generator=random), torch.randn(batch, hidden, generator=random)
    return layer, input, state, gradients


def results(layer, input, state, gradients, dtype, backend):
    """Output, last state and all gradients, by name."""
    same = LEM(3, layer.hidden_size, dt=0.7, backend=backend, device="cuda", dtype=dtype)
    same.load_state_dict(layer.state_dict())
    input, state, *gradients = (x.cuda().to(dtype) for x in (input, state, *gradients))
    leaves = [input.requires_grad_(), state.requires_grad_(), *same.parameters()]
    output, (y, z) = same(input, tuple(state))
    value = (output * gradients[0]).sum() + ((y + 2 * z) * gradients[1]).sum()
    names = ["gradient of input", "gradient of state", *(f"gradient of {name}" for name, _ in same.named_parameters())]
    found = dict(zip(names, torch.autograd.grad(value, leaves), strict=True))
    return {"output": output.detach(), "y": y.detach(), "z": z.detach()} | found


def test_there_is_a_kernel():
    layer, input, state, _ = drawn(2, 2, 20)
    cell = layer.cuda().cell()
    given = input.cuda(), state[:, 0].cuda(), cell.weight_ih, cell.bias, cell.weight_hh, cell.weight_zy
    assert lem.unusable(lem.Operands(*given)) is None


@pytest.mark.parametrize(("steps", "batch", "hidden"), CASES)
def test_it_is_right(steps, batch, hidden):
    case = drawn(steps, batch, hidden)
    want = results(*case, torch.float64, "portable")
    poison = torch.full((1 << 26,), torch.nan, device="cuda")
    del poison
    got, again = (results(*case, torch.float32, "cuda") for _ in range(2))
    for name, value in want.items():
        allowed = GRADIENTS if name.startswith("gradient") else OUTPUTS
        error = (got[name].double() - value).norm() / value.norm().clamp_min(1e-30)
        assert error <= allowed, f"{name}: relative error {error:.1e}"
        assert torch.equal(got[name], again[name]), f"{name} is not the same again"


def test_inside_a_graph():
    layer, input, _, _ = drawn(50, 5, 40)
    layer, input = layer.cuda(), input.cuda()

    def call():
        output, _ = layer(input)
        return torch.autograd.grad(output.square().sum(), list(layer.parameters()))

    assert_same_in_a_graph(call)


OPTIONS = {
    "two layers, both ways": {"num_layers": 2, "bidirectional": True},
    "batch first": {"batch_first": True},
    "without bias": {"bias": False},
    "every fifth state kept": {"checkpoint_every": 5},
}


@pytest.mark.parametrize("name", OPTIONS)
def test_in_a_layer(name):
    options = {"input_size": 3, "hidden_size": 20, "dt": 0.7, "device": "cuda"} | OPTIONS[name]
    layer, exact = LEM(**options, backend="cuda"), LEM(**options, backend="portable", dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    input = torch.randn(12, 9, 3, generator=torch.Generator().manual_seed(0)).cuda()
    found, wanted = layer(input)[0], exact(input.double())[0]
    assert (found.double() - wanted).norm() <= OUTPUTS * wanted.norm()
    gradients = torch.autograd.grad(found.square().sum(), list(layer.parameters()))
    for got, want in zip(gradients, torch.autograd.grad(wanted.square().sum(), list(exact.parameters())), strict=True):
        assert (got.double() - want).norm() <= GRADIENTS * want.norm()


def test_an_empty_batch():
    layer = LEM(3, 20, device="cuda", backend="cuda")
    output, (y, _) = layer(torch.zeros(5, 0, 3, device="cuda"))
    assert (output.shape, y.shape) == ((5, 0, 20), (1, 0, 20))
    assert not any(x.any() for x in torch.autograd.grad(output.sum(), list(layer.parameters())))


def test_second_derivatives():
    layer, input, _, _ = drawn(6, 3, 20)
    layer, input = layer.cuda(), input.cuda()

    def second(layer, input):
        (first,) = torch.autograd.grad(layer(input)[0].square().sum(), input, create_graph=True)
        return torch.autograd.grad(first.square().sum(), input)[0]

    exact = LEM(3, 20, dt=0.7, backend="portable", device="cuda", dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    want = second(exact, input.double().requires_grad_())
    got = second(layer, input.clone().requires_grad_())
    assert (got.double() - want).norm() <= GRADIENTS * want.norm()


def test_under_autocast():
    layer, input, _, _ = drawn(20, 4, 33)
    layer, input = layer.cuda(), input.cuda()
    want = torch.autograd.grad(layer(input)[0].sum(), list(layer.parameters()))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        got = torch.autograd.grad(layer(input)[0].sum(), list(layer.parameters()))
    for one, other in zip(got, want, strict=True):
        torch.testing.assert_close(one, other)


def test_what_it_cannot_serve_is_refused():
    layer, input, _, _ = drawn(5, 2, 20)
    layer, input = layer.cuda(), input.cuda()
    with pytest.raises(RuntimeError, match="neither timespans nor lengths"):
        layer(input, timespans=torch.ones(5, 2, device="cuda"))
    with pytest.raises(RuntimeError, match="neither timespans nor lengths"):
        layer(torch.nn.utils.rnn.pack_padded_sequence(input, torch.tensor([5, 3])))
    with pytest.raises(RuntimeError, match="supports up to 128 neurons, not 129"):
        LEM(3, 129, backend="cuda", device="cuda")(input)
    with pytest.raises(RuntimeError, match="function transforms"):
        torch.vmap(lambda input: layer(input)[0])(input.expand(2, -1, -1, -1))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="forward-mode"):
        layer(torch.autograd.forward_ad.make_dual(input, torch.ones_like(input)))


def test_auto_takes_it_where_it_can_and_the_steps_elsewhere(monkeypatch):
    calls, run = [], lem.run
    monkeypatch.setattr(lem, "run", lambda *arguments: calls.append(1) or run(*arguments))
    input = torch.randn(5, 2, 3, device="cuda")
    layer = LEM(3, 20, device="cuda")
    layer(input)
    assert len(calls) == 1
    layer(input, timespans=torch.ones(5, 2, device="cuda"))
    LEM(3, 129, device="cuda")(input)
    LEM(3, 20, device="cuda", dtype=torch.float64)(input.double())
    assert len(calls) == 1
