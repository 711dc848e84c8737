"""Every backend against the reference in float64: outputs, last state and every gradient."""

import re
from pathlib import Path

import hypothesis.strategies as st
import pytest
import torch
from engine_calls import operator_options, run
from engine_calls import problem as problem_of
from hypothesis import assume, given, settings
from tolerances import FLOAT64
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.library import opcheck

from cornn import CoRNN, baselines, engine
from cornn.engine.backends.cuda import backend as cuda
from cornn.engine.backends.cuda.layout import plan
from cornn.engine.op import recurrence, recurrence_backward

NAMES = ("input", "state", "input_weight", "bias", "weight", "parameters", "timespans")


COUPLED = [name for name, rule in engine.UPDATES.items() if rule.timed]
ONE_STATE = [name for name in engine.UPDATES if name not in COUPLED]


def arguments(
    steps,
    batch,
    hidden,
    features,
    *,
    update="cornn/explicit/tanh",
    seed=0,
    spans=False,
    ragged=False,
    scale=0.3,
    dtype=torch.float64,
):
    """Random arguments of `engine.run`, each wanting its gradient, and lengths."""
    random, rule = torch.Generator().manual_seed(seed), engine.UPDATES[update]
    drives = rule.drives * hidden

    def draw(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64) * scale

    given = {
        "input": draw(steps, batch, features),
        "state": draw(rule.states, batch, hidden),
        "input_weight": draw(drives, features),
        "bias": draw(drives),
        "weight": draw(rule.products * hidden, rule.states * hidden) * 2 / hidden**0.5,
        "parameters": torch.rand(len(rule.parameters), hidden, generator=random, dtype=torch.float64) * 0.4 + 0.1,
        "timespans": torch.rand(steps, batch, generator=random, dtype=torch.float64) + 0.5 if spans else None,
    }
    lengths = torch.randint(1, steps + 1, (batch,), generator=random) if ragged else None
    return {k: None if v is None else v.to(dtype).requires_grad_() for k, v in given.items()}, lengths


def results(given, lengths, update, backend, *, seed=1):
    """Output, last state, and the gradients of a random weighting of both."""
    output, last = run(**given, lengths=lengths, update=update, backend=backend)
    random = torch.Generator().manual_seed(seed)
    weights = [torch.randn(x.shape, generator=random, dtype=torch.float64) for x in (output, last)]
    value = sum((x * w.to(x)).sum() for x, w in zip((output, last), weights, strict=True))
    wanted = {name: x for name, x in given.items() if x is not None}
    gradients = torch.autograd.grad(value, list(wanted.values()))
    return {"output": output, "last": last} | {f"gradient of {n}": g for n, g in zip(wanted, gradients, strict=True)}


def assert_same(got, want, **tolerance):
    for name in want:
        torch.testing.assert_close(got[name], want[name], **tolerance, msg=lambda text, name=name: f"{name}: {text}")


def assert_differentiable(f, values, *, by_element):
    """Compare first and second derivatives with finite differences: every element, or in a random direction."""
    assert torch.autograd.gradcheck(f, values, fast_mode=not by_element)
    assert torch.autograd.gradgradcheck(f, values, fast_mode=not by_element)


