"""The kernels on tensor cores: against float64, and against the same recurrence with the same rounding."""

import pytest
import rounded
import torch

from cornn import CoRNN, engine
from cornn.engine.backends import portable
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.contract import BackwardInputs, Needs, Operands, Request
from cornn.engine.updates import OSCILLATORS, UPDATES

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

UPDATE = "cornn/explicit/tanh"
# Against the same rounding: sums in another order, and now and then a value that rounds the other way. No index bug is
# as small as that.
SAME = 5e-5
# Against float64: tf32 rounds to 5e-4 and bf16 to 4e-3 what enters a product, at random, some tens of steps long.
EXACT = {"tf32": 1e-3, "bf16": 1e-2}


def arguments(steps, batch, hidden, *, groups=1, spans=False, ragged=False, seed=0):
    """What the backend is given, on the GPU, with gradients of both results."""
    random = torch.Generator().manual_seed(seed)

    def draw(*shape):
        return torch.randn(*shape, generator=random).cuda()

    dt = torch.rand(1, groups, hidden, generator=random) * 0.05 + 0.02
    given = Operands(
        state=draw(2, groups, batch, hidden) * 0.3,
        input_weight=None,
        bias=None,
        weight=draw(groups, hidden, 2 * hidden) / hidden**0.5,
        parameters=torch.cat((dt, torch.rand(2, groups, hidden, generator=random) * 2 + 0.5)).cuda(),
        timespans=(torch.rand(steps, groups, batch, generator=random) * 2).cuda() if spans else None,
        lengths=torch.randint(0, steps + 1, (groups, batch), generator=random) if ragged else None,
        input=draw(steps, groups, batch, hidden),
    )
    return given, (draw(steps, groups, batch, hidden), draw(2, groups, batch, hidden))


