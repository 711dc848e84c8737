"""Shapes and types are checked at run time in the modules that are annotated for it, where beartype is installed."""

import importlib.util
import os
import sys

import pytest
from jaxtyping import install_import_hook

if importlib.util.find_spec("beartype") and not os.environ.get("CORNN_NO_SHAPES"):
    install_import_hook(["cornn.functional", "cornn.layers"], "beartype.beartype")


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
