"""From arguments to the dataclass of a command."""

import ast
import contextlib
import inspect
import io
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, field, fields, is_dataclass, make_dataclass
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, get_args, get_type_hints

import tyro

from cornn._arguments import choose
from cornn._terminal import escape_controls
from cornn.cli.console import silence_libraries


def parse(kind: Any, prog: str, arguments: Sequence[str], example: str | None = None, **options: Any) -> Any:
    """Parse arguments into a dataclass whose docstrings are the help texts.

    Args:
        kind: The dataclass.
        prog: The program's name in the help, such as `cornn fit`.
        arguments: The words after that name.
        example: A complete call, for the error about a missing argument.
        options: Passed on to `tyro.cli`, such as `default` and `description`.
    """
    silence_libraries()
    errors = io.StringIO()
    try:
        with contextlib.redirect_stderr(errors):
            command = tyro.cli(
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
    except SystemExit as stop:
        if not stop.code:  # after --help
            print(errors.getvalue(), end="", file=sys.stderr)
            raise
        problem = _in_plain_words(errors.getvalue(), example)
        raise ValueError(f"{problem}; `{prog} --help` shows the options") from None
    print(errors.getvalue(), end="", file=sys.stderr)
    return command


def parse_command(kind: type, prog: str, arguments: Sequence[str], example: str | None = None) -> Any:
    """Parse arguments into the dataclass of a command; its help shows no empty defaults and no redundant --no-X."""
    options = []
    for item in fields(kind):
        default = item.default_factory() if item.default_factory is not MISSING else item.default
        options.append(make_option(kind, item.name, default))
    parsed = parse(make_dataclass(kind.__name__, options), prog, arguments, example, description=inspect.getdoc(kind))
    return kind(**{item.name: getattr(parsed, item.name) for item in fields(kind)})


def make_option(
    kind: type, name: str, default: Any, pairs: bool = False, *, hint: Any = None, default_shown: Any = None
) -> tuple[str, Any, Any]:
    """Return a field for `make_dataclass` with the help text that is the docstring of the original field.

    Args:
        kind: The original dataclass.
        name: The name of the field.
        default: Its default, or MISSING.
        pairs: Whether a flag that is off by default has the option --no-X too.
        hint: Its type, in place of the original one.
        default_shown: The default that the help shows, in place of None.
    """
    hint = get_type_hints(kind, include_extras=True)[name] if hint is None else hint
    default_field = field() if default is MISSING else field(default_factory=lambda: default)
    if is_dataclass(hint) or any(is_dataclass(part) for option in get_args(hint) for part in get_args(option)):
        return name, hint, default_field
    if default is False and not pairs:
        hint = tyro.conf.FlagCreatePairsOff[hint]
    default_hint = (
        None
        if default is MISSING
        else _format_default
        if default_shown is None
        else _format_default(_format_words(default_shown))
    )
    about = tyro.conf.arg(help=_docstrings(kind).get(name), help_behavior_hint=default_hint)
    return name, Annotated[hint, about], default_field


def _format_default(value: str) -> str:
    return "" if value in ("None", "") else f"(default: {escape_controls(value)})"  # it may come from a file


def _format_words(value: Any) -> str:
    """Write a value as it is typed on the command line."""
    if isinstance(value, Mapping):
        return " ".join(f"{name} {_format_words(item)}" for name, item in value.items())
    return " ".join(map(_format_words, value)) if isinstance(value, tuple) else str(value)


@cache
def _docstrings(kind: type) -> dict[str, str]:
    """Field -> its docstring, in the class or in one that it inherits from."""
    texts = {}
    for part in reversed(kind.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(part))).body[0].body  # pyright: ignore
        for statement, following in pairwise(body):
            if isinstance(statement, ast.AnnAssign) and isinstance(following, ast.Expr):
                texts[statement.target.id] = " ".join(following.value.value.split())  # pyright: ignore
    return texts


KINDS = {"INT": "a whole number", "FLOAT": "a number"}
SEVERAL = {"INT": "whole numbers", "FLOAT": "numbers"}


def _in_plain_words(text: str, example: str | None) -> str:
    """Restate an error message of tyro in one line.

    The text is all that tyro's stable interface offers: events of errors exist, but in a private module that may change
    in any release. `tests/test_cli.py` has one case per message, and fails if tyro changes its wording. A message that
    is not known is printed as it is, but in one line.
    """
    # Without the box, which is of ASCII characters if the terminal has no others.
    lines = [line.strip("╭╮╰╯│|+ ") for line in re.sub(r"\x1b\[[0-9;]*m", "", text).splitlines()]
    text = " ".join(re.sub(r"─+|-{3,}|^- ", " ", " ".join(lines)).split())
    text = text.partition(" For full helptext,")[0]
    wrong = re.search(r"Error parsing (--[\w-]+): no type matching (INT|FLOAT) could be .*? from \['(.*?)'\]", text)
    wrong = wrong or re.search(r"Error parsing (--[\w-]+): [^{]*?(int|float)\b.*?: '(.*?)'", text)
    if wrong:
        return f"{wrong[1]} must be {KINDS[wrong[2].upper()]}, got {wrong[3]!r}"
    several = re.search(r"Error parsing (--[\w-]+): no type matching (.*?) could be .*? from \[(.*?)\]\.", text)
    if several:
        words = several[2].strip("{}").split()
        kinds_in_words = (
            f"{len(words)} {SEVERAL[words[0]]}" if set(words) in ({"INT"}, {"FLOAT"}) else "names, each with a value"
        )
        return f"{several[1]} takes {kinds_in_words}, got {several[3].replace(',', '')}"
    empty = re.search(r"Missing value for argument '(--[\w-]+)'", text)
    if empty:
        return f"{empty[1]} needs a value"
    choice = re.search(r"invalid choice '(.*?)' for argument '(--[\w-]+).*?'. Expected one of \((.*?)\)", text)
    if choice:
        choices = [word for word in re.findall(r"'(.*?)'", choice[3]) if word != "None"]
        return f"unknown {choice[2]} {choice[1]!r}: choose one of {', '.join(sorted(choices))}"
    unknown = re.search(r"Unrecognized options: (.*?)(?=$| Available subcommands: (.*?)$| Perhaps you meant)", text)
    if unknown:
        close = re.search(r"Perhaps you meant:? (--[\w-]+)", text)
        first = unknown[1].split(", ")[0]
        if first.startswith("-"):
            return f"unknown option {first!r}" + (f" (did you mean {close[1]}?)" if close else "")
        return f"unexpected argument {first!r}" + (f": choose one of {unknown[2]}" if unknown[2] else "")
    missing = re.search(r"Missing from [\w -]+?: (--[\w-]+|[A-Z]+)\b", text)
    if missing:
        return f"{missing[1]} is missing" + (f", for example `{example}`" if example else "")
    return text


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
        if words[0].startswith("-"):
            raise ValueError(f"no task is given: choose one of {', '.join(tasks)}")
        choose("task", words[0], tasks)
    rows = "\n".join(f"  {name:<14} {(kind.__doc__ or '').splitlines()[0]}" for name, kind in tasks.items())
    text = f"usage: cornn {command} TASK [OPTIONS]\n{rows}\n`cornn {command} TASK --help` shows the options of a task."
    print(text, file=sys.stdout if words else sys.stderr)
    raise SystemExit(0 if words else 2)
