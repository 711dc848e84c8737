"""LEM's kernels against its steps in float64, and inside a graph."""

import pytest
import torch

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
    layer = LEM(3, hidden, dt=0.7)
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
    layer = layer.cuda()
    weights = tuple(layer.parameters())
    assert lem.unusable(input.cuda(), state.cuda(), weights) is None


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

    want = call()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = call()
    graph.replay()
    for one, other in zip(got, want, strict=True):
        assert torch.equal(one, other)


def test_side_by_side_goes_by_steps():
    layer, input, _, _ = drawn(5, 3, 20)
    layer, input = layer.cuda(), input.cuda()
    weights = {name: torch.stack([value, 2 * value]).detach() for name, value in layer.named_parameters()}
    output = torch.vmap(lambda own: torch.func.functional_call(layer, own, (input,))[0])(weights)
    torch.testing.assert_close(output[0], layer(input)[0], rtol=1e-5, atol=1e-6)
