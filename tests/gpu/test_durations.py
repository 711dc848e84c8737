"""Durations of the default constants: the kernels on a GPU against the reference in float64."""

import pytest
import torch

from cornn import CoRNN, engine

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

# The plain equations in float32 lose some digits too, since slow neurons add up the rounding of all steps: a kernel may
# lose a few times as much.
ROUNDING, FACTOR = 1e-5, 10


@pytest.fixture(autouse=True)
def exact_products(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


def results(layer, input, spans, lengths):
    x, s = input.to(layer.cell().weight_ih).requires_grad_(), spans.to(layer.cell().weight_ih).requires_grad_()
    y, z = layer.last_state(x, timespans=s, lengths=lengths)
    found = {"y": y, "z": z}
    inputs = {"input": x, "timespans": s, **dict(layer.named_parameters())}
    gradients = torch.autograd.grad((y.sin() + z).sum(), list(inputs.values()))
    return found | {f"gradient of {name}": g for name, g in zip(inputs, gradients, strict=True)}


@pytest.mark.parametrize("hidden", [1, 20, 64, 96, 97, 128, 200])
@pytest.mark.parametrize(("batch", "features", "ragged"), [(1, 3, False), (7, 1, True), (300, 6, True)])
@pytest.mark.parametrize("damping", ["explicit", "implicit"])
def test_durations_agree_with_the_reference(hidden, batch, features, ragged, damping):
    torch.manual_seed(0)
    exact = CoRNN(features, hidden, damping=damping, dtype=torch.float64, backend="reference")
    torch.nn.init.normal_(exact.cell().weight_hh, std=0.2)
    fast = CoRNN(features, hidden, damping=damping, device="cuda", backend="cuda" if hidden <= 128 else "auto")
    fast.load_state_dict(exact.state_dict())
    exact.load_state_dict({name: x.double() for name, x in fast.state_dict().items()})  # the same rounding
    input, spans = torch.randn(25, batch, features), 10 * torch.rand(25, batch) * (torch.rand(25, batch) > 0.1)
    lengths = torch.randint(1, 26, (batch,)) if ragged else None
    plain = CoRNN(features, hidden, damping=damping, backend="reference")
    plain.load_state_dict(fast.state_dict())
    want, got, rounded = (results(layer, input, spans, lengths) for layer in (exact, fast, plain))
    for name, value in want.items():
        error, usual = (((x[name].double().cpu() - value).norm() / value.norm()).item() for x in (got, rounded))
        assert error <= FACTOR * usual + ROUNDING, f"{name} is off by {error:.1e}, the plain equations by {usual:.1e}"


def test_a_fused_kernel_runs_durations():
    spans = engine.UPDATES["cornn/spans/tanh"]
    problem = engine.Problem(spans, torch.device("cuda", 0), torch.float32, 1, 50, 8, 128, True)
    assert engine.choose(problem)[0] == "cuda"
    assert engine.choose(problem._replace(hidden=129))[0] != "cuda"
