"""Updates: every form against the reference, registration, its errors, and the kernels kept on disk."""

import errno
import functools
import re
from pathlib import Path

import pytest
import torch
from engine_calls import assert_same_gradients, problem, run
from own_updates import OWN
from scripts import ROOT, import_script
from test_engine import arguments, assert_same, results
from tolerances import FLOAT64

import cornn
from cornn import CustomRNN, engine
from cornn.engine import Code, Update
from cornn.engine.backends import c, compiled
from cornn.engine.updates.update import check_derivative

HERE = torch.device("cpu"), torch.float32, 1, 5, 3, 4, False
USABLE, REASON = c.usable(problem("leaky", *HERE))
needs_c = pytest.mark.skipif(not USABLE, reason=f"backend c: {REASON}")


@pytest.fixture
def registered(monkeypatch):
    for name, update in OWN.items():
        monkeypatch.setitem(engine.UPDATES, name, update)


def fresh(**changes) -> Update:
    """A new update: what was compiled before is not remembered for it."""
    code = Code(step={"h": "gain * pre"}, derivative={"h": {"pre": "gain", "gain": "pre"}})
    return Update(
        **{"name": "fresh", "parameters": {"gain": 0.5}, "reference": lambda pre, h, gain: gain * pre, "code": code}
        | changes
    )


@pytest.mark.parametrize("update", (engine.UPDATES | OWN).values(), ids=lambda update: update.name)
def test_every_form_is_the_reference(update):
    """What the portable backend runs, and the code, against autograd through the reference."""
    check_derivative(update)
    random, hidden = torch.Generator().manual_seed(0), 7

    def draw(*shape):
        return torch.randn(*shape, generator=random, dtype=torch.float64)

    state, weight = (
        [draw(3, hidden) for _ in update.state],
        torch.zeros(hidden * update.products, hidden * update.states),
    )
    pre, gradient = draw(3, update.drives * hidden), [draw(3, hidden) for _ in update.state]
    parameters = torch.rand(len(update.parameters), 1, hidden, generator=random, dtype=torch.float64) * 0.4 + 0.1
    leaves = [x.clone().requires_grad_() for x in (pre, *state, parameters)]
    want = update.step(leaves[0], leaves[1:-1], weight.double(), leaves[-1].unbind(0))
    grads = torch.autograd.grad(want, leaves, gradient, allow_unused=True)
    kept, delta, after = pre.clone(), torch.empty_like(pre), [torch.empty_like(x) for x in state]
    k = update.coefficients(parameters, None)
    sums = [torch.zeros(3, hidden, dtype=torch.float64) for _ in k]
    update.portable.step_(kept, state, k, after)
    update.portable.adjoint_(gradient, kept, state, after, k, delta, sums)
    terms = torch.stack([x.sum(0, keepdim=True) for x in update.parameter_gradients(parameters, None, sums)[0]])
    for got, wanted in zip((*after, delta, *gradient, terms), (*want, *grads), strict=True):
        torch.testing.assert_close(got, torch.zeros_like(got) if wanted is None else wanted.detach(), **FLOAT64)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("ragged", [False, True])
@pytest.mark.parametrize("update", OWN)
def test_portable_runs_a_registered_update(update, ragged):
    given, lengths = arguments(6, 3, 5, 2, update=update, ragged=ragged)
    want = results(given, lengths, update, "reference")
    assert_same(results(given, lengths, update, "portable"), want, **FLOAT64)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("how", ["operator", "vmap", "second order"])
def test_an_update_without_code_has_gradients_inside_an_operator(how, monkeypatch):
    """PyTorch records nothing for autograd there, and zeros would be the gradients of a function that was not seen."""
    layer, input = CustomRNN(2, 5, update="plain", dtype=torch.float64), torch.randn(6, 3, 2, dtype=torch.float64)
    parameters = dict(layer.named_parameters())
    leaves = list(parameters.values())

    def loss(given):
        return torch.func.functional_call(layer, given, (input,))[0].square().sum()

    layer.backend = "reference"
    again = how == "second order"
    want = torch.autograd.grad(loss(parameters), leaves, create_graph=again)
    layer.backend = "auto"
    if how == "vmap":
        value = torch.vmap(loss)({name: value.unsqueeze(0) for name, value in parameters.items()}).sum()
    else:
        if how == "operator":
            monkeypatch.setattr(engine, "is_eager", lambda tensors: False)
        value = loss(parameters)
    got = torch.autograd.grad(value, leaves, create_graph=again)
    assert_same_gradients(got, want, leaves, again)


def test_the_c_library_contains_the_code_of_every_update():
    module = import_script("tools/generate_updates.py")
    found = (Path(cornn.__file__).parent / "engine" / "csrc" / "updates.h").read_text(encoding="utf8")
    assert found == module.generate(), "out of date: run python tools/generate_updates.py, and build the library again"


