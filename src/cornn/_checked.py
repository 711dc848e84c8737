"""Dataclasses that check their fields against annotations, and their conversion from and to JSON."""

import dataclasses
import math
import os
from collections.abc import Mapping
from dataclasses import MISSING, dataclass
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import torch

from cornn._arguments import Argument, ArgumentError, Setting

__all__ = [
    "Checked",
    "Count",
    "Natural",
    "NotNegative",
    "Positive",
    "Range",
    "Share",
    "convert",
    "decode",
    "encode",
    "without_defaults",
]

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Range:
    """The range of a field, from `low` to `high`."""

    low: float
    high: float = math.inf
    above: bool = False  # whether low itself is excluded
    below: bool = False  # whether high itself is excluded

    def check(self, name: str | Argument, value: float) -> None:
        """Raise an error for a number outside the range."""
        small = value <= self.low if self.above else value < self.low
        large = value >= self.high if self.below else value > self.high
        if (small or large) and self.below:
            ends = f"{'(' if self.above else '['}{self.low:g}, {self.high:g})"
            raise ArgumentError(name, f" must lie in {ends}, got {value}")
        if small:
            raise ArgumentError(name, f" must {'be above' if self.above else 'not be below'} {self.low:g}, got {value}")
        if large:
            raise ArgumentError(name, f" must be at most {self.high:,g}, got {value:,}")


MAX_COUNT = 10**12
"""The largest whole number of a setting."""
Count = Annotated[int, Range(0, MAX_COUNT, above=True)]
Natural = Annotated[int, Range(0, MAX_COUNT)]
Positive = Annotated[float, Range(0, above=True)]
NotNegative = Annotated[float, Range(0)]
Share = Annotated[float, Range(0, 1, below=True)]


class Checked:
    """Base class of frozen dataclasses whose fields have the types and ranges of their annotations.

    Numbers become `int` or `float`, lists become tuples and paths become strings, so that equal settings are equal
    objects. `check` is called last, for conditions between fields. Errors name fields as `Setting`s: the
    command line names its options instead.
    """

    def __post_init__(self) -> None:
        for name, hint in _hints(type(self)).items():
            object.__setattr__(self, name, convert(hint, getattr(self, name), Setting(name)))
        self.check()

    def check(self) -> None:
        """Raise an error for fields that contradict each other."""


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]


def convert(hint: Any, value: Any, name: str | Argument) -> Any:
    """Convert a value to the type of a hint, or raise an error that names what is expected.

    Args:
        hint: A type: numbers, strings, tuples, dictionaries, dataclasses, their unions and `Literal`s; `Annotated` with
            a `Range`.
        value: The value, as Python or JSON has it.
        name: What it is, for the error message.
    """
    origin = get_origin(hint)
    if hint is Any:
        return value
    if isinstance(value, torch.device | os.PathLike):
        value = str(value)
    if origin is Annotated:
        inner, *ranges = get_args(hint)
        value = convert(inner, value, name)
        for limit in ranges:
            if isinstance(limit, Range):
                limit.check(name, value)
        return value
    if origin in (Union, UnionType):
        return _one_of(hint, value, name)
    if origin is Literal:
        if not any(type(value) is type(choice) and value == choice for choice in get_args(hint)):
            choices = ", ".join(map(str, get_args(hint)))
            raise ArgumentError("unknown ", name, f" {value!r}: choose one of {choices}")
        return value
    if origin is tuple and isinstance(value, tuple | list):
        kinds = get_args(hint)
        if kinds[-1] is Ellipsis or len(kinds) == len(value):
            return tuple(convert(kinds[0], item, name) for item in value)
    elif origin is list and isinstance(value, tuple | list):
        return [convert(get_args(hint)[0], item, name) for item in value]
    elif origin is dict and isinstance(value, Mapping) and all(isinstance(key, str) for key in value):
        return {key: convert(get_args(hint)[1], item, key) for key, item in value.items()}
    elif hint is int and isinstance(value, Integral) and not isinstance(value, bool):
        return int(value)
    elif hint is float and isinstance(value, Real) and not isinstance(value, bool):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
        if not math.isfinite(number):
            raise ArgumentError(name, f" must be finite, got {value}")
        return number
    elif (hint is str and isinstance(value, str)) or (hint in (bool, NoneType) and isinstance(value, hint)):
        return value
    elif isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return value if isinstance(value, hint) else decode(hint, value, str(name))
    raise ArgumentError(name, f" must be {_in_words(hint)}, got {value!r}")


def _one_of(hint: Any, value: Any, name: str | Argument) -> Any:
    problems = []
    for choice in get_args(hint):
        try:
            return convert(choice, value, name)
        except ValueError as error:
            if choice is not NoneType:
                problems.append(error)
    if len(problems) == 1 and value is not None:
        raise problems[0]
    raise ArgumentError(name, f" must be {_in_words(hint)}, got {value!r}")


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "a string", NoneType: "null"}


def _in_words(hint: Any) -> str:
    """Describe a type for an error message."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _in_words(parts[0])
    if origin in (Union, UnionType):
        return " or ".join(_in_words(part) for part in parts)
    if origin is Literal:
        return f"one of {', '.join(map(str, parts))}"
    if origin is tuple:
        return f"a list, each {_in_words(parts[0])}" if parts[-1] is Ellipsis else f"a list of {len(parts)} numbers"
    if origin is list:
        return f"a list, each {_in_words(parts[0])}"
    return "an object" if origin is dict else _WORDS.get(hint, f"a {getattr(hint, '__name__', hint)}")


def decode(kind: type[Kind], content: Any, where: str) -> Kind:
    """Convert a JSON object to a dataclass; fields that are missing have their defaults.

    Args:
        kind: The dataclass.
        content: The JSON object.
        where: What it is, for the error message.
    """
    if not isinstance(content, Mapping):
        raise ValueError(f"{where} must be an object with settings, got {content!r}")
    fields = {field.name: field for field in dataclasses.fields(kind)}  # pyright: ignore[reportArgumentType]
    for name in content:
        if name not in fields:
            raise ValueError(f"{where} has no setting {name!r}: it has {', '.join(sorted(fields))}")
    for name, field in fields.items():
        if name not in content and field.default is MISSING and field.default_factory is MISSING:
            raise ValueError(f"{where} needs the setting {name!r}")
    hints = _hints(kind) if not issubclass(kind, Checked) else {}
    return kind(**{name: convert(hints.get(name, Any), value, name) for name, value in content.items()})


def encode(value: Any) -> Any:
    """Convert a dataclass to JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: encode(part) for name, part in value.items()}
    return [encode(part) for part in value] if isinstance(value, tuple | list) else value


def without_defaults(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass that differ from their defaults, as JSON values."""
    kept = {}
    for field in dataclasses.fields(value):
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if (setting := getattr(value, field.name)) != default:
            kept[field.name] = encode(setting)
    return kept
