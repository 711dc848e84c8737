"""benchmarks/mutations.py, which measures whether the tests notice changes to the source."""

import ast
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def program(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("mutations")
    monkeypatch.setattr(module, "PACKAGE", tmp_path)
    return module


SOURCE = '''"""Docstring: 1 + 2."""
__all__ = ["f"]

def f(x: int = 3, flag=True) -> int:
    """Not this: 4."""
    if x < 0 and not flag:
        raise ValueError(f"{x + 1} is below 0")
    return 2 * x
'''


def test_every_mutation_changes_one_thing(program, tmp_path):
    (tmp_path / "module.py").write_text(SOURCE)
    found = list(program.mutations_of(tmp_path / "module.py"))
    assert [own.name for own in found] == [
        "module.py:4 3 -> 4",
        "module.py:4 True -> False",
        "module.py:6 And -> Or",
        "module.py:6 Lt -> LtE",
        "module.py:6 0 -> 1",
        "module.py:6 not removed",
        "module.py:8 Mult -> Div",
        "module.py:8 2 -> 3",
    ]
    plain = ast.unparse(ast.parse(SOURCE)).splitlines()
    for own in found:
        changed = program.apply(own, SOURCE).splitlines()
        assert sum(one != other for one, other in zip(plain, changed, strict=True)) == 1


def test_every_module_that_is_mutated_has_tests_that_exist(program):
    for file in (
        "functional.py",
        "engine/op.py",
        "lab/training/fit.py",
        "theory/linear.py",
        "_scaling.py",
        "cli/fit.py",
    ):
        tests = program.tests_of(file)
        assert tests
        assert all((ROOT / name).exists() for name in tests)


def test_equivalent_mutations_do_not_count(program):
    outcomes = ["noticed", "survived", "equivalent", "too slow"]
    found = program.summarise([{"mutation": name, "outcome": name} for name in outcomes])
    assert (found["tried"], found["counted"], found["noticed"], found["survivors"]) == (4, 3, 2, ["survived"])