def test_flags_are_those_of_the_package():
    text = (ROOT / "setup.py").read_text(encoding="utf8")
    flags = re.search(r"^FLAGS = \[(.*)\]", text, re.MULTILINE)[1]
    assert set(compiled.FLAGS) == set(re.findall(r'"([^"]*)"', flags)) - {"-Wall", "-Wextra"}
    for isa, own in compiled.INSTRUCTION_FLAGS.items():
        listed = re.search(rf'"{isa}": \[(.*?)\]', text)[1]
        assert list(own) == re.findall(r'"([^"]*)"', listed)


def test_register_makes_an_update_known(monkeypatch):
    monkeypatch.setattr(engine.updates, "UPDATES", dict(engine.UPDATES))
    update = fresh()
    assert engine.register(update) is update
    assert engine.register(update) is update
    assert engine.find_update("fresh") is update
    with pytest.raises(ValueError, match="'fresh' already: choose another name, or pass replace=True"):
        engine.register(fresh())
    for replace in (False, True):
        with pytest.raises(ValueError, match="there is an update 'leaky' in cornn already: choose another name"):
            engine.register(fresh(name="leaky"), replace=replace)
    with pytest.raises(ValueError, match=r"unknown update 'other': register it with cornn.engine.register before"):
        engine.find_update("other")
    with pytest.raises(TypeError, match="an update is named by a string: pass 'fresh', and register the update first"):
        CustomRNN(2, 4, update=update)


@pytest.mark.slow
def test_a_replaced_update_runs_in_layers_that_exist(monkeypatch):
    """Kernels are kept per update, not per name."""
    monkeypatch.setattr(engine.updates, "UPDATES", dict(engine.UPDATES))
    engine.register(fresh())
    layer, input = CustomRNN(2, 4, update="fresh"), torch.randn(5, 3, 2)
    before = layer(input)[0]
    code = Code(step={"h": "-gain * pre"}, derivative={"h": {"pre": "-gain", "gain": "-pre"}})
    opposite = fresh(reference=lambda pre, h, gain: -gain * pre, code=code)
    assert engine.register(opposite, replace=True) is opposite
    assert engine.find_update("fresh") is opposite
    assert torch.equal(layer(input)[0][0], -before[0])


