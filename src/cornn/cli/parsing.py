"""From arguments to the dataclass of a command."""

import difflib
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import tyro

from cornn.cli.console import silence_libraries

__all__ = ["choose_task", "find_option", "parse"]


def parse(kind: Any, prog: str, arguments: Sequence[str], **options: Any) -> Any:
    """Parse arguments into a dataclass whose docstrings are the help texts.

    Args:
        kind: The dataclass.
        prog: The program's name in the help, such as `cornn fit`.
        arguments: The words after that name.
        options: Passed on to `tyro.cli`, such as `default` and `description`.
    """
    silence_libraries()
    return tyro.cli(
        kind,
        prog=prog,
        args=arguments,
        config=(
            tyro.conf.OmitArgPrefixes,
            tyro.conf.OmitSubcommandPrefixes,
            tyro.conf.CascadeSubcommandArgs,
            tyro.conf.DisallowNone,
        ),
        **options,
    )


def choose_task(command: str, tasks: Mapping[str, type], arguments: Sequence[str]) -> tuple[str, list[str]]:
    """Split off the name of the task, which may come before or after options. Without one, list the tasks.

    Returns:
        The task's name and the other arguments.
    """
    words = list(arguments)
    first = next((word for word in words if word in tasks), None)
    if first is not None and (words[0] == first or words[0].startswith("-")):
        words.remove(first)
        return first, words
    if words and words[0] not in ("-h", "--help"):
        unknown = words[0]
        close = difflib.get_close_matches(unknown, tasks, n=1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        problem = "no task is given" if unknown.startswith("-") else f"unknown task {unknown!r}"
        raise ValueError(f"{problem}: {hint}choose one of {', '.join(tasks)}")
    rows = "\n".join(f"  {name:<14} {(kind.__doc__ or '').splitlines()[0]}" for name, kind in tasks.items())
    text = f"usage: cornn {command} TASK [OPTIONS]\n{rows}\n`cornn {command} TASK --help` shows the options of a task."
    print(text, file=sys.stdout if words else sys.stderr)
    raise SystemExit(0 if words else 2)


def find_option(option: str, arguments: Sequence[str]) -> str | None:
    """Return the value of an option that the defaults of other options depend on, or None."""
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return next((value for name, value in pairwise(words) if name == option), None)
