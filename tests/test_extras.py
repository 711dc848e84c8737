"""A package that is missing is explained, with the extra that has it."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

import cornn
from cornn._extras import install_command, missing_extra

ROOT = Path(__file__).parents[1]
SOURCE = Path(cornn.__file__).parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]["optional-dependencies"]


def execute(name: str) -> None:
    """Execute a module as if it were imported for the first time."""
    spec = importlib.util.find_spec(name)
    spec.loader.exec_module(importlib.util.module_from_spec(spec))


def read_parquet():
    from cornn.fitting.readers.table import read_parquet

    read_parquet(Path("waves.parquet"))


def read_table():
    from cornn.fitting.readers.table import parse_csv

    parse_csv(Path("a.csv"), "a,b", ",")


def make_report():
    from cornn.plots.pages import check_packages

    check_packages("the report")


def draw():
    from cornn.plots.style import styled

    styled(print)()


def train():
    from cornn.lab.training.fit import connect

    connect(None)


def lock():
    from cornn.lab.runs import Run

    with Run(Path("nowhere")).lock():
        pass


def solve():
    from cornn.lab.tasks import lorenz96

    lorenz96.trajectories(np.zeros((1, 5)), 8.0, 2)


def search():
    from cornn.lab.experiments.run import check_storage
    from cornn.lab.experiments.storage import Storage

    check_storage(Storage("memory"))


CASES = {
    "scikit-learn": ("estimators", "sklearn", lambda: execute("cornn.estimators")),
    "pandas": ("estimators", "pandas", read_table),
    "pyarrow": ("parquet", "pyarrow", read_parquet),
    "Jinja2": ("report", "jinja2", make_report),
    "matplotlib": ("report", "matplotlib", draw),
    "onnx": ("onnx", "onnx", lambda: execute("cornn.export.graph")),
    "onnxruntime": ("onnx", "onnxruntime", lambda: execute("cornn.export.check")),
    "huggingface_hub": ("hub", "huggingface_hub", lambda: execute("cornn.export.hub")),
    "Lightning Fabric": ("lab", "lightning_fabric lightning", train),
    "filelock": ("lab", "filelock", lock),
    "scipy": ("lab", "scipy.integrate", solve),
    "optuna": ("lab", "optuna", search),
}
"""Package -> its extra, the modules to hide, and what needs them. `tests/test_cli.py` has TensorBoard."""


@pytest.mark.parametrize("package", CASES)
def test_a_missing_package_is_explained(package, monkeypatch):
    extra, modules, use = CASES[package]
    for module in modules.split():
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=re.escape(install_command(extra))) as raised:
        use()
    assert package in str(raised.value)
    name = re.split(r"[ _]", package.lower())[0]
    assert any(requirement.lower().startswith(name) for requirement in EXTRAS[extra])


@pytest.mark.parametrize("package", ["tyro", "rich"])
def test_the_program_needs_the_extra_cli(package):
    code = f"import sys; sys.modules['{package}'] = None; from cornn.__main__ import main; main()"
    run = subprocess.run([sys.executable, "-c", code, "doctor"], capture_output=True, text=True)
    assert run.returncode == 2
    assert run.stderr == f"cornn: the command line needs {package}: {install_command('cli')}\n"


def test_the_cuda_backend_names_its_extra(monkeypatch):
    from cornn.engine.backends.cuda import nvrtc

    monkeypatch.setitem(sys.modules, "cuda.core", None)
    assert nvrtc.explain_missing.__wrapped__() == f"cuda-core is not installed: {install_command('cuda')}"


def test_all_messages_come_from_one_place():
    found = set()
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf8")
        if path.name != "_extras.py":
            assert "cornn[" not in text, path
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("missing_extra", "install_command"):
                found.update(argument.value for argument in node.args[:1] if isinstance(argument, ast.Constant))
    assert found == {*EXTRAS} - {"all", "dev", "docs", "release", "search", "test"}


def test_the_message_works_before_and_after_a_release():
    assert str(missing_extra("hub", "the hub needs huggingface_hub", "or save the model to a folder")) == (
        'the hub needs huggingface_hub: pip install "cornn[hub]" (in a clone: pip install ".[hub]"), '
        "or save the model to a folder"
    )


def test_the_extra_all_is_everything_for_users():
    (everything,) = EXTRAS["all"]
    named = set(re.search(r"\[(.*)\]", everything)[1].split(","))
    assert named | {"cli"} == {*EXTRAS} - {"all", "dev", "docs", "release", "search", "test"}
    assert "cornn[cli]" in EXTRAS["lab"]
