"""Errors that name arguments, so that the command line can name its options instead."""

import difflib
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

__all__ = ["Argument", "ArgumentError", "InPython", "Setting", "check_known", "choose", "to_names"]


@dataclass(frozen=True)
class Argument:
    """An argument of a public function, with the value to set it to, if any. As text: `name`, or `name=value`."""

    name: str
    value: Any = None

    def __str__(self) -> str:
        return f"`{self.name}`" if self.value is None else f"`{self.name}={self.value!r}`"


@dataclass(frozen=True)
class Setting(Argument):
    """A field of a configuration. As text it has no quotes: `name`, or `name=value`."""

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


def to_names(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


class InPython(str):
    """Text of an error that the command line omits, such as a remedy that only Python offers."""


class ArgumentError(ValueError):
    """A ValueError whose message names arguments.

    Args:
        parts: The message in pieces: texts and arguments.

    Examples:
        >>> raise ArgumentError("nothing to learn: choose the column with ", Argument("target"))
    """

    def __init__(self, *parts: str | Argument) -> None:
        super().__init__("".join(map(str, parts)))
        self.parts = parts

    def spell(self, option: Callable[[Argument], str]) -> str:
        """Return the message for an interface that spells arguments in its own way."""
        parts = (part for part in self.parts if not isinstance(part, InPython))
        return "".join(option(part) if isinstance(part, Argument) else part for part in parts)


def choose(what: str, name: str, known: Iterable[str]) -> str:
    """Return the name if it is known, or raise an error with the names to choose from."""
    known = list(known)
    close = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else []
    check_known(what, name, known, f"did you mean {close[0]!r}? " if close else "")
    return name


def check_known(what: str, name: str, known: Collection[str], hint: str = "") -> None:
    """Raise ValueError with the names to choose from unless the name is known."""
    if name not in known:
        raise ValueError(f"unknown {what} {name!r}: {hint}choose one of {', '.join(known)}")
