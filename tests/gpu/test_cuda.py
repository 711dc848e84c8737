"""The GPU kernels against float64, in odd shapes and poisoned memory, on streams and in graphs."""

import pytest
import torch
from engine_calls import problem as problem_of
from engine_calls import run as run_engine

from cornn import engine
from cornn.engine.backends.cuda import backend as cuda

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU")

# fp32 has 6e-8 a rounding; over T steps of a network that neither explodes nor dies the roundings add up slowly.
OUTPUTS, GRADIENTS = 1e-5, 5e-5
NAMES = ("input", "state", "input_weight", "bias", "weight", "parameters", "timespans")
UPDATE = "cornn/explicit/tanh"


@pytest.fixture(autouse=True)
def exact_products(monkeypatch):
    monkeypatch.setattr(torch.backends.cuda.matmul, "allow_tf32", False)


ONE_STATE = [name for name, rule in engine.UPDATES.items() if rule.states == 1]
COUPLED = [rule.name for rule in engine.OSCILLATORS.values()]


def arguments(
    steps, batch, hidden, features=3, *, update=UPDATE, groups=0, bias=True, spans=False, ragged=False, seed=0
):
    """Random arguments of `engine.run` on the GPU, as float32, and lengths."""
    random, rule = torch.Generator().manual_seed(seed), engine.UPDATES[update]
    group = (groups,) if groups else ()

    def draw(*shape):
        return torch.randn(*group, *shape, generator=random)

    dt = torch.rand(*group, 1, hidden, generator=random) * 0.05 + 0.02
    others = torch.rand(*group, 2, hidden, generator=random) * 2 + 0.5
    given = {
        "input": draw(steps, batch, features),
        "state": draw(rule.states, batch, hidden) * 0.3,
        "input_weight": draw(rule.drives * hidden, features) / features**0.5,
        "bias": draw(rule.drives * hidden) * 0.3 if bias else None,
        "weight": draw(rule.products * hidden, rule.states * hidden) / hidden**0.5,
        "parameters": torch.cat((dt, others), -2),
        "timespans": torch.rand(*group, steps, batch, generator=random) * 2 if spans else None,
    }
    if rule.states == 1:
        # Numbers that weigh old against new, all below a half, or a small step of time: so that nothing grows.
        most = 0.5 if rule.drives == 1 else 0.05
        given["parameters"] = torch.rand(*group, len(rule.parameters), hidden, generator=random) * most
    lengths = torch.randint(0, steps + 1, (batch,), generator=random) if ragged else None
    return {name: None if x is None else x.cuda() for name, x in given.items()}, lengths


def call(given, lengths, update, backend, every):
    def run(*values):
        return run_engine(
            **dict(zip(NAMES, values, strict=True)), lengths=lengths, update=update, backend=backend, every=every
        )

    values = tuple(given.values())
    if given["weight"].dim() == 2:
        return run(*values)
    return torch.func.vmap(run, in_dims=tuple(None if x is None else 0 for x in values))(*values)


def results(given, lengths, *, dtype, backend, update=UPDATE, every=True):
    """Output, last state, and the gradients of a random weighting of both."""
    given = {name: None if x is None else x.detach().to(dtype).requires_grad_() for name, x in given.items()}
    output, last = call(given, lengths, update, backend, every)
    random = torch.Generator().manual_seed(1)
    weighed = (output, last) if every else (last,)
    value = sum((x * torch.randn(x.shape, generator=random).to(x)).sum() for x in weighed)
    wanted = {name: x for name, x in given.items() if x is not None}
    gradients = torch.autograd.grad(value, list(wanted.values()))
    found = {"output": output, "last": last} if every else {"last": last}
    return found | {f"gradient of {name}": g for name, g in zip(wanted, gradients, strict=True)}