WRONG = {
    "no parameters": ({"parameters": {}}, "has no parameters"),
    "three states": ({"state": ("a", "b", "c")}, "has 3 states: it may have one or two"),
    "two and two": ({"state": ("a", "b"), "pre": ("c", "d")}, "only an update with one state may have two"),
    "products": ({"products": 2}, "has 2 products"),
    "a name twice": ({"state": ("gain",)}, "uses a name twice"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_updates(name):
    changes, message = WRONG[name]
    with pytest.raises(ValueError, match=message):
        fresh(**changes)


def code(step="gain * pre", derivative=None, **others) -> Code:
    return Code(step={"h": step}, derivative=derivative or {"h": {"pre": "gain", "gain": "pre"}}, **others)


WRONG_CODE = {
    "syntax": (code("gain *"), r"step\['h'\]: 'gain \*' is not an expression"),
    "name": (code("gian * pre"), r"unknown name 'gian' in 'gian \* pre': known are pre, h, gain"),
    "attribute": (code("pre.data"), r"'pre.data' is not supported"),
    "call": (code("print(pre)"), r"'print\(pre\)' is not supported"),
    "power": (code("pre ** 2"), r"'pre \*\* 2' is not supported"),
    "text": (code("'x'"), "is not supported"),
    "infinity": (code("pre + 1e999"), "is not supported"),
    "a huge integer": (code("pre + 1" + 400 * "0"), "is not supported"),
    "a constant comparison": (code("select(2 > 1, pre, h)"), r"'2 > 1' is a constant: write the value that it selects"),
    "comparison": (code("pre > 0"), "is not supported"),
    "select": (code("select(pre, 1, 0)"), "the first argument of select is a comparison"),
    "arguments": (code("tanh(pre, h)"), "wrong number of arguments of tanh"),
    "constant": (code("tanh(1)"), r"'tanh\(1.*\)' is a constant: write the number"),
    "states": (Code(step={"y": "pre"}, derivative={}), "step has y, expected h"),
    "kept": (code(kept={"a": "pre", "b": "pre"}), "kept has 2 entries, expected one for each of pre"),
    "kept names": (code(kept={"a": "h"}), "unknown name 'h' in 'h': known are pre"),
    "kept twice": (code(kept={"h": "tanh(pre)"}), r"kept\['h'\]: the name is taken"),
    "kept parameter": (code(kept={"gain": "tanh(pre)"}), r"kept\['gain'\]: the name is taken"),
    "function": (code(where={"tanh": "pre"}), "'tanh' is the name of a function: choose another one"),
    "where": (code(where={"h": "pre"}), r"where\['h'\]: the name is taken"),
    "order": (code(where={"a": "b", "b": "pre"}), "unknown name 'b'"),
    "derivative of": (code(derivative={"y": {}}), r"derivative\['y'\]: the states are h"),
    "derivative by": (code(derivative={"h": {"x": "1"}}), r"derivative\['h'\]\['x'\]: not a pre-activation"),
    "capitals": (code(where={"A": "pre"}), "'A' is not a name of lower-case letters"),
}


@pytest.mark.parametrize("name", WRONG_CODE)
def test_wrong_code(name):
    given, message = WRONG_CODE[name]
    with pytest.raises(ValueError, match=message):
        fresh(code=given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (code("gain * pre + 1"), "gives the next h wrong: it is off by up to 1"),
        (code(derivative={"h": {"pre": "gain", "gain": "2 * pre"}}), "the derivative with respect to gain wrong"),
        (code(derivative={"h": {"pre": "gain", "gain": "pre", "h": "h"}}), "the derivative with respect to h wrong"),
        (code("gain * pre * pre / pre"), "infinite or NaN where states and pre-activations are 0"),
    ],
)
def test_register_compares_code_and_reference(given, message):
    with pytest.raises(ValueError, match=message):
        engine.register(fresh(code=given))
    assert "fresh" not in engine.UPDATES


def test_register_keeps_the_sign_of_a_small_parameter(monkeypatch):
    """Otherwise code and reference would both be NaN, and count as different."""
    monkeypatch.setattr(engine.updates, "UPDATES", dict(engine.UPDATES))
    right = code("sqrt(gain) * pre", {"h": {"pre": "sqrt(gain)", "gain": "0.5 * pre / sqrt(gain)"}})
    wrong = code("sqrt(gain) * pre", {"h": {"pre": "sqrt(gain)", "gain": "pre / sqrt(gain)"}})
    changes = {"parameters": {"gain": 0.01}, "reference": lambda pre, h, gain: torch.sqrt(gain) * pre}
    engine.register(fresh(code=right, **changes))
    with pytest.raises(ValueError, match="the derivative with respect to gain wrong"):
        engine.register(fresh(code=wrong, **changes), replace=True)


TRAINED = torch.ones((), dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"reference": lambda pre, h, gain: (h, h)},
            r"returns \(Tensor, Tensor\), expected one tensor for each of \(h\)",
        ),
        ({"reference": lambda pre, h, gain: None}, r"returns \(NoneType\), expected one tensor for each of \(h\)"),
        ({"reference": lambda pre, h, gain: pre.sum()}, r"returns h of shape \(\)"),
        (
            {"reference": lambda pre, h, gain: gain * pre.sum()},
            r"returns h of shape \(1, 3\) for states of shape \(2, 3\)",
        ),
        ({"reference": lambda pre, h, gain: h.mul_(gain).add_(pre)}, "changes h in place: return new tensors"),
        ({"reference": lambda pre, h, gain: (gain * pre).float()}, "returns h as torch.float32 for arguments of"),
        (
            {"reference": lambda pre, h, gain: gain * pre + TRAINED},
            "a tensor that is trained, but not an argument.*make it one of the parameters",
        ),
        (
            {"reference": lambda pre, h, gain: torch.where(torch.rand_like(h) < 0.1, h, gain * pre)},
            "another h when it is called again: it must depend on its arguments alone, without random numbers",
        ),
    ],
    ids=["two states", "nothing", "a number", "a row", "in place", "another type", "a weight", "random"],
)
def test_register_checks_what_the_reference_returns(changes, message):
    """Without code too: a smaller tensor would be repeated without a word."""
    with pytest.raises(ValueError, match=message):
        engine.register(fresh(code=None, **changes))
    assert "fresh" not in engine.UPDATES


@pytest.mark.usefixtures("registered")
def test_an_update_without_code_is_portable():
    name, reason = engine.choose(problem("plain", *HERE))
    assert name == "portable"
    assert "there is no C kernel for the update 'plain'" in reason
    device = torch.device("cuda", 0)
    usable, reason = engine.BACKENDS["cuda"].usable(problem("plain", device, *HERE[1:]))
    assert (usable, reason) == (False, "the update 'plain' has no code")
    usable, reason = engine.BACKENDS["graph"].usable(problem("plain", device, torch.float32, 1, 50, 3, 4, False))
    assert (usable, reason) == (False, "the update 'plain' has no code, and autograd cannot be captured")
    assert not engine.BACKENDS["cuda"].usable(problem("smooth", device, torch.float32, 1, 5, 3, 129, False))[0]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORNN_CACHE", str(tmp_path / "kernels"))
    return tmp_path / "kernels"


