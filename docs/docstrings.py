"""The package's docstrings as Markdown, for the pages of the API; mkdocstrings loads this (mkdocs.yml).

In the source an argument is a line `name: meaning`, deeper lines go on with it, and a field of a dataclass has its
shape behind it as a comment. On a page these are lists.
"""

import re
from typing import Any

import griffe

ENTRY = re.compile(r"(\w+(?:, \w+)*)(?:: | {2,})(\S.*)")
STARS = re.compile(r"(`[^`]*`)|\*")
COMMENT = re.compile(r"\S {2}# (?!noqa|pyright)(.*)")


def listed(text: str) -> str:
    """`text` with each paragraph that begins with `name: meaning`, or `name   meaning`, as a list.

    A star is a product or a power, and emphasises nothing.
    """
    return "\n\n".join(_listed(paragraph) for paragraph in text.split("\n\n"))


def _listed(paragraph: str) -> str:
    if paragraph.startswith("    "):
        return paragraph  # an equation
    lines = STARS.sub(lambda found: found[1] or r"\*", paragraph).splitlines()
    if not lines or not ENTRY.fullmatch(lines[0]):
        return "\n".join(lines)
    items: list[str] = []
    for line in lines:
        entry = ENTRY.fullmatch(line)
        if entry:
            names = ", ".join(f"`{name}`" for name in entry[1].split(", "))
            items.append(f"- {names}: {entry[2]}")
        elif line.startswith(" ") or not items[-1].endswith("."):
            items[-1] += f" {line.strip()}"
        else:
            items += ["", line]
    return "\n".join(items)


class AsMarkdown(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = listed(obj.docstring.value)

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        fields = [member for member in cls.attributes.values() if not member.docstring and member.lineno]
        said = [(field.name, COMMENT.search(field.source)) for field in fields]
        entries = [f"- `{name}`: {comment[1]}" for name, comment in said if comment]
        if cls.docstring and entries:
            cls.docstring.value += "\n\n" + "\n".join(entries)