@pytest.mark.parametrize("update", engine.UPDATES)
@settings(deadline=None, max_examples=10)
@given(
    steps=st.integers(1, 12),
    batch=st.integers(1, 5),
    hidden=st.integers(1, 9),
    features=st.integers(1, 4),
    spans=st.booleans(),
    ragged=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_portable_agrees_with_the_reference(update, steps, batch, hidden, features, spans, ragged, seed):
    spans = spans and engine.UPDATES[update].timed
    given_, lengths = arguments(steps, batch, hidden, features, update=update, spans=spans, ragged=ragged, seed=seed)
    want = results(given_, lengths, update, "reference")
    assume(want["output"].abs().max() < 1e3)  # the cubic force of Duffing's oscillators may diverge
    assert_same(results(given_, lengths, update, "portable"), want, **FLOAT64)


@pytest.mark.parametrize(("ragged", "spans"), [pytest.param(False, False, marks=pytest.mark.slow), (True, True)])
@pytest.mark.parametrize("update", ["cornn/explicit/tanh", "cornn/implicit/tanh", "cornn/explicit/duffing"])
def test_first_and_second_derivatives(update, ragged, spans):
    given_, lengths = arguments(3, 2, 2, 1, spans=spans, ragged=ragged)

    def f(*values):
        return run(**dict(zip(NAMES, values, strict=True)), lengths=lengths, update=update, backend="portable")

    assert_differentiable(f, tuple(given_.values()), by_element=ragged)


@pytest.mark.parametrize("ragged", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("update", ONE_STATE)
def test_first_and_second_derivatives_of_one_state(update, ragged):
    given_, lengths = arguments(3, 2, 2, 1, update=update, ragged=ragged)
    present = {name: x for name, x in given_.items() if x is not None}

    def f(*values):
        return run(**dict(zip(present, values, strict=True)), lengths=lengths, update=update, backend="portable")

    assert_differentiable(f, tuple(present.values()), by_element=ragged)


@pytest.mark.parametrize(
    "update",
    [pytest.param("fastgrnn", marks=pytest.mark.slow), "gated", pytest.param("lipschitz", marks=pytest.mark.slow)],
)
def test_operators_of_one_state_keep_pytorchs_rules(update):
    given_, lengths = arguments(4, 2, 3, 2, update=update, ragged=True)
    tensors = (*given_.values(), lengths)
    opcheck(recurrence, (*tensors, *operator_options(update, "portable", True, True)))
    with torch.no_grad():
        detached = (None if x is None else x.detach() for x in tensors)
        opcheck(recurrence, (*detached, *operator_options(update, "portable", False, False)))


@pytest.mark.parametrize("update", ONE_STATE)
def test_one_state_has_no_timespans(update):
    given_, _ = arguments(4, 2, 3, 2, update=update)
    given_["timespans"] = torch.ones(4, 2, dtype=torch.float64)
    for backend in ("auto", "reference"):
        with pytest.raises(ValueError, match=f"timespans scale a time step, and the update {update} has none"):
            run(**given_, update=update, backend=backend)


@pytest.mark.parametrize("update", ONE_STATE)
def test_past_its_end_one_state_stays_as_it_is_to_the_bit(update):
    given_, _ = arguments(9, 3, 4, 2, update=update)
    output, last = run(**given_, lengths=torch.tensor([9, 4, 1]), update=update)
    assert torch.equal(output[3:, 1], output[3, 1].expand(6, -1))
    assert torch.equal(output[:, 2], output[0, 2].expand(9, -1))
    assert torch.equal(last[0], output[-1])


@pytest.mark.parametrize("optional", [False, True])
def test_operators_keep_pytorchs_rules(optional):
    given_, lengths = arguments(4, 2, 3, 2, spans=optional, ragged=optional)
    tensors = (*given_.values(), lengths)
    update = "cornn/explicit/tanh"
    opcheck(recurrence, (*tensors, *operator_options(update, "portable", True, True)))
    with torch.no_grad():
        detached = (None if x is None else x.detach() for x in tensors)
        opcheck(recurrence, (*detached, *operator_options(update, "portable", False, False)))
        output, last, trail = recurrence(*tensors, *operator_options(update, "portable", True, True))
        grads = (torch.randn_like(output), torch.randn_like(last))
        needs = [x is not None for x in given_.values()]
        options = operator_options(update, "portable", True, True)
        opcheck(recurrence_backward, (*grads, output, trail, *tensors, *options, needs))


@pytest.mark.parametrize("grad", [False, True])
def test_the_operator_is_bypassed_without_a_trace(grad):
    """Plain tensors go past PyTorch's dispatcher; the registered operator gives the same to the bit."""
    given_, lengths = arguments(5, 3, 4, 2, spans=True, ragged=True)
    update = "cornn/explicit/tanh"
    with torch.set_grad_enabled(grad):
        direct = run(**given_, lengths=lengths, update=update, backend="portable")
        tensors = [*given_.values(), lengths]
        registered = recurrence(*tensors, *operator_options(update, "portable", True, grad))[:2]
    assert all(torch.equal(x, y) for x, y in zip(direct, registered, strict=True))
    if grad:
        pairs = [torch.autograd.grad(x.square().sum(), list(given_.values())) for x in (direct[0], registered[0])]
        assert all(torch.equal(x, y) for x, y in zip(*pairs, strict=True))


def test_whoever_looks_on_sees_the_operator():
    given_, _ = arguments(5, 3, 4, 2)

    def f(input):
        output, _ = run(**given_ | {"input": input}, update="cornn/explicit/tanh")
        return torch.autograd.grad(output.sum(), given_["weight"])

    nodes = [str(node.target) for node in make_fx(f)(given_["input"].detach()).graph.nodes]
    assert "cornn.recurrence.default" in nodes
    assert "cornn.recurrence_backward.default" in nodes
    mode = FakeTensorMode()
    fake = {name: x if x is None else mode.from_tensor(x.detach()) for name, x in given_.items()}
    with mode:
        output, last = run(**fake, update="cornn/explicit/tanh")
    assert (output.shape, last.shape) == ((5, 3, 4), (2, 3, 4))


def test_autocast_reaches_neither_pass():
    given_, _ = arguments(5, 3, 4, 2, dtype=torch.float32)
    leaves = [x for x in given_.values() if x is not None]
    found = []
    for enabled in (False, True):
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            output, _ = run(**given_, update="cornn/explicit/tanh", backend="portable")
            found.append((output, *torch.autograd.grad(output, leaves, torch.ones_like(output))))
    assert all(torch.equal(x, y) for x, y in zip(*found, strict=True))


def test_without_input_map_the_input_is_the_drive():
    given_, _ = arguments(5, 2, 4, 4)
    given_ |= {"input_weight": None, "bias": None}
    before = given_["input"].detach().clone()
    want = results(given_, None, "cornn/explicit/tanh", "reference")
    assert_same(results(given_, None, "cornn/explicit/tanh", "portable"), want, **FLOAT64)
    assert torch.equal(given_["input"], before)


@pytest.mark.parametrize("part", ["output", "last"])
def test_gradient_of_one_result_only(part):
    given_, lengths = arguments(6, 3, 4, 2, ragged=True)
    for backend in ("reference", "portable"):
        output, last = run(**given_, lengths=lengths, update="cornn/explicit/tanh", backend=backend)
        chosen = output if part == "output" else last
        (gradient,) = torch.autograd.grad(chosen.square().sum(), given_["weight"])
        want = gradient if backend == "reference" else want
    torch.testing.assert_close(gradient, want, **FLOAT64)


@pytest.mark.parametrize("grad", [False, True])
def test_last_only(grad):
    given_, lengths = arguments(7, 3, 4, 2, ragged=True)
    with torch.set_grad_enabled(grad):
        _, last = run(**given_, lengths=lengths, update="cornn/explicit/tanh", every=False)
        _, want = run(**given_, lengths=lengths, update="cornn/explicit/tanh", backend="reference")
    torch.testing.assert_close(last, want, **FLOAT64)


def test_past_its_end_a_state_stays_as_it_is_to_the_bit():
    given_, _ = arguments(9, 3, 4, 2)
    lengths = torch.tensor([9, 4, 1])
    output, _ = run(**given_, lengths=lengths, update="cornn/implicit/tanh")
    assert torch.equal(output[3:, 1], output[3, 1].expand(6, -1))
    assert torch.equal(output[:, 2], output[0, 2].expand(9, -1))


@pytest.mark.parametrize("ragged", [False, True])
def test_models_side_by_side_are_the_models_alone(ragged):
    models = [arguments(6, 3, 4, 2, seed=seed, spans=True, ragged=ragged) for seed in range(3)]
    update = "cornn/explicit/tanh"
    want = [results(given_, lengths, update, "reference", seed=seed) for seed, (given_, lengths) in enumerate(models)]
    stacked = {name: torch.stack([given_[name].detach() for given_, _ in models]).requires_grad_() for name in NAMES}
    lengths = torch.stack([lengths for _, lengths in models]) if ragged else None

    def one(values, lengths):
        return run(**values, lengths=lengths, update=update)

    output, last = torch.vmap(one, in_dims=(0, 0 if ragged else None))(stacked, lengths)
    value = 0
    for seed in range(3):
        random = torch.Generator().manual_seed(seed)
        for x in (output[seed], last[seed]):
            value = value + (x * torch.randn(x.shape, generator=random, dtype=torch.float64)).sum()
    gradients = torch.autograd.grad(value, list(stacked.values()))
    for i, expected in enumerate(want):
        got = {"output": output[i], "last": last[i]}
        got |= {f"gradient of {name}": g[i] for name, g in zip(NAMES, gradients, strict=True)}
        assert_same(got, expected, **FLOAT64)


def test_nothing_of_the_sequences_size_is_kept_but_y_z_and_the_activation():
    steps, batch, hidden = 50, 4, 8
    given_, _ = arguments(steps, batch, hidden, 1)
    kept = {}
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.setdefault(x.data_ptr(), x), lambda x: x):
        run(**given_, update="cornn/explicit/tanh", backend="portable")
    large = sum(x.numel() for x in kept.values() if x.numel() >= steps * batch * hidden)
    assert large == 3 * steps * batch * hidden


def problem(**changes):
    usual = problem_of("cornn/explicit/tanh", torch.device("cpu"), torch.float32, 1, 10, 2, 4, False)
    return usual._replace(**changes)


def test_choose_says_what_it_picked():
    name, reason = engine.choose(problem())
    assert name in engine.BACKENDS
    assert reason


def test_choose_never_swaps_what_was_asked_for(monkeypatch):
    class Broken:
        @staticmethod
        def usable(problem):
            return False, "it has no wheels"

    monkeypatch.setitem(engine.BACKENDS, "broken", Broken)
    with pytest.raises(RuntimeError, match="backend 'broken' cannot be used here: it has no wheels"):
        engine.choose(problem(), "broken")
    assert engine.choose(problem(), "portable")[0] == "portable"
    with pytest.raises(ValueError, match="unknown backend 'fast': choose one of auto, reference, "):
        engine.choose(problem(), "fast")


@pytest.mark.parametrize("backend", ["portable", "auto"])
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": (2, 3, 5)}, r"state has shape \(2, 3, 5\), expected \(2, 3, 4\)"),
        ({"input_weight": (4, 3)}, r"input_weight has shape \(4, 3\), expected \(4, 2\)"),
        ({"weight": (4, 4)}, r"weight has shape \(4, 4\), expected \(4, 8\)"),
        ({"input_weight": None}, "the drive has 2 values per step, expected one for each of 4 neurons"),
        ({"timespans": (5, 4)}, r"timespans has shape \(5, 4\), expected \(5, 3\)"),
        ({"input": (5, 2)}, r"input has shape \(5, 2\), expected \(time, batch, features\)"),
        ({"input": (5, 1, 3, 2)}, r"input has shape \(5, 1, 3, 2\), expected \(time, batch, features\)"),
        ({"input": (5, 3, 0), "input_weight": (4, 0)}, "input has 0 features for 4 neurons: pass at least one of each"),
    ],
)
def test_shapes_are_checked_before_a_kernel_sees_them(backend, change, words):
    given_, _ = arguments(5, 3, 4, 2)
    given_ |= {
        name: shape if shape is None else torch.zeros(shape, dtype=torch.float64) for name, shape in change.items()
    }
    with pytest.raises(ValueError, match=words):
        run(**given_, update="cornn/explicit/tanh", backend=backend)


