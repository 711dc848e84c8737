"""benchmarks/mutations.py, which measures whether the tests notice changes to the source."""

import ast
import importlib
import json
import os
import shutil
import sys
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


def test_equivalent_mutations_do_not_count(program, monkeypatch):
    monkeypatch.setattr(program, "EQUIVALENT", {"a.py: 1 -> 2: x = 1": "it is not used"})
    rows = [("b.py:3 1 -> 2", "x = 1", "survived"), ("a.py:7 1 -> 2", "x = 1", "survived")]
    rows += [("a.py:1 Add -> Sub", "y + 1", outcome) for outcome in ("noticed", "too slow")]
    found = program.summarise([dict(zip(("mutation", "code", "outcome"), row, strict=True)) for row in rows])
    assert (found["tried"], found["counted"], found["noticed"], found["survivors"]) == (4, 3, 2, ["b.py:3 1 -> 2"])
    assert found["rows"][1]["why"] == "it is not used"


def test_equivalent_mutations_exist(monkeypatch):
    """With the line of code that was looked at."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    program = importlib.import_module("mutations")
    for key in program.EQUIVALENT:
        file, what, code = key.split(": ", 2)
        mutations = program.mutations_of(program.PACKAGE / file)
        assert any((mutation.what, mutation.code) == (what, code) for mutation in mutations), key


def test_a_mutation_is_found_after_its_line_has_moved(program):
    lines = [
        ("a.py", 9, "x = 1"),
        ("a.py", 30, "x = 1,"),
        ("b.py", 3, "y = 1"),
        ("b.py", 5, "z = 1"),
        ("c.py", 5, "z = 1"),
    ]
    known = [program.Mutation(file, line, 0, "1 -> 2", code, None) for file, line, code in lines]

    def find(name, code):
        found = program.find_again({"mutation": name, "code": code}, known)
        return found and found.name

    assert find("a.py:7 1 -> 2", "x = 1") == "a.py:9 1 -> 2"
    assert find("a.py:25 1 -> 2", "x = 1") == "a.py:30 1 -> 2"
    assert find("a.py:3 1 -> 2", "y = 1") == "b.py:3 1 -> 2"
    assert find("a.py:3 1 -> 2", "z = 1") is None  # in two other files
    assert find("b.py:3 2 -> 3", "y = 1") is None


def test_of_mutations_with_the_same_name_every_one_is_tried(program):
    drawn = [program.Mutation("a.py", 1, number, "1 -> 2", "f(1, 1)", None) for number in (3, 5)]
    assert program.remaining(drawn, []) == drawn
    assert program.remaining(drawn, [{"mutation": "a.py:1 1 -> 2"}]) == drawn[1:]
    assert program.remaining(drawn, 2 * [{"mutation": "a.py:1 1 -> 2"}]) == []


@pytest.mark.slow
def test_a_run_passes_over_failing_tests_ends_in_time_and_is_continued(program, tmp_path, monkeypatch, capsys):
    package, tests = tmp_path / "src" / "cornn", tmp_path / "tests"
    for folder in (package, tests, tmp_path / "benchmarks"):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "benchmarks" / "calls_of_tests.py", tmp_path / "benchmarks")
    (package / "__init__.py").touch()
    (package / "module.py").write_text("def f(x):\n    return 2 * x\n\ndef g(x):\n    return x + 1\n")
    (tests / "test_module.py").write_text(
        "from vendored import two\nfrom cornn.module import f, g\n\ndef test_f():\n    assert f(two) == 4\n\n"
        "def test_g():\n    assert g(1) and False\n"
    )
    (tests / "test_uncollectable.py").write_text("import there_is_no_such_module\n")
    (tmp_path / ".vendor").mkdir()
    (tmp_path / ".vendor" / "vendored.py").write_text("two = 2\n")
    monkeypatch.setattr(program, "ROOT", tmp_path)
    monkeypatch.setattr(program, "PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", f"src{os.pathsep}.vendor")
    monkeypatch.setenv("PATH", str(tmp_path))  # without git

    def run(*options):
        given = ["--baseline", "baseline.json", "--out", "record.json", "--workers", "2", *options]
        monkeypatch.setattr(sys, "argv", ["mutations.py", *given])
        program.main()
        return json.loads((tmp_path / "record.json").read_text())

    with pytest.raises(SystemExit, match="the time ended after 0 files of tests"):
        run("--seconds", "0")
    # One of four mutations is decided, as if the time had ended then.
    found = run("--sample", "1")
    assert "test_module.py fail" in capsys.readouterr().out
    known = json.loads((tmp_path / "baseline.json").read_text())
    assert known["failed"] == known["files"] == ["tests/test_module.py", "tests/test_uncollectable.py"]
    assert [*known["seconds"]] == ["tests/test_module.py::test_f"]
    assert found["tried"] == 1
    first = found["rows"][0]
    found = run("--sample", "4")
    assert found["rows"][0] == first
    assert {row["mutation"].split(":")[1]: row["outcome"] for row in found["rows"]} == {
        "2 Mult -> Div": "noticed",
        "2 2 -> 3": "noticed",
        "5 Add -> Sub": "survived",
        "5 1 -> 2": "survived",
    }
    assert {row["by"] for row in found["rows"]} == {"tests/test_module.py::test_f", ""}
    assert "noticed_at_first" not in found
    (tests / "test_new.py").write_text("from cornn.module import g\n\ndef test_g():\n    assert g(1) == 2\n")
    found = run("--again", "--tests", "tests/test_new.py", "tests/there_is_none.py")
    assert (found["noticed"], found["noticed_at_first"]) == (4, 2)
