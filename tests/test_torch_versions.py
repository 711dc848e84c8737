"""The fast path, by PyTorch's private interfaces, is taken only with the versions of PyTorch that are tested."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cornn import CoRNN, _torch_private, engine
from cornn._torch_private import TESTED, is_eager, is_tested

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("version", "tested"),
    [
        ("2.10.1", False),
        ("2.11.0", True),
        ("2.12.1+cu130", True),
        ("2.13.0+cpu", True),
        ("2.13.0.dev20260401", True),
        ("2.14.0.dev20261116+cpu", False),
        ("2.14.0a0+git0123abc", False),
        ("3.0.0", False),
        ("3.12.0", False),
    ],
)
def test_versions(version, tested):
    assert is_tested(version) is tested


def test_the_range_is_the_same_everywhere():
    oldest, newest = (".".join(map(str, version)) for version in TESTED)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]
    assert f"torch>={oldest}" in project["dependencies"]  # without an upper bound
    assert re.search(rf"^torch=={re.escape(newest)}\.", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    assert f"{oldest} to {newest}" in (ROOT / "docs/stability.md").read_text(encoding="utf8")
    workflow = (ROOT / ".github/workflows/tests.yml").read_text(encoding="utf8")
    assert f"torch=={oldest}." in workflow


def gradients(layer, input):
    layer.zero_grad()
    output, _ = layer(input)
    output.square().sum().backward()
    return [output, *(parameter.grad.clone() for parameter in layer.parameters())]


@pytest.fixture
def calls(monkeypatch):
    """The calls of the registered operator."""
    seen = []
    registered = engine.recurrence
    monkeypatch.setattr(engine, "recurrence", lambda *arguments: seen.append(arguments) or registered(*arguments))
    return seen


@pytest.mark.parametrize("backend", ["auto", "portable"])
def test_outside_the_range_the_registered_operator_runs(backend, calls, monkeypatch):
    layer, input = CoRNN(3, 8, num_layers=2, backend=backend), torch.randn(9, 4, 3)
    expected = gradients(layer, input)
    assert not calls
    monkeypatch.setattr(_torch_private, "_TESTED_HERE", is_tested("2.99.0"))
    assert not is_eager([input])
    for value, other in zip(gradients(layer, input), expected, strict=True):
        torch.testing.assert_close(value, other, rtol=0, atol=0)
    assert len(calls) == 2


@pytest.mark.slow
def test_a_version_without_the_private_interfaces_works():
    code = """
import torch
import torch.torch_version
torch.__version__ = torch.torch_version.TorchVersion("2.99.0")
for name in ("peek_interpreter_stack", "get_interpreter_stack", "is_legacy_batchedtensor", "maybe_current_level",
             "is_functorch_wrapped_tensor", "TransformType"):
    delattr(torch._C._functorch, name)
from cornn import CoRNN
layer = CoRNN(3, 8, checkpoint_every=4)
output, _ = layer(torch.randn(9, 4, 3), timespans=torch.ones(9, 4))
output.sum().backward()
print(all(parameter.grad is not None for parameter in layer.parameters()))
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("True\n")


def test_private_interfaces_are_in_one_module():
    for path in Path(_torch_private.__file__).parent.rglob("*.py"):
        if path.name != "_torch_private.py":
            assert not re.search(r"torch\._[a-zA-Z]", path.read_text(encoding="utf8")), path


def test_the_dispatcher_is_bypassed_in_the_range(calls):
    class Nothing(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            return function(*args, **kwargs or {})

    layer, input = CoRNN(3, 8), torch.randn(9, 4, 3)
    with torch.no_grad():
        layer(input)
        assert len(calls) == (not is_tested())
        with Nothing():
            layer(input)
    assert len(calls) == 1 + (not is_tested())
