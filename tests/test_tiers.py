"""The tiers: which module may import which, what the layer alone needs, and how long the import takes."""

import ast
import functools
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import cornn

SOURCE = Path(cornn.__file__).parent

# A module may import from its own tier or a lower one. Private helpers (names with an underscore) are in the lowest.
TIERS = [
    ["functional", "engine"],
    ["cells", "layers", "baselines", "models", "streaming", "__init__"],
    ["theory", "plots", "forecasting", "estimators", "fitting", "export", "artifacts", "saved_models"],
    ["lab"],
    ["cli", "__main__"],
]
TIER = {name: number for number, names in enumerate(TIERS) for name in names}

EXCEPTIONS = {
    # Imported on first access.
    "__init__ -> theory",
    "__init__ -> estimators",
}


@functools.cache
def modules() -> dict[str, Path]:
    """Dotted name, without "cornn.", of every module -> its file; a package is `name.__init__`."""
    return {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in SOURCE.rglob("*.py")}


def tier(module: str) -> int:
    first = module.split(".")[0]
    return 0 if first.startswith("_") and not first.startswith("__") else TIER[first]


@functools.cache
def imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, lazily or not."""
    known, found = modules(), set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "cornn":
            # What is imported is a module of its own, or a name in one.
            names = [(f"{node.module}.{alias.name}", node.module) for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [(alias.name, alias.name) for alias in node.names if alias.name.split(".")[0] == "cornn"]
        for module, parent in names:
            for name in (module, parent):
                short = name.removeprefix("cornn").removeprefix(".")
                match = next((one for one in (short, f"{short}.__init__".removeprefix(".")) if one in known), None)
                if match is not None:
                    found.add(match)
                    break
    return found


def test_modules_import_from_their_own_tier_or_a_lower_one():
    for module, path in modules().items():
        for other in imports(path):
            shown = f"{module} -> {other.removesuffix('.__init__')}"
            assert tier(other) <= tier(module) or shown in EXCEPTIONS, shown


def test_there_are_no_import_cycles():
    """Between modules. A package's `__init__` and the modules it re-exports do not count as one."""
    graph = {
        module: {other for other in imports(path) if not other.endswith("__init__")}
        for module, path in modules().items()
        if not module.endswith("__init__")
    }
    TopologicalSorter(graph).prepare()


@pytest.fixture(scope="module")
def loaded():
    """The modules that the layer alone has loaded in a process of its own."""
    code = "import json, sys, cornn; cornn.SequenceModel, cornn.functional; found = list(sys.modules); "
    code += "assert {'estimators', 'theory'} <= set(dir(cornn)); "
    code += "cornn.theory.suggest; print(json.dumps(found))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_layer_does_not_import_the_laboratory(loaded):
    assert not [name for name in loaded if name.startswith("cornn.lab")]


def test_the_bare_layer_needs_nothing_of_the_laboratory(loaded):
    optional = {
        "lightning_fabric",
        "tyro",
        "rich",
        "scipy",
        "beartype",
        "matplotlib",
        "optuna",
        "cuda.core",
        "sklearn",
        "pandas",
        "pyarrow",
        "onnx",
        "huggingface_hub",
    }
    assert not optional & loaded


def test_the_import_loads_no_compiler(loaded):
    """It takes a second, and whoever compiles a model loads it anyway."""
    assert not {"torch._dynamo", "sympy"} & loaded


def test_theory_and_estimators_are_imported_on_access(loaded, monkeypatch):
    assert "cornn.models" in loaded
    assert not {"cornn.theory", "cornn.estimators"} & loaded
    monkeypatch.delattr(cornn, "estimators", raising=False)
    assert cornn.estimators.CoRNNClassifier.__module__.startswith("cornn.estimators")
    assert not hasattr(cornn, "no_such_name")


def test_the_public_surface_is_documented():
    for name in cornn.__all__:
        assert name.startswith("__") or getattr(cornn, name).__doc__, name
