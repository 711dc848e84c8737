"""Change one thing in the source at a time, and check whether the tests notice.

    python benchmarks/mutations.py --sample 300 --workers 2         # writes results/mutations.json
    python benchmarks/mutations.py --only functional.py --sample 20 --out /tmp/mutations.json
    python benchmarks/mutations.py --again                          # the survivors of the record, against newer tests
    python benchmarks/mutations.py --list                           # all changes that a sample is drawn from

A mutation changes an operator, a comparison, a number, a boolean or a condition. Every worker has a copy of the
repository. First the tests run on the unchanged source: those that fail here are reported and left out, and for the
others it is recorded which functions they call and how long they take. `--baseline` keeps this for the next time, also
of only some of the test files if the time ends. Then
the tests that call the changed function run until the first failure, those that mirror the module first
(tests/PACKAGE/test_MODULE*.py, or the table TESTS below), then the shortest; for code outside functions those that
mirror the module. A mutation that no test notices is written with its line, to be closed by a test or listed as
equivalent in equivalent_mutations.json. The record is written after every mutation and continued when the program is
started again.

Without an installation, `PYTHONPATH=src python benchmarks/mutations.py` works too, also without git; the commit is then
read from the stamp that `python tools/stamp.py` has written.
"""

import argparse
import ast
import contextlib
import copy
import functools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from cornn._source import source

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "cornn"
LEFT_OUT = {".git", ".venv", ".vendor", "build", "dist", "runs", "results", "shared", ".data", "__pycache__"}

TESTS = {
    "_scaling.py": ["tests/test_default.py"],
    "_constants.py": ["tests/test_layers.py"],
    "_random.py": ["tests/test_layers.py", "tests/test_models.py"],
    "_stacking.py": ["tests/test_layers.py", "tests/test_contract.py"],
    "_layer_arguments.py": ["tests/test_layers.py", "tests/test_contract.py"],
    "_initialisation.py": ["tests/test_layers.py", "tests/test_default.py"],
    "cells.py": ["tests/test_layers.py", "tests/test_contract.py"],
    "layers.py": ["tests/test_layers.py", "tests/test_default.py"],
    "saved_models.py": ["tests/test_saved_models.py", "tests/test_artifacts.py"],
    "_activations.py": ["tests/test_functional.py", "tests/test_layers.py"],
    "functional.py": ["tests/test_functional.py", "tests/test_layers.py"],
    "engine": ["tests/engine/test_engine.py", "tests/engine/test_c.py", "tests/engine/test_precision.py"],
    "engine/bank_data.py": ["tests/engine/test_bank_engine.py"],
    "engine/bank_portable.py": ["tests/engine/test_bank_engine.py"],
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
    "lab/experiments": ["tests/lab/experiments", "tests/lab/test_settings.py"],
    "lab/report": ["tests/lab/report", "tests/lab/test_settings.py"],
    "lab/bench": ["tests/lab/bench", "tests/lab/test_settings.py"],
    "lab/recipes": ["tests/lab/test_settings.py", "tests/lab/test_recipes.py"],
    "lab/intervals.py": ["tests/lab/test_intervals.py"],
    "lab/model_specs.py": ["tests/lab/test_config.py"],
    "lab": ["tests/lab/test_records.py", "tests/lab/test_settings.py", "tests/lab/test_runs.py"],
    "cli": ["tests/test_cli.py", "tests/test_doctor.py"],
}
"""Module or folder of the package -> tests that mirror it, after tests/test_MODULE.py; the longest match counts."""

UNTESTED = {"gpu", "test_mutations.py", "test_docs_site.py"}
"""Tests that are left out: they need a GPU, or know nothing of the source."""

EQUIVALENT = {
    key: kind
    for kind, listed in json.loads(
        (ROOT / "benchmarks" / "equivalent_mutations.json").read_text(encoding="utf8")
    ).items()
    for key in listed
}
"""FILE: CHANGE: LINE OF CODE -> the kind of reason why no test here can notice it; the file has the reason itself."""

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


FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef


