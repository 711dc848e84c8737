"""How the command line spells the arguments of the library."""

import shlex

from cornn._arguments import Argument

RENAMED = {"class_weight": "balanced", "random_state": "seed"}
"""Argument -> option, where they differ."""


def spell_option(argument: Argument) -> str:
    """Return an argument as an option with its values, such as `--task forecast` or `--no-theory`."""
    name, value = RENAMED.get(argument.name, argument.name), argument.value
    if value is False:
        return f"--no-{name.replace('_', '-')}"
    values = value if isinstance(value, list | tuple) else () if value is None or value is True else (value,)
    words = (shlex.quote(str(word)) for word in values if name == argument.name)
    return " ".join([f"--{name.replace('_', '-')}", *words])
