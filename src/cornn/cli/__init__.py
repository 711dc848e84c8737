"""The command line: parse, call, print. One module a command."""

from collections.abc import Sequence
from functools import reduce
from operator import or_
from typing import Annotated

import tyro

from cornn.cli import search, train
from cornn.cli.bench import BenchCommand
from cornn.cli.check import CheckCommand
from cornn.cli.compare import CompareCommand
from cornn.cli.console import hush
from cornn.cli.data import DataCommand
from cornn.cli.doctor import DoctorCommand
from cornn.cli.evaluate import EvaluateCommand
from cornn.cli.export import ExportCommand
from cornn.cli.figure import FigureCommand
from cornn.cli.fit import FitCommand
from cornn.cli.predict import PredictCommand
from cornn.cli.report import ReportCommand
from cornn.cli.reproduce import ReproduceCommand
from cornn.cli.resume import ResumeCommand

__all__ = ["COMMANDS", "run"]

DESCRIPTION = """Recurrent networks of coupled oscillators.

Try `cornn train adding`: it trains a network on the CPU to add two marked numbers of a sequence of 500, and needs no
data."""

COMMANDS = {
    "evaluate": EvaluateCommand,
    "fit": FitCommand,
    "predict": PredictCommand,
    "resume": ResumeCommand,
    "check": CheckCommand,
    "figure": FigureCommand,
    "data": DataCommand,
    "reproduce": ReproduceCommand,
    "compare": CompareCommand,
    "report": ReportCommand,
    "export": ExportCommand,
    "bench": BenchCommand,
    "doctor": DoctorCommand,
}
"""Name -> a dataclass whose docstring and fields are the help, and whose `run()` does it. `train` and `search`, which
have the options of each task, come before them."""


def run(arguments: Sequence[str]) -> None:
    commands = [Annotated[kind, tyro.conf.subcommand(name)] for name, kind in COMMANDS.items()]
    command = tyro.cli(
        reduce(or_, [search.command_type(arguments), *commands], train.command_type(arguments)),
        prog="cornn",
        description=DESCRIPTION,
        args=arguments,
        config=(
            tyro.conf.OmitArgPrefixes,
            tyro.conf.OmitSubcommandPrefixes,
            tyro.conf.CascadeSubcommandArgs,
            tyro.conf.DisallowNone,
        ),
    )
    hush()
    command.run()
