"""Shapes and types are checked at run time in the modules that are annotated for it, where beartype is installed."""

import gc
import importlib.util
import os
import signal
import sys

import pytest
from jaxtyping import install_import_hook

if importlib.util.find_spec("beartype") and not os.environ.get("CORNN_NO_SHAPES"):
    install_import_hook(["cornn.cells", "cornn.functional", "cornn.layers"], "beartype.beartype")


def pytest_collection_finish():
    """What the tests imported stays. The garbage collector passes it by, and looks at all of the rest seldom."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*gc.get_threshold()[:2], 100)


@pytest.fixture(scope="session", autouse=True)
def _listen_to_signals():
    """Undo that a shell ignores signals: SIGINT in background jobs, SIGHUP under nohup. Trainings respect it."""
    defaults = {"SIGINT": signal.default_int_handler, "SIGHUP": signal.SIG_DFL}
    for name, handler in defaults.items():
        number = getattr(signal, name, None)  # Windows has no SIGHUP
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, handler)


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