def poison():
    """Leaves NaN in the memory that the next allocations will get."""
    torch.cuda.empty_cache()
    held = [torch.full((size // 4,), torch.nan, device="cuda") for size in (1 << 20, 1 << 24, 1 << 28)]
    del held


def check(steps, batch, hidden, *, update=UPDATE, every=True, **options):
    given, lengths = arguments(steps, batch, hidden, update=update, **options)
    want = results(given, lengths, dtype=torch.float64, backend="portable", update=update, every=every)
    poison()
    got = results(given, lengths, dtype=torch.float32, backend="cuda", update=update, every=every)
    for name in want:
        scale = want[name].norm()
        error = ((got[name].double() - want[name]).norm() / scale.clamp_min(1e-30)).item()
        limit = (GRADIENTS if "gradient" in name else OUTPUTS) * max(1, steps / 1000)
        assert error <= limit, f"{name} is off by {error:.1e}"


@pytest.mark.parametrize("hidden", [1, 20, 32, 33, 64, 65, 96, 127, 128])
@pytest.mark.parametrize("batch", [1, 7, 133])
def test_one_block(hidden, batch):
    check(30, batch, hidden, features=17)


@pytest.mark.parametrize("hidden", [1, 33, 64, 128])
@pytest.mark.parametrize("batch", [1, 7, 300, 1024])
@pytest.mark.parametrize("features", [1, 2, 3, 4])
def test_a_block_makes_the_drive(hidden, batch, features):
    assert cuda.makes_drive(engine.UPDATES[UPDATE], hidden, features)
    check(20, batch, hidden, features=features, ragged=batch == 7)


@pytest.mark.parametrize("hidden", [20, 33, 64])
@pytest.mark.parametrize("batch", [1, 7, 300, 1024])
def test_a_small_block_makes_the_drive_of_more_features(hidden, batch):
    for features in (9, 16):
        assert cuda.makes_drive(engine.UPDATES[UPDATE], hidden, features)
        assert not cuda.makes_drive(engine.UPDATES[UPDATE], hidden, features, spans=True)
        check(20, batch, hidden, features=features, ragged=batch == 7)


@pytest.mark.parametrize("features", [1, 4])
@pytest.mark.parametrize("options", [{"bias": False}, {"spans": True}, {"groups": 3}], ids=lambda x: next(iter(x)))
@pytest.mark.parametrize("hidden", [20, 128])
def test_a_block_makes_the_drive_whatever_else_there_is(hidden, features, options):
    check(20, 6, hidden, features=features, **options)
    check(20, 300, hidden, features=features, every=False, **options)


@pytest.mark.parametrize("update", ONE_STATE)
@pytest.mark.parametrize("features", [1, 2])
def test_a_block_makes_the_drives_of_one_state(update, features):
    steps = 4 if update == "modrelu" else 20
    assert cuda.makes_drive(engine.UPDATES[update], 40, features)
    check(steps, 6, 40, features=features, update=update, groups=3)
    check(steps, 300, 100, features=features, update=update, ragged=True, bias=False)


def test_where_no_gradient_is_wanted_nothing_of_the_sequences_length_is_made():
    given, _ = arguments(500, 32, 128, 1)
    with torch.no_grad():
        call(given, None, UPDATE, "cuda", False)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call(given, None, UPDATE, "cuda", False)
        grown = torch.cuda.max_memory_allocated() - before
    assert grown < 500 * 32 * 128 * 4 / 10


@pytest.mark.parametrize("hidden", [129, 192, 200, 256, 257, 384, 511, 512])
@pytest.mark.parametrize("batch", [1, 7, 133])
def test_a_cluster(hidden, batch):
    usable, reason = cuda.usable(problem(hidden))
    if not usable:
        pytest.skip(reason)
    check(30, batch, hidden)


@pytest.mark.parametrize(("hidden", "batch"), [(513, 1), (520, 133), (768, 7), (1024, 120), (1100, 50), (1536, 3)])
def test_a_grid(hidden, batch):
    usable, reason = cuda.usable(problem(hidden))
    if not usable:
        pytest.skip(reason)
    check(20, batch, hidden)


@pytest.mark.parametrize("hidden", [20, 128, 200, 530])
@pytest.mark.parametrize("steps", [1, 2, 5, 5000])
def test_few_and_many_steps(hidden, steps):
    check(steps, 3, hidden)


@pytest.mark.parametrize("hidden", [20, 64, 128, 200, 300, 600])
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("spans", [False, True])
def test_lengths_and_timespans(hidden, ragged, spans):
    check(40, 9, hidden, ragged=ragged, spans=spans)


@pytest.mark.parametrize("update", ONE_STATE)
@pytest.mark.parametrize("hidden", [1, 20, 64, 100, 128])
@pytest.mark.parametrize(("batch", "ragged"), [(1, False), (7, True), (300, True), (1024, False)])
def test_one_state(update, hidden, batch, ragged):
    # modReLU alone does not fade, and jumps at 0: a few steps only.
    check(4 if update == "modrelu" else 40, batch, hidden, update=update, ragged=ragged)


@pytest.mark.parametrize("update", ONE_STATE)
def test_one_state_in_a_group_and_for_the_last_state_only(update):
    steps = 4 if update == "modrelu" else 20
    check(steps, 6, 40, update=update, groups=3)
    check(steps, 6, 40, update=update, every=False)


@pytest.mark.parametrize("update", ONE_STATE)
@pytest.mark.parametrize("ragged", [False, True])
def test_one_state_in_a_cuda_graph(update, ragged):
    rule, random = engine.UPDATES[update], torch.Generator().manual_seed(0)
    hidden = 24

    def draw(*shape):
        return torch.randn(*shape, generator=random).cuda() / hidden**0.5

    given = {
        "input": draw(70, 5, 3),
        "state": draw(1, 5, hidden),
        "input_weight": draw(rule.drives * hidden, 3),
        "bias": draw(rule.drives * hidden),
        "weight": draw(rule.products * hidden, hidden),
        "parameters": draw(len(rule.parameters), hidden).abs(),
        "timespans": None,
    }
    lengths = torch.tensor([70, 1, 33, 32, 0]) if ragged else None
    want = results(given, lengths, dtype=torch.float64, backend="portable", update=update)
    got = results(given, lengths, dtype=torch.float64, backend="graph", update=update)
    for name in want:
        torch.testing.assert_close(got[name], want[name])


@pytest.mark.parametrize("update", COUPLED)
@pytest.mark.parametrize("hidden", [100, 200, 520])
def test_every_update(update, hidden):
    # Duffing oscillators blow up under a strong drive: a few steps only.
    check(3 if "duffing" in update else 25, 5, hidden, update=update, spans=True)


@pytest.mark.parametrize("hidden", [64, 128])
@pytest.mark.parametrize("batch", [300, 1024])
@pytest.mark.parametrize("ragged", [False, True])
def test_several_sequences_in_a_block(hidden, batch, ragged):
    check(20, batch, hidden, ragged=ragged)


@pytest.mark.parametrize("hidden", [64, 200, 600])
def test_only_the_last_state(hidden):
    check(25, 5, hidden, every=False)
    given, lengths = arguments(25, 5, hidden)
    with torch.no_grad():
        output, last = call(given, lengths, UPDATE, "cuda", False)
        _, want = call(given, lengths, UPDATE, "cuda", True)
    assert output.numel() == 0
    assert torch.equal(last, want)


@pytest.mark.parametrize("hidden", [40, 128, 200, 600])
def test_a_group_gives_what_each_gives_alone(hidden):
    check(20, 6, hidden, groups=3)
    given, _ = arguments(20, 6, hidden, groups=3)
    together, _ = call(given, None, UPDATE, "cuda", True)
    for i in range(3):
        alone = {name: None if x is None else x[i] for name, x in given.items()}
        torch.testing.assert_close(together[i], call(alone, None, UPDATE, "cuda", True)[0])


def test_strides_and_places_of_the_arguments_do_not_matter():
    given, lengths = arguments(12, 5, 50, ragged=True)
    want = results(given, lengths, dtype=torch.float32, backend="cuda")
    twisted = {name: None if x is None else x.mT.contiguous().mT if x.dim() > 1 else x for name, x in given.items()}
    got = results(twisted, lengths.cuda(), dtype=torch.float32, backend="cuda")
    for name in want:
        torch.testing.assert_close(got[name], want[name])


@pytest.mark.parametrize("hidden", [64, 128, 256, 512, 768])
def test_repeated_runs_are_equal_to_the_bit(hidden):
    given, lengths = arguments(200, 33, hidden, spans=hidden == 64)
    first = results(given, lengths, dtype=torch.float32, backend="cuda")
    for _ in range(3):
        again = results(given, lengths, dtype=torch.float32, backend="cuda")
        assert all(torch.equal(first[name], again[name]) for name in first)


@pytest.mark.parametrize("hidden", [128, 256, 600])
def test_two_streams_at_once(hidden):
    cases = [arguments(300, 20, hidden, seed=seed)[0] for seed in (0, 1)]
    want = [call(given, None, UPDATE, "cuda", True)[0] for given in cases]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in cases]
    got = []
    for given, stream in zip(cases, streams, strict=True):
        with torch.cuda.stream(stream):
            got.append(call(given, None, UPDATE, "cuda", True)[0])
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def assert_same_in_a_graph(step):
    """What a step gives when it is replayed is what it gives by itself."""
    want = step()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = step()
    for x in got:
        x.fill_(torch.nan)
    graph.replay()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.parametrize("hidden", [64, 256, 600])
def test_it_can_be_captured_in_a_graph(hidden):
    given, _ = arguments(30, 8, hidden)
    leaves = {name: None if x is None else x.clone().requires_grad_() for name, x in given.items()}

    def step():
        output, last = call(leaves, None, UPDATE, "cuda", True)
        return torch.autograd.grad(output.sum() + last.sum(), [x for x in leaves.values() if x is not None])

    assert_same_in_a_graph(step)


def problem(hidden, dtype=torch.float32):
    return problem_of(UPDATE, torch.device("cuda", 0), dtype, 1, 10, 4, hidden, False)


def test_what_it_cannot_do_it_says():
    assert cuda.usable(problem(128))[0]
    assert "do not fit" in cuda.usable(problem(10_000))[1]
    assert "float32" in cuda.usable(problem(128, torch.float64))[1]