def poison():
    """Leaves NaN in the memory that the next allocations will get."""
    torch.cuda.empty_cache()
    held = [torch.full((size // 4,), torch.nan, device="cuda") for size in (1 << 20, 1 << 24, 1 << 28)]
    del held


def assert_near(got, want, limit, name):
    error = ((got.double() - want).norm() / want.norm().clamp_min(1e-30)).item()
    assert error <= limit, f"{name} is off by {error:.1e}"


def both_passes(given, grads, update, precision, for_parameters=True):
    request = Request(UPDATES[update], keep=True, precision=precision)
    poison()
    output, last, trail = cuda.forward(given, request)
    spans = for_parameters and given.timespans is not None
    needs = Needs(True, True, False, False, True, parameters=for_parameters, timespans=spans)
    gradients = cuda.backward_steps(given, BackwardInputs(*grads, output, trail), request, needs)
    return output, last, trail, gradients


def check(precision, steps, batch, hidden, *, update=UPDATE, for_parameters=True, **options):
    given, grads = arguments(steps, batch, hidden, **options)
    output, last, trail, gradients = both_passes(given, grads, update, precision, for_parameters)
    want = rounded.forward(given, update=update, precision=precision)
    assert_near(output, want[0], SAME, "output")
    assert_near(last, want[1], SAME, "last")
    wanted = rounded.backward(given, BackwardInputs(*grads, output, trail), update=update, precision=precision)
    names = ("drive", "state", "parameters", "timespans")
    for name, got, expected in zip(names, gradients, wanted, strict=True):
        if got is not None:
            assert_near(got, expected, SAME, f"gradient of {name}")


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("hidden", [1, 20, 33, 64, 65, 96, 127, 128])
@pytest.mark.parametrize("batch", [1, 7, 133, 1100])
def test_odd_shapes(precision, hidden, batch):
    check(precision, 12, batch, hidden, for_parameters=batch < 1000)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("hidden", [50, 127, 128])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("spans", [False, True])
def test_lengths_and_timespans(precision, hidden, ragged, spans):
    check(precision, 20, 19, hidden, ragged=ragged, spans=spans)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("update", [rule.name for rule in OSCILLATORS.values()])
def test_every_update(precision, update):
    check(precision, 3 if "duffing" in update else 10, 9, 100, update=update)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("hidden", [40, 128])
def test_groups(precision, hidden):
    check(precision, 10, 21, hidden, groups=3, ragged=True)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_few_steps(precision, steps):
    check(precision, steps, 9, 64)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
def test_addresses_that_are_not_aligned(precision):
    given, grads = arguments(6, 9, 64)
    want = both_passes(given, grads, UPDATE, precision)
    room = torch.empty(grads[0].numel() + 1, device="cuda")
    shifted = room[1:].view_as(grads[0]).copy_(grads[0])
    got = both_passes(given, (shifted, grads[1]), UPDATE, precision)
    assert torch.equal(got[3].drive, want[3].drive)


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize("hidden", [64, 128])
def test_it_stays_near_float64(precision, hidden):
    torch.manual_seed(0)
    layer = CoRNN(3, hidden, precision=precision, init="paper").cuda()
    exact = CoRNN(3, hidden, init="paper").cuda().double()
    exact.load_state_dict(layer.state_dict())
    input = torch.randn(50, 600, 3, device="cuda")
    found = []
    for model, values in ((layer, input), (exact, input.double())):
        output, (y, z) = model(values)
        gradients = torch.autograd.grad(output.square().sum() + z.sum(), list(model.parameters()))
        found.append((output, y, z, *gradients))
    for number, (got, want) in enumerate(zip(*found, strict=True)):
        assert_near(got, want, EXACT[precision], f"result {number}")


LARGE = [
    (12, 1100, 256, {}),
    (12, 300, 500, {}),
    (16, 120, 1024, {}),
    (16, 7, 600, {}),
    (12, 133, 520, {"ragged": True}),
    (12, 9, 700, {"spans": True}),
    (10, 5, 530, {"groups": 2, "ragged": True, "spans": True}),
    (1, 3, 1536, {}),
    (1500, 4, 600, {}),
    (1500, 4, 600, {"spans": True}),
]


@pytest.mark.parametrize("precision", ["tf32", "bf16"])
@pytest.mark.parametrize(("steps", "batch", "hidden", "options"), LARGE)
def test_a_grid_stays_near_float64(precision, steps, batch, hidden, options):
    given, grads = arguments(steps, batch, hidden, **options)
    # Weak coupling: otherwise errors grow from step to step, whatever the kernel does.
    given = given._replace(weight=given.weight * 0.3)
    output, last, _, found = both_passes(given, grads, UPDATE, precision)
    doubles = Operands(*(None if x is None else x.double() if x.is_floating_point() else x.cuda() for x in given))
    request = Request(UPDATES[UPDATE], keep=True)
    wanted = portable.forward(doubles, request)
    spans = given.timespans is not None
    needs = Needs(True, True, False, False, False, parameters=True, timespans=spans)
    after = BackwardInputs(*(x.double() for x in grads), wanted.output, wanted.trail)
    gradients = portable.backward(doubles, after, request, needs)
    assert_near(output, wanted.output, EXACT[precision], "output")
    assert_near(last, wanted.last, EXACT[precision], "last")
    assert_near(found.drive, gradients.input, EXACT[precision], "gradient of drive")
    for name in ("state", "parameters", "timespans"):
        if getattr(found, name) is not None:
            assert_near(getattr(found, name), getattr(gradients, name), EXACT[precision], f"gradient of {name}")


def test_the_weight_gradients_of_a_large_layer_are_rounded_once():
    torch.manual_seed(0)
    layer, exact = CoRNN(3, 600, precision="bf16", dt=0.05).cuda(), CoRNN(3, 600, dt=0.05).cuda().double()
    exact.load_state_dict(layer.state_dict())
    input = torch.randn(30, 40, 3, device="cuda")
    got = torch.autograd.grad(layer(input)[0].square().sum(), list(layer.parameters()))
    want = torch.autograd.grad(exact(input.double())[0].square().sum(), list(exact.parameters()))
    for number, (one, other) in enumerate(zip(got, want, strict=True)):
        assert one.dtype == torch.float32
        assert_near(one, other, EXACT["bf16"], f"gradient {number}")


def test_repeated_runs_are_equal_to_the_bit():
    for precision in ("tf32", "bf16"):
        given, grads = arguments(100, 600, 128)
        first = both_passes(given, grads, UPDATE, precision)
        again = both_passes(given, grads, UPDATE, precision)
        assert torch.equal(first[0], again[0])
        assert torch.equal(first[3].drive, again[3].drive)


def test_without_a_trail():
    given, _ = arguments(9, 600, 64)
    request = Request(UPDATES[UPDATE], precision="bf16")
    want, want_last, _ = cuda.forward(given, request._replace(keep=True))
    output, last, trail = cuda.forward(given, request)
    assert trail is None
    assert torch.equal(output, want)
    assert torch.equal(last, want_last)
    output, last, _ = cuda.forward(given, request._replace(every=False))
    assert output.numel() == 0
    assert torch.equal(last, want_last)


def test_autocast_selects_bf16_for_large_batches():
    layer = CoRNN(3, 64, init="paper").cuda()
    reduced = CoRNN(3, 64, precision="bf16", init="paper").cuda()
    reduced.load_state_dict(layer.state_dict())
    for batch in (511, 512):
        input = torch.randn(9, batch, 3, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            got, _ = layer(input)
        want = (reduced if batch == 512 else layer)(input)[0]
        assert torch.equal(got, want)


def test_small_batches_of_medium_layers_are_exact():
    given = engine.Problem(UPDATES[UPDATE], torch.device("cuda", 0), torch.float32, 1, 9, 600, 200, False, "tf32")
    usable, reason = cuda.usable(given)
    if not usable:
        pytest.skip(reason)
    assert "products in tf32 for large batches" in reason
    layer = CoRNN(3, 200, precision="tf32", init="paper").cuda()
    exact = CoRNN(3, 200, init="paper").cuda()
    exact.load_state_dict(layer.state_dict())
    input = torch.randn(9, 30, 3, device="cuda")
    assert torch.equal(layer(input)[0], exact(input)[0])
