"""Change one thing in the source at a time, and see whether the tests notice.

    python benchmarks/mutations.py --sample 300 --seconds 3600      # writes results/mutations.json
    python benchmarks/mutations.py --only functional.py --sample 20 --out /tmp/mutations.json
    python benchmarks/mutations.py --list                           # all changes that a sample is drawn from

A mutation changes an operator, a comparison, a number, a boolean or a condition in a copy of the repository. The tests
that mirror the changed module run until the first failure: tests/PACKAGE/test_MODULE*.py, or the table TESTS below. A
mutation that no test notices is written with its line, to be closed by a test or listed as equivalent in EQUIVALENT.
"""

import argparse
import ast
import copy
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cornn._source import source

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "cornn"
LEFT_OUT = {".git", ".venv", "build", "dist", "runs", "results", ".data", "__pycache__"}

TESTS = {
    "_scaling.py": ["tests/test_default.py"],
    "_constants.py": ["tests/test_layers.py"],
    "_random.py": ["tests/test_layers.py", "tests/test_models.py"],
    "_stacking.py": ["tests/test_layers.py", "tests/test_contract.py"],
    "layers.py": ["tests/test_layers.py", "tests/test_default.py"],
    "functional.py": ["tests/test_functional.py", "tests/test_layers.py"],
    "engine": ["tests/engine/test_engine.py", "tests/engine/test_c.py", "tests/engine/test_precision.py"],
    "baselines": ["tests/baselines", "tests/test_contract.py"],
    "theory": ["tests/theory"],
    "estimators": ["tests/estimators"],
    "forecasting": ["tests/forecasting", "tests/estimators/test_forecasting.py"],
    "fitting": ["tests/fitting"],
    "export": ["tests/export"],
    "plots": ["tests/plots"],
    "lab/data": ["tests/lab/data"],
    "lab/tasks": ["tests/lab/tasks"],
    "lab/training": ["tests/lab/training"],
    "lab/experiments": ["tests/lab/experiments"],
    "lab/report": ["tests/lab/report"],
    "lab/bench": ["tests/lab/bench"],
    "lab": ["tests/lab/test_records.py", "tests/lab/test_recipes.py", "tests/lab/test_runs.py"],
    "cli": ["tests/test_cli.py", "tests/test_doctor.py"],
}
"""Module or folder of the package -> tests that mirror it, after tests/test_MODULE.py; the longest match counts."""

EQUIVALENT: dict[str, str] = {}
"""Mutation, as the record names it -> why no test can notice it."""

SWAPS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.And: ast.Or,
    ast.Or: ast.And,
}


class Mutation(NamedTuple):
    file: str  # under src/cornn
    line: int
    number: int  # of the node in the file
    what: str

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.what}"


