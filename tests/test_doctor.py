"""`cornn doctor` says what makes an installation slow."""

from pathlib import Path

import pytest

from cornn.cli import doctor
from cornn.engine.backends import c

CACHED = (c._library, c.instruction_set, c._find)


@pytest.fixture
def no_library(monkeypatch):
    """The package as it is installed from source without a compiler."""
    monkeypatch.setattr(c, "LIBRARY", Path("nowhere") / c.LIBRARY.name)
    for function in CACHED:
        function.cache_clear()
    yield
    for function in CACHED:
        function.cache_clear()


def test_without_the_library_the_portable_backend_is_chosen(cornn, no_library):
    code, out, _ = cornn("doctor")
    assert code == 0
    rows = {tuple(row.split()[:3]) for row in out.splitlines() if "cpu" in row}
    assert {("cpu", "c", "no"), ("cpu", "portable", "chosen")} <= rows
    assert "The C library is missing" in out
    assert "was not built: install gcc or clang" in out


def test_an_untested_version_of_pytorch_is_named(cornn, monkeypatch):
    assert "outside the tested range" not in cornn("doctor")[1]
    monkeypatch.setattr(doctor, "is_tested", lambda: False)
    assert "is outside the tested range, 2.11 to 2.13: the recurrence runs through" in cornn("doctor")[1]
