"""The C backend against the reference in float64: outputs, last state and every gradient, on poisoned memory."""

import os
import threading

import pytest
import torch
from engine_calls import problem, run

from cornn import engine
from cornn.engine.backends import c
from cornn.engine.op import BACKENDS

UPDATES = ("cornn/explicit/tanh", "cornn/implicit/tanh")
TYPES = (torch.float32, torch.float64)
PROBLEM = problem(UPDATES[0], torch.device("cpu"), torch.float32, 1, 1, 1, 1, False)
USABLE, REASON = c.usable(PROBLEM)
pytestmark = pytest.mark.skipif(not USABLE, reason=f"backend c: {REASON}")

# Relative errors in norm. A step rounds some ten times at 6e-8; up to 50 steps add up to 2e-7 for outputs and 2e-6 for
# gradients, which sum over rows too, and this is three times that. In float64 the same roundings are 2e-9 as large.
OUTPUT = {torch.float32: 6e-7, torch.float64: 2e-15}
GRADIENT = {torch.float32: 6e-6, torch.float64: 2e-14}
# What the engine promises of float32 up to a thousand steps.
PROMISED_OUTPUT, PROMISED_GRADIENT = 1e-5, 5e-5


@pytest.fixture(autouse=True)
def _poisoned(monkeypatch):
    """Whatever is allocated without a value is NaN, so that nothing may be read before it was written. One thread, but
    for the tests that want more: PyTorch's own wait for each other, which is slow where cores are shared."""
    monkeypatch.setitem(BACKENDS, "c", c)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    assert torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(before)
    for settled in (c.instruction_set, c._find):
        settled.cache_clear()