def _swap(node: ast.AST) -> tuple[ast.AST, str] | None:
    """Return a changed copy of a node and what was changed; None if there is nothing to change."""
    new = copy.deepcopy(node)
    if isinstance(new, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(new.op) in SWAPS:
        if isinstance(new, ast.BinOp) and any(
            isinstance(side, ast.Constant | ast.JoinedStr) and not isinstance(getattr(side, "value", None), int | float)
            for side in (new.left, new.right)
        ):
            return None  # texts
        before = type(new.op).__name__
        new.op = SWAPS[type(new.op)]()
        return new, f"{before} -> {type(new.op).__name__}"
    if isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
        before = type(new.ops[0]).__name__
        new.ops[0] = SWAPS[type(new.ops[0])]()
        return new, f"{before} -> {type(new.ops[0]).__name__}"
    if isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
        return new, f"{not new.value} -> {new.value}"
    if isinstance(new, ast.Constant) and isinstance(new.value, int | float) and not isinstance(new.value, complex):
        before = new.value
        new.value = before + 1 if isinstance(before, int) else before * 1.5 + (before == 0)
        return new, f"{before} -> {new.value}"
    if isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        return new.operand, "not removed"
    return None


def _nodes(tree: ast.AST) -> list[tuple[ast.AST, str, int | None, ast.AST]]:
    """List (parent, field, index, node) in order, without docstrings, annotations, `__all__` and messages of errors."""
    found = []

    def visit(node: ast.AST) -> None:
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list") or isinstance(node, ast.Raise | ast.Assert):
                continue
            for index, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                if not isinstance(child, ast.AST):
                    continue
                if isinstance(child, ast.Assign) and any(
                    isinstance(t, ast.Name) and t.id == "__all__" for t in child.targets
                ):
                    continue
                if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                    continue
                found.append((node, field, index, child))
                visit(child)

    visit(tree)
    return found


def mutations_of(path: Path) -> Iterator[Mutation]:
    """List the mutations of a file."""
    for number, (_, _, _, node) in enumerate(_nodes(ast.parse(path.read_text(encoding="utf8")))):
        swapped = _swap(node)
        if swapped is not None:
            yield Mutation(path.relative_to(PACKAGE).as_posix(), getattr(node, "lineno", 0), number, swapped[1])


def apply(mutation: Mutation, text: str) -> str:
    """Return the source with the mutation."""
    tree = ast.parse(text)
    parent, field, index, node = _nodes(tree)[mutation.number]
    swapped = _swap(node)
    assert swapped is not None
    if index is None:
        setattr(parent, field, swapped[0])
    else:
        getattr(parent, field)[index] = swapped[0]
    return ast.unparse(ast.fix_missing_locations(tree))


def tests_of(file: str) -> list[str]:
    """Return the tests that mirror a module."""
    path = Path(file)
    own = [ROOT / "tests" / path.parent / f"test_{path.stem}.py", ROOT / "tests" / f"test_{path.stem}.py"]
    for place in [path.as_posix(), *(parent.as_posix() for parent in path.parents)]:
        if place in TESTS:
            there = [name for name in TESTS[place] if (ROOT / name).exists()]
            return there + [
                str(p.relative_to(ROOT))
                for p in own
                if p.exists() and not any(str(p.relative_to(ROOT)).startswith(name) for name in there)
            ]
    return [str(p.relative_to(ROOT)) for p in own if p.exists()]


def run_tests(room: Path, tests: list[str], seconds: float) -> str:
    """Return "noticed", "survived", or "too slow", which counts as noticed."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    variables = os.environ | {"PYTHONPATH": str(room / "src"), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(command, cwd=room, env=variables, capture_output=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return "too slow"
    return {0: "survived", 5: "no tests"}.get(done.returncode, "noticed")


def summarise(rows: list[dict]) -> dict:
    """Return the content of the record."""
    counted = [row for row in rows if row["outcome"] != "equivalent"]
    return {
        "what": "single changes to the source, and whether the tests that mirror the changed module notice",
        **source(),
        "tried": len(rows),
        "equivalent": len(rows) - len(counted),
        "counted": len(counted),
        "noticed": sum(row["outcome"] in ("noticed", "too slow") for row in counted),
        "survivors": [row["mutation"] for row in counted if row["outcome"] in ("survived", "no tests")],
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="paths under src/cornn that begin so")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no test run after this time")
    parser.add_argument("--limit", type=float, default=600, help="seconds of one test run")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutations.json")
    parser.add_argument("--list", action="store_true", help="print all mutations and stop")
    options = parser.parse_args()
    files = sorted(PACKAGE.rglob("*.py"))
    known = [own for path in files for own in mutations_of(path) if own.file.startswith(options.only)]
    known = [own for own in known if tests_of(own.file)]
    if options.list:
        print("\n".join(own.name for own in known))
        return
    chosen = random.Random(options.seed).sample(known, min(options.sample, len(known)))
    # A record of the same sample is continued. Its rows keep their outcome although the source may have changed since.
    before = json.loads(options.out.read_text(encoding="utf8")) if options.out.exists() else {"rows": []}
    done = {row["mutation"] for row in before["rows"]}
    began, rows = time.monotonic(), before["rows"]
    with tempfile.TemporaryDirectory() as folder:
        room = Path(folder) / "room"
        shutil.copytree(ROOT, room, ignore=lambda _, names: LEFT_OUT & {*names})
        for own in (own for own in chosen if own.name not in done):
            if time.monotonic() - began > options.seconds:
                break
            path = room / "src" / "cornn" / own.file
            text = path.read_text(encoding="utf8")
            path.write_text(apply(own, text), encoding="utf8")
            outcome = run_tests(room, tests_of(own.file), options.limit)
            path.write_text(text, encoding="utf8")
            if outcome == "survived" and own.name in EQUIVALENT:
                outcome = "equivalent"
            rows.append({"mutation": own.name, "outcome": outcome})
            print(outcome, own.name, flush=True)
            content = {"seed": options.seed, "sample": len(chosen), "of": len(known), **summarise(rows)}
            options.out.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")
    print("{noticed} of {counted} noticed".format_map(summarise(rows)))


if __name__ == "__main__":
    main()