@pytest.mark.parametrize("name", engine.Scales._fields)
def test_scales_have_the_shapes_of_their_weights(name):
    """Some kernels multiply while they read, and would read beyond the end of a smaller tensor."""
    given_, _ = arguments(5, 3, 4, 2)
    scales = engine.Scales(*(torch.ones_like(given_[field]) for field in engine.Scales._fields))
    run(**given_, scales=scales, update="cornn/explicit/tanh")
    scales = scales._replace(**{name: getattr(scales, name)[..., :1]})
    with pytest.raises(ValueError, match=rf"the scale of {name} has shape .*, expected .*: use expand_as"):
        run(**given_, scales=scales, update="cornn/explicit/tanh")


@pytest.mark.parametrize("backend", ["portable", "c", "auto"])
@pytest.mark.parametrize("name", ["weight", "bias", "parameters"])
def test_types_are_checked_before_a_kernel_sees_them(backend, name):
    given_, _ = arguments(5, 3, 4, 2)
    given_[name] = given_[name].float()
    with pytest.raises(ValueError, match=rf"{name} is torch.float32, the input torch.float64: convert one with"):
        run(**given_, update="cornn/explicit/tanh", backend=backend)


def test_clusters_serve_steps_whose_bytes_they_can_count(monkeypatch):
    monkeypatch.setattr(cuda, "_usable_there", lambda *arguments: (True, ""))
    fits = problem_of("cornn/explicit/tanh", torch.device("cuda", 0), torch.float32, 1, 3, 2**22 - 1, 256, False)
    assert cuda.usable(fits) == (True, "")
    assert cuda.usable(fits._replace(batch=2**26, hidden=128)) == (True, "")
    for more in ({"batch": 2**22}, {"groups": 2, "batch": 2**21}):
        served, reason = cuda.usable(fits._replace(**more))
        assert not served
        assert "count the bytes of a step with 32 bits: use smaller batches" in reason


