"""Values are checked against the annotations of their fields."""

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest
import torch

from cornn._arguments import choose
from cornn._checked import Checked, Count, Range, Share, convert, decode, encode, without_defaults


@dataclass(frozen=True)
class Inner(Checked):
    size: Count
    word: Literal["a", "b"] = "a"


@dataclass(frozen=True)
class Outer(Checked):
    inner: Inner
    rate: float
    share: Share = 0.0
    ends: tuple[float, float] | None = None
    words: tuple[Literal["a", "b"], ...] = ()
    seed: int | Literal["own"] = 0
    data: str | None = None
    flag: bool = False
    constants: dict[str, float | str] | None = None
    bounded: Annotated[float, Range(0, 10, above=True)] = 1.0


def outer(**settings: Any) -> Outer:
    return Outer(**({"inner": Inner(3), "rate": 1.0} | settings))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rate": "1"}, "rate must be a number, got '1'"),
        ({"rate": True}, "rate must be a number, got True"),
        ({"rate": math.nan}, "rate must be finite, got nan"),
        ({"rate": 10**400}, "rate must be finite"),
        ({"share": 1}, r"share must lie in \[0, 1\), got 1.0"),
        ({"ends": (1.0,)}, "ends must be a list of 2 numbers"),
        ({"ends": (1.0, "x")}, "ends must be a number, got 'x'"),
        ({"words": ["a", "c"]}, "unknown words 'c': choose one of a, b"),
        ({"words": "ab"}, "words must be a list, each one of a, b, got 'ab'"),
        ({"seed": "other"}, "seed must be a whole number or one of own, got 'other'"),
        ({"data": 3}, "data must be a string, got 3"),
        ({"flag": 1}, "flag must be true or false, got 1"),
        ({"constants": [1]}, r"constants must be an object, got \[1\]"),
        ({"constants": {"x": None}}, "x must be a number or a string, got None"),
        ({"bounded": 0}, "bounded must be above 0, got 0"),
        ({"bounded": 11}, "bounded must be at most 10, got 11"),
        ({"inner": 3}, "inner must be an object with settings, got 3"),
        ({"inner": {"size": 1e29}}, "size must be a whole number, got 1e"),
        ({"inner": {"size": 10**31}}, "size must be at most 1e"),
        ({"inner": {"size": 0}}, "size must be above 0, got 0"),
        ({"inner": {"size": 1, "word": []}}, r"unknown word \[\]: choose one of a, b"),
        ({"inner": {"word": "a"}}, "inner needs the setting 'size'"),
        ({"inner": {"size": 1, "x": 1}}, "inner has no setting 'x': it has size, word"),
    ],
)
def test_what_does_not_fit_is_refused(settings, words):
    with pytest.raises(ValueError, match=words):
        outer(**settings)


def test_equal_settings_are_equal_objects():
    one = outer(rate=np.float64(2), ends=[1, 2], words=["a"], data=Path("here"))
    assert one == outer(rate=2, ends=(1.0, 2.0), words=("a",), data="here")
    assert type(one.rate) is float
    assert outer(data=torch.device("cpu")).data == "cpu"
    assert outer(inner={"size": np.int64(3)}) == outer()


def test_json_and_back():
    one = outer(ends=(1, 2), constants={"x": 1}, words=("a", "b"))
    content = encode(one)
    assert content["inner"] == {"size": 3, "word": "a"}
    assert content["ends"] == [1.0, 2.0]
    assert decode(Outer, content, "it") == one
    with pytest.raises(ValueError, match="it must be an object with settings, got 3"):
        decode(Outer, 3, "it")


def test_what_equals_its_default_is_left_out():
    assert without_defaults(outer()) == {"inner": {"size": 3, "word": "a"}, "rate": 1.0}
    assert without_defaults(outer(seed="own")) == {"inner": {"size": 3, "word": "a"}, "rate": 1.0, "seed": "own"}


def test_other_dataclasses_are_checked_when_they_are_decoded():
    @dataclass
    class Plain:
        count: int

    assert decode(Plain, {"count": 1}, "it") == Plain(1)
    with pytest.raises(ValueError, match="count must be a whole number, got 'x'"):
        decode(Plain, {"count": "x"}, "it")
    assert convert(tuple[int, ...], [1, 2], "numbers") == (1, 2)


def test_an_unknown_name():
    with pytest.raises(ValueError, match="unknown model 'lst': did you mean 'lstm'"):
        choose("model", "lst", ("gru", "lstm"))


def test_the_ends_of_a_range_belong_to_it_unless_they_are_excluded():
    Range(1, 2).check("x", 1)
    Range(1, 2).check("x", 2)
    with pytest.raises(ValueError, match="x must be above 1, got 1"):
        Range(1, 2, above=True).check("x", 1)
    with pytest.raises(ValueError, match=r"x must lie in \[1, 2\), got 2"):
        Range(1, 2, below=True).check("x", 2)
