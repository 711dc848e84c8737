"""Escape text for a terminal: names and labels in files may contain control sequences."""

import unicodedata

__all__ = ["escape_controls"]

KEPT = "\n\t"
UNSAFE = ("Cc", "Cs")
"""Categories of Unicode: control characters, and halves of surrogate pairs. With the latter Python marks undecodable
bytes of file names; they cannot be printed."""
DIRECTIONS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
"""Marks of the writing direction, which reorder what is read."""


def escape_controls(text: str) -> str:
    r"""Replace control characters except newlines and tabs by their escapes, such as `\x1b`.

    A terminal obeys control sequences: they can set its title, move the cursor, or hide text.

    Args:
        text: Any text.

    Returns:
        The text; without control characters it is the same object.
    """
    if text.isprintable():
        return text
    return "".join(map(_escape, text))


def _escape(character: str) -> str:
    if character in KEPT or (unicodedata.category(character) not in UNSAFE and character not in DIRECTIONS):
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