@pytest.mark.parametrize("backend", ["portable", "c", "auto"])
def test_third_derivatives_are_those_of_the_equations(backend):
    """A loss of second derivatives is trained on."""
    found = {}
    for name in ("reference", backend):
        layer = CoRNN(1, 4, dtype=torch.float64, dt=0.5, backend=name)
        layer.reset_parameters(torch.Generator().manual_seed(0))
        time = torch.linspace(-1, 1, 5, dtype=torch.float64).reshape(5, 1, 1).requires_grad_()
        output, _ = layer(time)
        (first,) = torch.autograd.grad(output.sum(), time, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), time, create_graph=True)
        loss = (100 * second).square().sum() + output.square().sum()
        found[name] = torch.autograd.grad(loss, list(layer.parameters()))
    for got, want in zip(found[backend], found["reference"], strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("backend", ["portable", "c"])
def test_gates_that_are_given_their_drives_and_a_bias(backend):
    random = torch.Generator().manual_seed(0)
    drawn = [torch.randn(*shape, generator=random, dtype=torch.float64) for shape in ((3, 2, 8), (8,), (4, 4))]
    found = {}
    for name in ("reference", backend):
        drive, bias, weight = given = [value.clone().requires_grad_() for value in drawn]
        state, parameters = torch.zeros(1, 2, 4, dtype=torch.float64), torch.full((1, 4), 0.5, dtype=torch.float64)
        output, last = run(drive, state, None, bias, weight, parameters, update="gated", backend=name)
        found[name] = (output, last, *torch.autograd.grad(output.square().sum() + last.sum(), given))
    for got, want in zip(found[backend], found["reference"], strict=True):
        torch.testing.assert_close(got, want)


@pytest.mark.parametrize("kind", [CoRNN, baselines.GatedAntisymmetricRNN, baselines.UnICORNN])
def test_a_backward_pass_within_autocast_is_exact(kind):
    layer, input = kind(2, 8), torch.randn(300, 3, 2, generator=torch.Generator().manual_seed(0))
    found = []
    for inside in (False, True):
        loss = layer(input)[0].square().sum()
        with torch.autocast("cpu", enabled=inside):
            found.append(torch.autograd.grad(loss, list(layer.parameters())))
    for got, want in zip(*found, strict=True):
        assert torch.equal(got, want)


def test_the_cuda_kernels_define_every_activation_that_is_offered():
    source = (Path(engine.__file__).parent / "kernels" / "activation.cuh").read_text(encoding="utf8")
    assert re.findall(r"#define (\w+) \d", source) == [name.upper() for name in cuda.ACTIVATIONS]


@pytest.mark.parametrize(("hidden", "quads"), [(192, 0), (256, 0), (384, 3), (512, 4)])
def test_a_cluster_keeps_weights_in_shared_memory_only_above_256_neurons(hidden, quads):
    """STORED_BYTES of cluster.cuh, and `Memory` of cluster_forward.cu."""
    layout = plan(hidden, 1, 1, 132)
    memory = 64 + layout.sets * (5 * 4 * hidden * layout.rows + 16 * layout.threads)
    assert layout.shared("forward", spans=False, for_parameters=False) == quads * 8 * layout.threads * 16 + memory
