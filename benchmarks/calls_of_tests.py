"""A plugin for pytest that writes what every test calls: `-p calls_of_tests`, used by mutations.py.

For every test that passes it writes a line to the file $CALLS_OF_TESTS: its name, its seconds on the wall and on the
processor with its child processes, and the functions under $CALLS_OF_TESTS_ROOT that it called, each as "FILE:LINE" of
the beginning of its definition. A fixture that several tests share counts for each of them. What runs in other
processes is not seen.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = os.path.join(os.environ["CALLS_OF_TESTS_ROOT"], "")
OUT = Path(os.environ["CALLS_OF_TESTS"])
_called: set = set()  # code objects
_of_fixture: dict = {}
_failed: set[str] = set()


def _trace(frame, event, argument):
    _called.add(frame.f_code)


def _processor_seconds() -> float:
    return sum(os.times()[:4])


def _names(codes: set) -> set[str]:
    package_codes = (code for code in codes if code.co_filename.startswith(ROOT) and code.co_name != "<module>")
    return {f"{code.co_filename.removeprefix(ROOT)}:{code.co_firstlineno}" for code in package_codes}


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    if fixturedef.scope == "function":
        return (yield)
    previous = _called.copy()
    _called.clear()
    try:
        return (yield)
    finally:
        _of_fixture.setdefault(id(fixturedef), set()).update(_called)
        _called.update(previous)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_logreport(report):
    if not report.passed:
        _failed.add(report.nodeid)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    _called.clear()
    begin, processor = time.perf_counter(), _processor_seconds()
    threading.settrace(_trace)
    sys.settrace(_trace)
    try:
        return (yield)
    finally:
        sys.settrace(None)
        threading.settrace(None)
        for fixtures in getattr(item, "_fixtureinfo", item).name2fixturedefs.values():
            _called.update(*(_of_fixture.get(id(fixture), ()) for fixture in fixtures))
        if item.nodeid not in _failed:
            seconds = round(time.perf_counter() - begin, 3), round(_processor_seconds() - processor, 3)
            with OUT.open("a", encoding="utf8") as file:
                file.write(json.dumps([item.nodeid, *seconds, sorted(_names(_called))]) + "\n")
