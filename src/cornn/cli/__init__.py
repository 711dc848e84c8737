"""The command line: one module per command, imported only when the command is called."""

import importlib
import sys
from collections.abc import Sequence
from typing import NamedTuple

from cornn._arguments import choose
from cornn._extras import missing_extra
from cornn._version import __version__


class Command(NamedTuple):
    """An entry of `cornn --help`."""

    group: str
    help: str
    module: str
    attribute: str
    """A dataclass whose docstring and fields are the help and whose `run()` executes the command, or a function that
    parses the arguments into such an object."""
    example: str | None = None
    """A complete call, shown if an argument is missing; for commands that need one."""


DATA, TRAIN, LAB = "your data", "train and evaluate", "the laboratory"

COMMANDS = {
    "fit": Command(
        DATA, "Fit a model to your own sequences.", "fit", "FitCommand", "cornn fit waves.csv --target kind"
    ),
    "predict": Command(
        DATA, "Predict with a fitted model.", "predict", "PredictCommand", "cornn predict runs/waves-0001 new.csv"
    ),
    "export": Command(
        DATA,
        "Export a model to ONNX, C or the Hugging Face hub.",
        "export",
        "ExportCommand",
        "cornn export runs/waves-0001 --to onnx",
    ),
    "doctor": Command(DATA, "Show which backends this machine can run.", "doctor", "DoctorCommand"),
    "train": Command(TRAIN, "Train a model on a task.", "train", "parse"),
    "evaluate": Command(
        TRAIN,
        "Evaluate a finished run on the test split.",
        "evaluate",
        "EvaluateCommand",
        "cornn evaluate runs/adding-0001",
    ),
    "resume": Command(TRAIN, "Resume an interrupted run.", "resume", "ResumeCommand", "cornn resume runs/adding-0001"),
    "check": Command(TRAIN, "Check a layer against the theory.", "check", "CheckCommand"),
    "demo": Command(LAB, "Compare coRNN, an LSTM and a GRU in about a minute.", "demo", "DemoCommand"),
    "data": Command(LAB, "List the data sets, or download one.", "data", "DataCommand", "cornn data get mnist"),
    "reproduce": Command(LAB, "Run the paper's experiments that have no record yet.", "reproduce", "ReproduceCommand"),
    "compare": Command(LAB, "Compare coRNN with other models at equal tuning budgets.", "compare", "CompareCommand"),
    "search": Command(LAB, "Search hyperparameters at random, by validation.", "search", "parse"),
    "protocol": Command(LAB, "Search and test without leaks, by a committed file.", "protocol", "ProtocolCommand"),
    "report": Command(LAB, "Write a page with all recorded results.", "report", "ReportCommand"),
    "figure": Command(
        LAB, "Draw a figure of the paper or of the docs.", "figure", "FigureCommand", "cornn figure spectrum"
    ),
    "bench": Command(LAB, "Measure speed and memory.", "bench", "BenchCommand"),
}
"""Name -> command, in the order of the help."""


def run(arguments: Sequence[str]) -> None:
    """Parse the arguments of the program and execute the command they name."""
    if not arguments:
        print(_help(), file=sys.stderr)
        sys.exit(2)
    name, *rest = arguments
    if name in ("-h", "--help"):
        print(_help(bold=sys.stdout.isatty()))
    elif name == "--version":
        print(f"cornn {__version__}")
    else:
        _parse(choose("command", name, COMMANDS), rest).run()


def _parse(name: str, arguments: Sequence[str]):
    entry = COMMANDS[name]
    try:
        from cornn.cli.parsing import parse_command

        command = getattr(importlib.import_module(f"cornn.cli.{entry.module}"), entry.attribute)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in ("tyro", "rich"):
            raise
        raise missing_extra("cli", f"the command line needs {package}") from error
    if isinstance(command, type):
        return parse_command(command, f"cornn {name}", arguments, entry.example)
    return command(arguments)


def _help(bold: bool = False) -> str:
    lines = [
        "usage: cornn [--help] [--version] COMMAND [OPTIONS]",
        "Recurrent networks of coupled oscillators. `cornn COMMAND --help` explains one.",
    ]
    for group in dict.fromkeys(command.group for command in COMMANDS.values()):
        lines.append(f"\033[1m{group}\033[0m" if bold else group)
        lines += [f"  {name:<10} {entry.help}" for name, entry in COMMANDS.items() if entry.group == group]
    lines.append("Try `cornn train adding`: it needs no data and no GPU.")
    return "\n".join(lines)
