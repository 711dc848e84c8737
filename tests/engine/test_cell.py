"""One step by one call of the C library, against the reference."""

import jaxtyping
import pytest
import torch
from tolerances import FLOAT64

from cornn import CoRNNCell, functional
from cornn.cells import CELL_TENSORS
from cornn.engine import cell as small

pytestmark = pytest.mark.skipif(small._passes(torch.float32) is None, reason="the C library was not built")


def expected(cell, input, state):
    """The step by the reference, differentiable."""
    V, b, R = cell.weights()
    W, W_z = R.split(cell.hidden_size, 1)
    drive = torch.nn.functional.linear(input, V, b)
    y, z = (torch.zeros_like(drive),) * 2 if state is None else state
    return functional.step(drive, y, z, W, W_z, *cell.oscillators(), damping=cell.damping)


def make(hidden=5, features=3, dtype=torch.float64, **options):
    cell = CoRNNCell(features, hidden, dtype=dtype, **options)
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random))
    return cell


def draw(*shape, dtype=torch.float64):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)), dtype=dtype)


@pytest.fixture
def taken(monkeypatch):
    """Whether each step was computed by the C library."""
    seen, step = [], small.step

    def noted(*arguments):
        found = step(*arguments)
        seen.append(found is not None)
        return found

    monkeypatch.setattr("cornn.cells.step", noted)
    return seen


@pytest.mark.parametrize("options", [{}, {"dt": 0.1}, {"bias": False}, {"damping": "implicit"}], ids=str)
@pytest.mark.parametrize("batch", [(), (1,), (4,)], ids=str)
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("hidden", [1, 5, 17])
def test_a_step_and_its_gradients(taken, options, batch, given, hidden):
    cell, input = make(hidden, **options), draw(*batch, 3).requires_grad_()
    state = tuple(draw(*batch, hidden).mul(k).requires_grad_() for k in (1, 2)) if given else None
    leaves = [input, *(state or ()), *cell.parameters()]
    found = []
    for step in (cell, lambda *arguments: expected(cell, *arguments)):
        y, z = step(input, state)
        value = (y * draw(*y.shape)).sum() + z.square().sum()
        found.append([y, z, *torch.autograd.grad(value, leaves)])
    for got, want in zip(*found, strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)
    with torch.no_grad():
        for got, want in zip(cell(input, state), found[0], strict=False):
            torch.testing.assert_close(got, want, **FLOAT64)
    assert taken == [True, True]


@pytest.mark.parametrize("part", [0, 1])
def test_the_gradient_of_one_part(part):
    cell, input, state = make(), draw(2, 3), (draw(2, 5), draw(2, 5))
    weights = list(cell.parameters())
    got = torch.autograd.grad(cell(input, state)[part].sum(), weights)
    want = torch.autograd.grad(expected(cell, input, state)[part].sum(), weights)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, **FLOAT64)


def test_first_and_second_derivatives():
    cell, input, y, z = make(), *(draw(2, size).requires_grad_() for size in (3, 5, 5))
    assert torch.autograd.gradcheck(lambda *x: cell(x[0], x[1:]), (input, y, z))
    assert torch.autograd.gradgradcheck(lambda *x: cell(x[0], x[1:]), (input, y, z))


def test_float32_is_float32(taken):
    cell, input, state = make(16, dtype=torch.float32), draw(1, 3, dtype=torch.float32), None
    for _ in range(3):
        state = cell(input, state)
    assert taken == [True] * 3
    exact, want = make(16), None
    for _ in range(3):
        want = exact(input.double(), want)
    torch.testing.assert_close(state[0].double(), want[0], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "input"),
    [
        ({"hidden": 200}, draw(2, 3)),
        ({"activation": "relu", "dt": 0.1}, draw(2, 3)),
        ({"trainable": "dt", "dt": 0.1}, draw(2, 3)),
        ({}, draw(3, 2).T),
    ],
    ids=["large", "another activation", "trained constants", "strides"],
)
def test_the_rest_is_for_the_reference(taken, options, input):
    cell = make(**options)
    y, z = cell(input)
    assert not any(taken)
    if cell.activation == "tanh":
        for got, want in zip((y, z), expected(cell, input, None), strict=True):
            torch.testing.assert_close(got, want, **FLOAT64)


def test_the_state_may_be_changed_in_place_and_detached():
    cell, input = make(), draw(2, 3)
    y, z = cell(input)
    y.mul_(2)
    y.detach_()
    assert not y.requires_grad
    assert z.requires_grad


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("weight_hh", torch.ones(5, 5, dtype=torch.float64)),
        ("weight_hh", torch.ones(5, 10)),
        ("bias", torch.ones(4, dtype=torch.float64)),
        ("scale_ih", torch.ones(5, 1, dtype=torch.float64)),
        ("scale_bias", torch.ones(1, dtype=torch.float64)),
        ("scale_hh", torch.ones(5, 1, dtype=torch.float64)),
        ("dt", torch.full((1,), 0.5, dtype=torch.float64)),
        ("gamma", torch.ones(5)),
        ("epsilon", torch.ones(5, dtype=torch.float64, device="meta")),
    ],
)
def test_the_library_sees_only_tensors_that_fit(name, value):
    """It takes addresses: it would read beyond the end of a smaller tensor, or the bits of another type."""
    weights = make()
    given = small.CellWeights(*(getattr(weights, tensor) for tensor in CELL_TENSORS))
    input = draw(2, 3)
    assert small.step(given, "explicit", input, None, None) is not None
    changed = given._replace(**{small.CellWeights._fields[CELL_TENSORS.index(name)]: value})
    assert small.step(changed, "explicit", input, None, None) is None


def test_a_cell_compiles_without_a_break(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    torch.compiler.reset()
    cell, input = make(), draw(2, 3)
    compiled = torch.compile(cell, backend="aot_eager", fullgraph=True)
    for got, want in zip(compiled(input), cell(input), strict=True):
        torch.testing.assert_close(got, want, **FLOAT64)
