"""The C kernels that are generated from an update's code against the reference in float64: outputs, last state and
every gradient, of our own updates and of registered ones."""

import pytest
import torch
from engine_calls import problem, run
from own_updates import OWN

from cornn import engine
from cornn.engine.backends import c
from cornn.engine.op import BACKENDS

UPDATES = [name for name, rule in (engine.UPDATES | OWN).items() if rule.code is not None]
USABLE, REASON = c.usable(problem(UPDATES[0], torch.device("cpu"), torch.float32, 1, 1, 1, 1, False))
pytestmark = pytest.mark.skipif(not USABLE, reason=f"backend c: {REASON}")

# As in test_c.py: a step rounds some ten times, and gradients sum over rows too.
OUTPUT = {torch.float32: 6e-7, torch.float64: 2e-15}
GRADIENT = {torch.float32: 6e-6, torch.float64: 2e-14}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    for name, update in OWN.items():
        monkeypatch.setitem(engine.UPDATES, name, update)


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch):
    """Whatever is allocated without a value is NaN, so that nothing may be read before it was written."""
    monkeypatch.setitem(BACKENDS, "c", c)
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def arguments(update, steps, batch, hidden, features=3, groups=0, ragged=False):
    random, rule = torch.Generator().manual_seed(0), engine.UPDATES[update]
    group, drives = (groups,) if groups else (), rule.drives * hidden

    def draw(*shape):
        return torch.randn(*group, *shape, generator=random, dtype=torch.float64)

    given = {
        "input": draw(steps, batch, features),
        "state": draw(rule.states, batch, hidden),
        "input_weight": draw(drives, features),
        "bias": draw(drives) * 0.3,
        "weight": draw(rule.products * hidden, rule.states * hidden) / hidden**0.5,
        "parameters": draw(len(rule.parameters), hidden).sigmoid() * 0.9,
    }
    lengths = torch.randint(0, steps + 1, (*group, batch), generator=random) if ragged else None
    return given, lengths


def results(given, lengths, update, backend, dtype):
    given = {name: None if x is None else x.to(dtype).requires_grad_() for name, x in given.items()}

    def call(values, lengths):
        return run(**values, lengths=lengths, update=update, backend=backend)

    grouped = given["weight"].dim() == 3
    output, last = (torch.vmap(call, in_dims=(0, None if lengths is None else 0)) if grouped else call)(given, lengths)
    random = torch.Generator().manual_seed(1)
    weights = [torch.randn(x.shape, generator=random, dtype=torch.float64).to(dtype) for x in (output, last)]
    value = sum((x * w).sum() for x, w in zip((output, last), weights, strict=True))
    wanted = {name: x for name, x in given.items() if x is not None}
    gradients = torch.autograd.grad(value, list(wanted.values()))
    return {"output": output, "last": last} | {
        f"gradient of {name}": g for name, g in zip(wanted, gradients, strict=True)
    }


def check(given, lengths, update, dtype):
    # Both start from the same rounded numbers: modReLU jumps at 0.
    given = {name: None if x is None else x.to(dtype).double() for name, x in given.items()}
    want = results(given, lengths, update, "reference" if given["weight"].dim() == 2 else "portable", torch.float64)
    got = results(given, lengths, update, "c", dtype)
    for name in want:
        error = ((got[name].double() - want[name]).norm() / want[name].norm().clamp_min(1e-30)).item()
        assert error <= (GRADIENT if "gradient" in name else OUTPUT)[dtype], f"{name} is off by {error:.1e}"


@pytest.mark.parametrize("update", UPDATES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize(
    ("steps", "batch", "hidden", "ragged"), [(1, 1, 1, False), (7, 30, 33, True), (9, 5, 64, False)]
)
def test_it_agrees_with_the_reference(update, dtype, steps, batch, hidden, ragged):
    check(*arguments(update, steps, batch, hidden, ragged=ragged), update, dtype)


@pytest.mark.parametrize("update", UPDATES)
def test_groups_drives_and_the_last_state(update):
    check(*arguments(update, 5, 4, 9, groups=3, ragged=True), update, torch.float32)
    given, lengths = arguments(update, 5, 4, 9, features=9 * engine.UPDATES[update].drives, ragged=True)
    check(given | {"input_weight": None, "bias": None}, lengths, update, torch.float32)
    check(given | {"bias": None}, lengths, update, torch.float32)
    with torch.no_grad():
        _, last = run(**given, lengths=lengths, update=update, every=False, backend="c")
        _, want = run(**given, lengths=lengths, update=update, backend="c")
    assert torch.equal(last, want)


@pytest.mark.parametrize("update", [name for name in UPDATES if name != "smooth"])  # it compares with NaN
def test_nan_stays_nan(update):
    given, _ = arguments(update, 4, 2, 8)
    given["input"][1, 0] = torch.nan
    output, _ = run(**given, update=update, backend="c")
    assert output[1:, 0].isnan().all()
    assert not output[:, 1].isnan().any()
