"""Shapes and types are checked at run time in the modules that are annotated for it, where beartype is installed."""

import functools
import gc
import importlib.util
import os
import signal
import sys

import pytest
from jaxtyping import install_import_hook

if importlib.util.find_spec("beartype") and not os.environ.get("CORNN_NO_SHAPES"):
    install_import_hook(["cornn.cells", "cornn.functional", "cornn.layers"], "beartype.beartype")


def pytest_collection():
    """Almost everything that is created during collection stays: disable the garbage collector."""
    gc.disable()


def pytest_collection_finish():
    """What the tests imported stays: exclude it from garbage collection, and make full collections rare."""
    gc.collect()
    gc.freeze()
    gc.enable()
    gc.set_threshold(*gc.get_threshold()[:2], 100)


@pytest.fixture(scope="session", autouse=True)
def _listen_to_signals():
    """Undo that a shell ignores signals: SIGINT in background jobs, SIGHUP under nohup. Trainings respect it."""
    defaults = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    for name, handler in defaults.items():
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


@pytest.fixture(scope="session", autouse=True)
def _read_the_source_once():
    """Cache the commit and the digest of the package, which every training records: tests do not change them."""
    from cornn import _source

    root, read_digest, read_commit = _source.PACKAGE, functools.cache(_source.digest), functools.cache(_source.commit)

    def digest(package=root):
        return (read_digest if package == root else read_digest.__wrapped__)(package)

    def commit():
        return (read_commit if root == _source.PACKAGE else read_commit.__wrapped__)()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_source, "digest", digest)
        patch.setattr(_source, "commit", commit)
        yield


@pytest.fixture
def cornn(monkeypatch, capsys, tmp_path):
    """Run the program in this process, in an empty folder: (exit code, standard output, standard error)."""
    from cornn.__main__ import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "300")

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["cornn", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as stop:
            code = stop.code or 0
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run


@pytest.fixture
def plain_figures(monkeypatch):
    """The report without the figures of the theory, which take long and have tests of their own: empty ones instead."""
    from cornn.lab.report import page
    from cornn.plots.style import canvas

    monkeypatch.setattr(page, "FIGURES", dict.fromkeys(page.FIGURES, lambda: canvas(size=(4, 3))[0]))