@pytest.fixture
def calls(monkeypatch):
    """The compilations; a library is compiled without optimisation, since nothing is measured here."""
    found, compile_ = [], compiled._compile
    monkeypatch.setattr(compiled, "FLAGS", ("-std=gnu11", "-O0", "-fvisibility=hidden"))
    monkeypatch.setattr(compiled, "_compile", lambda *given: found.append(given[0].name) or compile_(*given))
    return found


def usable(update: Update) -> tuple[bool, str]:
    return c.usable(engine.Problem(update, *HERE))


@pytest.mark.slow
@needs_c
def test_a_compiled_library_is_kept_and_checked(cache, calls):
    assert usable(fresh())[0]
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    assert usable(fresh())[0]
    assert calls == ["fresh"]
    for damaged in (whole[:-1] + b"?", b""):
        file.unlink()  # a library that a process uses may be replaced, not written into
        file.write_bytes(damaged)
        assert usable(fresh())[0]
        assert file.read_bytes() == whole
    assert calls == ["fresh"] * 3
    assert usable(fresh(code=code("pre * gain")))[0]
    assert calls == ["fresh"] * 4
    assert len(list(cache.iterdir())) == 2
    assert {path.suffix for path in cache.iterdir()} == {compiled.SUFFIX}


@needs_c
def test_a_folder_that_cannot_be_written_is_no_error(tmp_path, monkeypatch, calls):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CORNN_CACHE", str(tmp_path / "file" / "kernels"))
    assert usable(fresh())[0]


@needs_c
def test_where_no_library_may_be_loaded_the_portable_backend_runs_it(cache, monkeypatch, calls):
    def load(path):
        raise OSError(f"{path}: failed to map segment from shared object")

    update = fresh()
    monkeypatch.setattr(compiled.ctypes, "CDLL", load)
    name, reason = engine.choose(engine.Problem(update, *HERE))
    assert name == "portable"
    assert "not c: the kernel of the update 'fresh' cannot be loaded: " in reason
    assert "failed to map segment" in reason


@needs_c
def test_a_damaged_file_that_cannot_be_removed_is_left(cache, monkeypatch, calls):
    def unlink(path, missing_ok=False):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    assert usable(fresh())[0]
    (file,) = cache.iterdir()
    file.unlink()  # the process has mapped it
    file.write_bytes(b"damaged")
    monkeypatch.setattr(Path, "unlink", unlink)
    assert usable(fresh())[0]
    assert len(calls) == 2


@needs_c
def test_without_a_compiler_the_portable_backend_runs_it(cache, monkeypatch):
    monkeypatch.setattr(compiled, "_compiler", functools.cache(compiled._compiler.__wrapped__))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(cache))
    name, reason = engine.choose(engine.Problem(fresh(), *HERE))
    assert name == "portable"
    assert "not c: there is no C compiler: install gcc or clang, or name one in CC" in reason
    monkeypatch.setattr(compiled, "_compiler", functools.cache(compiled._compiler.__wrapped__))
    monkeypatch.setenv("CC", "no-such-compiler")
    assert "the C compiler no-such-compiler does not run" in usable(fresh())[1]


@needs_c
def test_the_compilers_error_is_the_reason(cache, monkeypatch, calls):
    monkeypatch.setattr(compiled, "c_source", lambda *arguments: "#error no such update\n")
    able, reason = usable(fresh())
    assert not able
    assert "error: " in reason
    assert "no such update" in reason


@needs_c
def test_what_does_not_compile_is_tried_once(cache, monkeypatch, calls):
    monkeypatch.setattr(compiled, "FLAGS", ("-no-such-flag",))
    update = fresh()
    for _ in range(2):
        able, reason = usable(update)
        assert not able
        assert "the C compiler cannot compile the update 'fresh': " in reason
    assert calls == ["fresh"]
    assert not cache.exists()


@needs_c
@pytest.mark.usefixtures("registered")
def test_threads_do_not_change_a_registered_update():
    random = torch.Generator().manual_seed(0)
    hidden, batch = 40, 50
    state, weight = (
        torch.randn(2, batch, hidden, generator=random),
        torch.randn(hidden, 2 * hidden, generator=random) / 9,
    )
    drive, parameters = torch.randn(60, batch, hidden, generator=random), torch.rand(2, hidden, generator=random)
    found, threads = [], torch.get_num_threads()
    try:
        for number in (1, 3):
            torch.set_num_threads(number)
            found.append(run(drive, state, None, None, weight, parameters, update="undamped", backend="c"))
    finally:
        torch.set_num_threads(threads)
    for one, other in zip(*found, strict=True):
        assert torch.equal(one, other)