def arguments(steps, batch, hidden, *, groups=0, spans=False, ragged=False, features=2, seed=0):
    """Random arguments of `engine.run` in float64, with constants for each neuron; and lengths, some beyond the end."""
    random = torch.Generator().manual_seed(seed)
    group = (groups,) if groups else ()

    def draw(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    def between(low, high, *shape):
        return low + (high - low) * torch.rand(*shape, generator=random, dtype=torch.float64)

    given = {
        "input": draw(steps, *group, batch, features),
        "state": draw(2, *group, batch, hidden),
        "input_weight": draw(*group, hidden, features),
        "bias": draw(*group, hidden),
        "weight": draw(*group, hidden, 2 * hidden) / (2 * hidden) ** 0.5,
        "parameters": torch.stack([between(*range_, *group, hidden) for range_ in ((0.02, 0.2), (0.5, 3), (0.5, 8))]),
        "timespans": between(0.5, 1.5, steps, *group, batch) if spans else None,
    }
    lengths = torch.randint(0, steps + 2, (*group, batch), generator=random) if ragged else None
    return given, lengths


def results(given, lengths, update, backend, dtype, parts=("output", "last")):
    """Output, last state, and the gradients of a random weighting of `parts`."""
    given = {k: None if v is None else v.detach().to(dtype).requires_grad_() for k, v in given.items()}
    found = dict(zip(("output", "last"), run(**given, lengths=lengths, update=update, backend=backend), strict=True))
    random = torch.Generator().manual_seed(1)
    weights = {name: torch.randn(found[name].shape, generator=random, dtype=torch.float64) for name in found}
    value = sum((found[name] * weights[name].to(dtype)).sum() for name in parts)
    wanted = {name: x for name, x in given.items() if x is not None}
    gradients = torch.autograd.grad(value, list(wanted.values()))
    return found | {f"gradient of {n}": g for n, g in zip(wanted, gradients, strict=True)}


def assert_near(got, want, output, gradient):
    for name in want:
        assert torch.isfinite(got[name]).all(), name
        error = (got[name].double() - want[name]).norm() / want[name].norm().clamp_min(1e-30)
        assert error <= (gradient if name.startswith("gradient") else output), f"{name}: relative error {error:.1e}"


def check(given, lengths, update, dtype, **options):
    want = results(given, lengths, update, "reference", torch.float64, **options)
    got = results(given, lengths, update, "c", dtype, **options)
    assert_near(got, want, OUTPUT[dtype], GRADIENT[dtype])
    return got


@pytest.mark.parametrize("hidden", [1, 20, 33, 127, 129, 200, 257])
@pytest.mark.parametrize("batch", [1, 7, 133])
@pytest.mark.parametrize("steps", [1, 2, 20])
def test_odd_sizes(steps, batch, hidden):
    for update, dtype in zip(UPDATES, TYPES if batch == 7 else TYPES[:1] * 2, strict=True):
        check(*arguments(steps, batch, hidden), update, dtype)


def use(isa, monkeypatch):
    """Has one test run with an instruction set; what the process has settled on is forgotten before and after."""
    for settled in (c.instruction_set, c._find):
        settled.cache_clear()
    monkeypatch.setenv("CORNN_ISA", isa)
    usable, reason = c.usable(PROBLEM)
    if not usable:
        pytest.skip(reason)
    assert c.instruction_set() == isa


@pytest.mark.parametrize("isa", c.INSTRUCTION_SETS)
@pytest.mark.parametrize("groups", [0, 3])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("spans", [False, True])
def test_lengths_timespans_and_groups(spans, ragged, groups, isa, monkeypatch):
    use(isa, monkeypatch)
    for hidden, batch in ((21, 5), (32, 14), (70, 1), (70, 3)):
        given, lengths = arguments(9, batch, hidden, groups=groups, spans=spans, ragged=ragged)
        for update in UPDATES:
            for dtype in TYPES:
                check(given, lengths, update, dtype)


@pytest.mark.parametrize("part", ["output", "last"])
@pytest.mark.parametrize("ragged", [False, True])
def test_gradient_of_one_result_only(part, ragged):
    check(*arguments(12, 6, 24, ragged=ragged), UPDATES[0], torch.float32, parts=(part,))


@pytest.mark.parametrize("update", UPDATES)
def test_a_thousand_steps_keep_the_promise(update):
    given, lengths = arguments(1000, 3, 48)
    want = results(given, lengths, update, "reference", torch.float64)
    assert_near(results(given, lengths, update, "c", torch.float32), want, PROMISED_OUTPUT, PROMISED_GRADIENT)


def test_blocks_beyond_the_caches():
    """Large sequences are written past the caches; this one is just large enough."""
    given, _ = arguments(513, 128, 64)
    assert 4 * 513 * 128 * 64 > 1 << 24
    with torch.no_grad():
        arguments_ = {name: x if x is None else x.float() for name, x in given.items()}
        portable = run(**arguments_, update=UPDATES[0], backend="portable")
        got = run(**arguments_, update=UPDATES[0], backend="c")
    for x, y in zip(got, portable, strict=True):
        assert (x - y).norm() / y.norm() <= PROMISED_OUTPUT
    given = {name: x if x is None else x.float().requires_grad_() for name, x in given.items()}
    gradients = {}
    for backend in ("c", "portable"):
        output, last = run(**given, update=UPDATES[0], backend=backend)
        gradients[backend] = torch.autograd.grad(output.square().sum() + last.sum(), (given["weight"], given["state"]))
        assert torch.equal(output, got[0]) or backend == "portable"
    for x, y in zip(gradients["c"], gradients["portable"], strict=True):
        assert (x - y).norm() / y.norm() <= PROMISED_GRADIENT


def test_past_its_end_a_state_stays_as_it_is():
    given, _ = arguments(20, 31, 33)
    lengths = torch.arange(31) % 21
    # What lies past the end is not looked at.
    input = given["input"].where((torch.arange(20).unsqueeze(1) < lengths).unsqueeze(2), torch.nan)
    got = results(given | {"input": input}, lengths, UPDATES[0], "c", torch.float32)
    for row, length in enumerate(lengths.tolist()):
        before = got["output"][length - 1, row] if length else given["state"][0, row].float()
        if length < 20:
            assert torch.equal(got["output"][length:, row], before.expand(20 - length, -1))
            assert not got["gradient of input"][length:, row].any()
        assert torch.equal(got["last"][0, row], got["output"][-1, row])


@pytest.mark.parametrize("hidden", [24, 72])
def test_equal_to_the_bit_for_any_number_of_threads(hidden):
    """Output, last state and every gradient. And so are repeated runs, and a row alone or among others."""
    given, lengths = arguments(400, 61, hidden, ragged=True, spans=True)
    found = []
    for number in (1, 2, 3, 5, 2):
        torch.set_num_threads(number)
        found.append(results(given, lengths, UPDATES[0], "c", torch.float32))
    for other in found[1:]:
        assert all(torch.equal(found[0][name], other[name]) for name in found[0])
    alone = {name: x[:, :1] if name in ("input", "state", "timespans") else x for name, x in given.items()}
    with torch.no_grad():
        alone = {name: x.float() for name, x in alone.items()}
        output, last = run(**alone, lengths=lengths[:1], update=UPDATES[0], backend="c")
    assert torch.equal(output, found[0]["output"][:, :1])
    assert torch.equal(last, found[0]["last"][:, :1])


@pytest.mark.parametrize("groups", [0, 2])
@pytest.mark.parametrize(
    ("steps", "batch", "hidden", "features"),
    [(1, 1, 1, 1), (3, 50, 20, 15), (40, 7, 33, 16), (2, 3, 129, 100), (3, 602, 5, 2)],
)
@pytest.mark.parametrize("left_out", [(), ("bias",), ("input_weight",), ("bias", "input_weight")])
def test_input_map(steps, batch, hidden, features, groups, left_out):
    """Panels that end with the input's columns, one before them, and one after them, where the bias is."""
    given, lengths = arguments(
        steps, batch, hidden, groups=groups, features=hidden if "input_weight" in left_out else features, ragged=True
    )
    for dtype in TYPES:
        check(given | dict.fromkeys(left_out), lengths, UPDATES[0], dtype)


@pytest.mark.parametrize("wanted", [("weight",), ("input_weight",), ("bias",), ("input",), ("state", "bias")])
def test_only_the_gradients_that_are_wanted(wanted):
    given, _ = arguments(5, 7, 40, features=3)
    given = {name: x if x is None else x.float() for name, x in given.items()}
    every = {name: x if x is None else x.clone().requires_grad_() for name, x in given.items()}
    some = {name: every[name] if name in wanted else x for name, x in given.items()}
    leaves = [every[name] for name in wanted]
    found = []
    for chosen in (every, some):
        output, last = run(**chosen, update=UPDATES[0], backend="c")
        found.append(torch.autograd.grad(output.square().sum() + last.sum(), leaves))
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_arguments_that_are_not_contiguous():
    given, _ = arguments(6, 5, 18)
    want = results(given, None, UPDATES[0], "c", torch.float32)
    turned = {name: x if x is None else x.transpose(0, -1).contiguous().transpose(0, -1) for name, x in given.items()}
    assert not turned["weight"].is_contiguous()
    got = results(turned, None, UPDATES[0], "c", torch.float32)
    assert_near(got, {name: x.double() for name, x in want.items()}, OUTPUT[torch.float32], GRADIENT[torch.float32])


@pytest.mark.parametrize("every", [False, True])
def test_without_gradients(every):
    given, lengths = arguments(7, 9, 40, ragged=True)
    given = {name: x if x is None else x.float() for name, x in given.items()}
    want = results(given, lengths, UPDATES[0], "c", torch.float32)
    with torch.no_grad():
        output, last = run(**given, lengths=lengths, update=UPDATES[0], every=every, backend="c")
    assert torch.equal(last, want["last"])
    assert torch.equal(output, want["output"]) if every else output.numel() == 0


@pytest.mark.parametrize("isa", c.INSTRUCTION_SETS)
@pytest.mark.parametrize("dtype", TYPES)
def test_tanh(dtype, isa, monkeypatch):
    """One step from rest with dt = 1 gives the bare tanh of the drive, to three units in the last place."""
    use(isa, monkeypatch)
    x = torch.cat((torch.linspace(-22, 22, 4001), torch.logspace(-30, 1.4, 4001), torch.tensor([0.0, -0.0]))).to(dtype)
    x = torch.cat((x, torch.tensor([torch.inf, -torch.inf, torch.nan], dtype=dtype)))
    drive, state = x.view(1, -1, 1), torch.zeros(2, len(x), 1, dtype=dtype)
    parameters = torch.tensor([[1.0], [0], [0]], dtype=dtype)
    weight = torch.zeros(1, 2, dtype=dtype)
    _, last = run(drive, state, None, None, weight, parameters, update=UPDATES[0], every=False, backend="c")
    got, want = last[1].flatten(), torch.tanh(x.double())
    assert got[-1].isnan()
    assert got.abs()[:-1].max() == 1
    assert torch.equal(got[-3:-1], torch.tensor([1.0, -1.0], dtype=dtype))
    # One unit of the reference itself is added in float64.
    bound = (3 if dtype == torch.float32 else 4) * torch.finfo(dtype).eps
    assert ((got.double() - want).abs()[:-1] <= bound * want.abs()[:-1]).all()


def test_several_threads_call_at_once():
    torch.set_num_threads(2)
    given, lengths = arguments(60, 30, 64, ragged=True, spans=True)
    want = results(given, lengths, UPDATES[0], "c", torch.float32)
    equal = []

    def work():
        for _ in range(5):
            got = results(given, lengths, UPDATES[0], "c", torch.float32)
            equal.append(all(torch.equal(got[name], want[name]) for name in want))

    workers = [threading.Thread(target=work) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert equal == [True] * 15


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_after_a_fork():
    torch.set_num_threads(2)
    given, _ = arguments(60, 30, 64)
    given = {name: x if x is None else x.float() for name, x in given.items()}
    options = {"update": UPDATES[0], "every": False, "backend": "c"}
    want = run(**given, **options)[1]
    # Poisoning may go over PyTorch's own threads, which do not survive a fork.
    torch.use_deterministic_algorithms(False)
    child = os.fork()
    if child == 0:
        got = run(**given, **options)[1]
        os._exit(0 if torch.equal(got, want) else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"update": engine.UPDATES["cornn/explicit/relu"]}, "there is no C kernel for"),
        ({"dtype": torch.float16}, "float16"),
        ({"device": torch.device("cuda")}, "cuda"),
    ],
)
def test_says_why_it_cannot_serve(change, reason):
    usable, found = c.usable(PROBLEM._replace(**change))
    assert not usable
    assert reason in found


def test_an_instruction_set_that_is_not_there(monkeypatch):
    for settled in (c.instruction_set, c._find):
        settled.cache_clear()
    monkeypatch.setenv("CORNN_ISA", "sse9")
    assert c.usable(PROBLEM) == (False, "unknown CORNN_ISA 'sse9': choose one of avx512, avx2, generic")