class Mutation(NamedTuple):
    file: str  # under src/cornn
    line: int
    number: int  # of the node in the file
    what: str
    code: str  # the line
    function: int | None  # the function that it is in, as a position in `function_lines`; None: outside functions

    @property
    def name(self) -> str:
        return f"{self.file}:{self.line} {self.what}"


class Baseline(NamedTuple):
    """The result of the tests on the unchanged source."""

    seconds: dict[str, float]  # of every test that passes, on the processor
    callers: dict[str, list[str]]  # "FILE:POSITION" of a function -> the tests that call it
    failed: list[str]  # files of which some tests fail
    files: list[str]  # that have run


def _swap(node: ast.AST) -> tuple[ast.AST, str] | None:
    """Return a changed copy of a node and what was changed; None if there is nothing to change."""
    new = copy.copy(node)
    if isinstance(new, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(new.op) in SWAPS:
        if isinstance(new, ast.BinOp) and any(
            isinstance(side, ast.Constant | ast.JoinedStr) and not isinstance(getattr(side, "value", None), int | float)
            for side in (new.left, new.right)
        ):
            return None  # texts
        operator = type(new.op).__name__
        new.op = SWAPS[type(new.op)]()
        return new, f"{operator} -> {type(new.op).__name__}"
    if isinstance(new, ast.Compare) and type(new.ops[0]) in SWAPS:
        operator = type(new.ops[0]).__name__
        new.ops = [SWAPS[type(new.ops[0])](), *new.ops[1:]]
        return new, f"{operator} -> {type(new.ops[0]).__name__}"
    if isinstance(new, ast.Constant) and isinstance(new.value, bool):
        new.value = not new.value
        return new, f"{not new.value} -> {new.value}"
    if isinstance(new, ast.Constant) and isinstance(new.value, int | float) and not isinstance(new.value, complex):
        operator = new.value
        new.value = operator + 1 if isinstance(operator, int) else operator * 1.5 + (operator == 0)
        return new, f"{operator} -> {new.value}"
    if isinstance(new, ast.UnaryOp) and isinstance(new.op, ast.Not):
        return new.operand, "not removed"
    return None


def _list_nodes(tree: ast.AST) -> list[tuple[ast.AST, str, int | None, ast.AST]]:
    """List (parent, field, index, node) in order, without docstrings, annotations, `__all__` and messages of errors."""
    nodes = []

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
                nodes.append((node, field, index, child))
                visit(child)

    visit(tree)
    return nodes


def function_lines(tree: ast.AST) -> list[int]:
    """Return the first line of every function in order, that of its first decorator if it has some."""
    return [_find_first_line(node) for node in ast.walk(tree) if isinstance(node, FUNCTIONS)]


def _find_first_line(node: ast.AST) -> int:
    return min(getattr(part, "lineno", 0) for part in [node, *getattr(node, "decorator_list", [])])


def mutations_of(path: Path) -> Iterator[Mutation]:
    """List the mutations of a file."""
    text = path.read_text(encoding="utf8")
    tree, lines = ast.parse(text), text.splitlines()
    positions = {id(function): k for k, function in enumerate(n for n in ast.walk(tree) if isinstance(n, FUNCTIONS))}
    inside: dict[int, int | None] = {id(tree): None}
    for number, (parent, _, _, node) in enumerate(_list_nodes(tree)):
        inside[id(node)] = positions.get(id(node), inside[id(parent)])
        swapped = _swap(node)
        if swapped is not None:
            line = getattr(node, "lineno", 0)
            file = path.relative_to(PACKAGE).as_posix()
            yield Mutation(file, line, number, swapped[1], lines[line - 1].strip(), inside[id(node)])


def apply(mutation: Mutation, text: str) -> str:
    """Return the source with the mutation."""
    tree = ast.parse(text)
    parent, field, index, node = _list_nodes(tree)[mutation.number]
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
    name = f"test_{path.stem.removeprefix('_')}.py"
    candidates = [ROOT / "tests" / path.parent / name, ROOT / "tests" / name]
    for place in [path.as_posix(), *(parent.as_posix() for parent in path.parents)]:
        if place in TESTS:
            present = [name for name in TESTS[place] if (ROOT / name).exists()]
            return present + [
                str(p.relative_to(ROOT))
                for p in candidates
                if p.exists() and not any(str(p.relative_to(ROOT)).startswith(name) for name in present)
            ]
    return [str(p.relative_to(ROOT)) for p in candidates if p.exists()]


def _search_path(room: Path) -> str:
    """Return PYTHONPATH for a copy of the repository: its own source, then absolute paths, for tests that chdir."""
    paths = [Path(entry).resolve() for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    others = [path for path in paths if path not in (ROOT / "src", ROOT / "benchmarks")]
    return os.pathsep.join(map(str, [room / "src", room / "benchmarks", *others]))


def _run_pytest(room: Path, tests: list[str], seconds: float, *options: str, **variables: str) -> int | None:
    """Run pytest in a copy of the repository, without a GPU; return its exit code, or None after `seconds`."""
    list_of_tests = room / "tests-to-run"
    list_of_tests.write_text("\n".join(tests), encoding="utf8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, f"@{list_of_tests}"]
    fixed = {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1", "CUDA_VISIBLE_DEVICES": ""}
    environment = {"PYTHONPATH": _search_path(room), "TMPDIR": str(room.parent)}
    with (room / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=room,
            env=os.environ | fixed | environment | variables,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # with what a test has started
        process.wait()


def _find_failure(room: Path) -> str:
    """Return the test that failed in the last run, or the last line of its output."""
    lines = (room / "output").read_text(encoding="utf8", errors="replace").splitlines()
    named = (line.split()[1] for line in lines if line.startswith(("FAILED ", "ERROR ")) and len(line.split()) > 1)
    return next(named, "".join(lines[-1:]))


def make_room(folder: Path) -> Path:
    """Copy the repository. Sources are written as mutations are: without comments, lines broken differently."""
    room = folder / "room"
    shutil.copytree(ROOT, room, ignore=lambda _, names: LEFT_OUT & {*names})
    if (ROOT / "results").exists():
        (room / "results").symlink_to(ROOT / "results")
    for path in (room / "src" / "cornn").rglob("*.py"):
        path.write_text(ast.unparse(ast.parse(path.read_text(encoding="utf8"))), encoding="utf8")
    return room


def run_baseline(
    rooms: list[Path],
    work: Callable[[Callable, list], None],
    left: Callable[[], float],
    only: list[str],
    known: Baseline,
) -> Baseline:
    """Run the tests that `known` does not have on the unchanged source, file by file, the largest first."""
    files = sorted(rooms[0].glob("tests/**/test_*.py"), key=lambda path: -path.stat().st_size)
    names = [name for path in files if (name := path.relative_to(rooms[0]).as_posix()).split("/")[1] not in UNTESTED]
    names = [name for name in names if name.startswith(tuple(only)) and name not in known.files]
    lines, failed, finished = [], [], []

    def run(room: Path, name: str) -> None:
        out = room.parent / "calls"
        out.unlink(missing_ok=True)
        variables = {"CALLS_OF_TESTS": str(out), "CALLS_OF_TESTS_ROOT": str(room / "src" / "cornn")}
        code = _run_pytest(room, [name], left(), "-p", "calls_of_tests", **variables)
        if code is None and left() <= 0:
            return  # stopped by the end of the time
        if code not in (0, 5):
            failed.append(name)
            why = f"some tests of {name} fail, first {_find_failure(room)}" if code else f"{name} takes too long"
            print(f"on the unchanged source {why}", flush=True)
        lines.extend(out.read_text(encoding="utf8").splitlines() if out.exists() else [])
        finished.append(name)

    work(run, names)
    positions = {}
    for path in (rooms[0] / "src" / "cornn").rglob("*.py"):
        file = path.relative_to(rooms[0] / "src" / "cornn").as_posix()
        for position, line in enumerate(function_lines(ast.parse(path.read_text(encoding="utf8")))):
            positions[f"{file}:{line}"] = f"{file}:{position}"
    seconds, callers = dict(known.seconds), {name: [*tests] for name, tests in known.callers.items()}
    for test, _, processor, called in map(json.loads, lines):
        seconds[test] = processor
        for name in {
            positions[function] for function in called if function in positions
        }:  # without lambdas and comprehensions
            callers.setdefault(name, []).append(test)
    return Baseline(seconds, callers, sorted({*known.failed, *failed}), sorted({*known.files, *finished}))


def choose_tests(mutation: Mutation, baseline: Baseline, budget: float) -> list[str]:
    """Return the tests for a mutation, in order, that together take about `budget` seconds."""
    mirrors = tuple(tests_of(mutation.file))
    callers = baseline.callers.get(f"{mutation.file}:{mutation.function}", [])
    if not callers:
        callers = [test for test in baseline.seconds if test.startswith(mirrors)] if mirrors else []
    selected, total = [], 0.0
    for test in sorted(callers, key=lambda test: (not (mirrors and test.startswith(mirrors)), baseline.seconds[test])):
        if selected and total + baseline.seconds[test] > budget:
            break
        selected.append(test)
        total += baseline.seconds[test]
    return selected


def remaining(sample: list[Mutation], rows: list[dict]) -> list[Mutation]:
    """Return the mutations that have no row yet. Several on one line may have the same name."""
    counts, left = Counter(row["mutation"] for row in rows), []
    for mutation in sample:
        if counts[mutation.name] <= 0:
            left.append(mutation)
        counts[mutation.name] -= 1
    return left


def find_again(row: dict, known: list[Mutation]) -> Mutation | None:
    """Return the mutation of a row in the source as it is now, or None.

    It is the nearest in its file with the same change and line of code, or the only one in another file. A comma at the
    end of the line does not count.
    """
    file, rest = row["mutation"].split(":", 1)
    line, what = rest.split(" ", 1)
    candidates = [
        candidate
        for candidate in known
        if (candidate.what, candidate.code.rstrip(",")) == (what, row["code"].rstrip(","))
    ]
    in_file = [candidate for candidate in candidates if candidate.file == file]
    if not in_file and len(candidates) == 1:
        return candidates[0]
    return min(in_file, key=lambda candidate: abs(candidate.line - int(line)), default=None)


@functools.cache
def _source() -> dict:
    return source()


def count_noticed(rows: list[dict]) -> int:
    """Count the mutations that some test noticed."""
    return sum(row["outcome"] in ("noticed", "too slow") for row in rows)


def summarise(rows: list[dict]) -> dict:
    """Return the content of the record."""
    for row in rows:
        file, _, what = row["mutation"].partition(":")
        kind = EQUIVALENT.get(f"{file}: {what.partition(' ')[2]}: {row['code']}")
        if kind is not None and row["outcome"] in ("survived", "no tests", "equivalent"):
            row |= {"outcome": "equivalent", "why": kind}
    counted = [row for row in rows if row["outcome"] != "equivalent"]
    return {
        "what": "single changes to the source, and whether the tests notice",
        **_source(),
        "tried": len(rows),
        "equivalent": len(rows) - len(counted),
        "counted": len(counted),
        "noticed": count_noticed(counted),
        "survivors": [row["mutation"] for row in counted if row["outcome"] in ("survived", "no tests")],
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="paths under src/cornn that begin so")
    parser.add_argument("--workers", type=int, default=1, help="copies of the repository that run tests side by side")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after this time")
    parser.add_argument("--limit", type=float, default=600, help="seconds of one test run")
    parser.add_argument(
        "--budget", type=float, default=120, help="seconds that the tests of one mutation take unchanged"
    )
    parser.add_argument("--baseline", type=Path, help="file with the tests on the unchanged source; written if missing")
    parser.add_argument("--tests", nargs="+", default=[""], help="only the tests whose paths begin so")
    parser.add_argument("--again", action="store_true", help="try the survivors of the record again")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutations.json")
    parser.add_argument("--list", action="store_true", help="print all mutations and stop")
    options = parser.parse_args()
    end = time.monotonic() + options.seconds
    files = sorted(PACKAGE.rglob("*.py"))
    mutations = [
        mutation for path in files for mutation in mutations_of(path) if mutation.file.startswith(options.only)
    ]
    if options.list:
        print("\n".join(mutation.name for mutation in mutations))
        return
    # A record of the same sample is continued. Its rows keep their outcome although the source may have changed since.
    record_before: dict = json.loads(options.out.read_text(encoding="utf8")) if options.out.exists() else {"rows": []}
    rows = record_before["rows"]
    if options.again:
        record_before.setdefault("noticed_at_first", count_noticed(rows))
        summarise(rows)  # what is listed as equivalent is not tried
        open_rows = [row for row in rows if row["outcome"] in ("survived", "no tests")]
        jobs = [(mutation, row) for row in open_rows if (mutation := find_again(row, mutations))]
        print(f"{len(open_rows) - len(jobs)} of {len(open_rows)} survivors are no longer in the source", flush=True)
    else:
        sample = random.Random(options.seed).sample(mutations, min(options.sample, len(mutations)))
        jobs = [(mutation, None) for mutation in remaining(sample, rows)]
        record_before |= {"seed": options.seed, "sample": len(sample), "of": len(mutations)}
    lock = threading.Lock()

    def write() -> None:
        settings = {
            key: record_before[key] for key in ("seed", "sample", "of", "noticed_at_first") if key in record_before
        }
        options.out.write_text(json.dumps(settings | summarise(rows), indent=1) + "\n", encoding="utf8")

    def left() -> float:
        return min(options.limit, end - time.monotonic())

    with (
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        ThreadPoolExecutor(options.workers) as pool,
    ):

        def prepare(number: int) -> Path:
            place = Path(folder) / str(number)
            place.mkdir()
            return make_room(place)

        rooms = list(pool.map(prepare, range(options.workers)))

        def work(task: Callable, items: list) -> None:
            waiting = iter(items)

            def serve(room: Path) -> None:
                while left() > 0:
                    with lock:
                        item = next(waiting, None)
                    if item is None:
                        return
                    task(room, item)

            list(pool.map(serve, rooms))

        baseline = Baseline({}, {}, [], [])
        if options.baseline and options.baseline.exists():
            baseline = Baseline(**json.loads(options.baseline.read_text(encoding="utf8")))
        baseline = run_baseline(rooms, work, left, options.tests, baseline)
        if options.baseline:
            options.baseline.write_text(json.dumps(baseline._asdict()) + "\n", encoding="utf8")
        if left() <= 0:
            sys.exit(f"the time ended after {len(baseline.files)} files of tests on the unchanged source")
        print(f"{len(baseline.seconds)} tests pass on the unchanged source", flush=True)

        def attempt(room: Path, item: tuple[Mutation, dict | None]) -> None:
            mutation, row = item
            tests = choose_tests(mutation, baseline, options.budget)
            path = room / "src" / "cornn" / mutation.file
            unchanged = path.read_text(encoding="utf8")
            path.write_text(apply(mutation, (PACKAGE / mutation.file).read_text(encoding="utf8")), encoding="utf8")
            begin = time.monotonic()
            code = _run_pytest(room, tests, left(), "-x") if tests else 5
            path.write_text(unchanged, encoding="utf8")
            if code is None and left() <= 0:
                return  # stopped by the end of the time, undecided
            outcome = {0: "survived", 5: "no tests", None: "too slow"}.get(code, "noticed")
            result = {
                "mutation": mutation.name,
                "code": mutation.code,
                "outcome": outcome,
                "tests": len(tests),
                "by": _find_failure(room) if outcome == "noticed" else "",
                "seconds": round(time.monotonic() - begin, 1),
            }
            with lock:
                if row is None:
                    rows.append(result)
                else:
                    row.clear()
                    row.update(result)
                print(outcome, mutation.name, flush=True)
                write()

        work(attempt, jobs)
    write()
    print("{noticed} of {counted} noticed".format_map(summarise(rows)))
    print(*(f"{count} {outcome}" for outcome, count in Counter(row["outcome"] for row in rows).items()), sep=", ")


if __name__ == "__main__":
    main()
