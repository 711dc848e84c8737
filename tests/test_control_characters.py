"""Control characters in names and labels do not reach the terminal."""

import io
import json
from dataclasses import replace

import pytest
from rich.table import Table

from cornn._terminal import escape_controls
from cornn.cli import console
from cornn.lab.config import as_dictionary
from cornn.lab.recipes import resolve

TITLE = "\x1b]0;owned\x07"  # sets the title of the window


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain, é, 日本, 🙂", "plain, é, 日本, 🙂"),
        ("two\nlines\tand a tab", "two\nlines\tand a tab"),
        (TITLE, "\\x1b]0;owned\\x07"),
        ("\x9b31m\x7f\r\0", "\\x9b31m\\x7f\\x0d\\x00"),
        ("abc\u202edcb", "abc\\u202edcb"),
        ("undecodable \udcff", "undecodable \\udcff"),
        ("family: \U0001f468\u200d\U0001f469", "family: \U0001f468\u200d\U0001f469"),
    ],
)
def test_control_characters_are_escaped(text, expected):
    assert escape_controls(text) == expected


def test_the_console_keeps_its_own_colours(monkeypatch):
    file = io.StringIO()
    made = console.SafeConsole(file=file, force_terminal=True, color_system="standard", markup=False, width=80)
    table = Table(f"head{TITLE}")
    table.add_row(f"cell{TITLE}")
    made.print(table)
    console.line(made, ("red", "red"), f" {TITLE}")
    printed = file.getvalue()
    assert "\x1b]" not in printed
    assert "\x07" not in printed
    assert "\x1b[31mred" in printed
    assert printed.count("\\x1b]0;owned") == 3


@pytest.fixture
def hostile(tmp_path):
    """A table whose classes, feature names and file name contain control sequences."""
    path = tmp_path / f"data{TITLE}.csv"
    lines = [f"a{TITLE},b,label"]
    lines += [f"{n % 7},{n % 5},{'x' if n % 2 else 'y' + TITLE}" for n in range(40)]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_labels_and_names_of_a_data_file_are_escaped(cornn, hostile):
    pytest.importorskip("sklearn")
    code, out, err = cornn("fit", hostile, "--target", "label", "--form", "wide", "--dry-run")
    assert code == 0, err
    assert "\x1b" not in out + err
    assert "\x07" not in out + err
    assert "\\x1b]0;owned" in out


def test_errors_and_warnings_are_escaped(cornn, hostile):
    code, out, err = cornn("fit", hostile.with_suffix(".no"), "--target", "label", "--dry-run")
    assert code == 2
    assert "\x1b" not in out + err
    assert "\\x1b]0;owned" in err


def test_values_of_a_configuration_are_escaped_in_the_help(cornn, tmp_path):
    content = as_dictionary(replace(resolve("adding", length=12), recipe=f"x{TITLE}").override(data=f"d{TITLE}"))
    (tmp_path / "c.json").write_text(json.dumps(content))
    code, out, err = cornn("train", "adding", "--config", "c.json", "--help")
    assert code == 0
    assert "\x1b]" not in out + err
    assert "\\x1b]0;owned" in out
