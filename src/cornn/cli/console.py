"""Printing to the terminal."""

import logging
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

from cornn._terminal import escape_controls

SECONDS_BETWEEN_LINES = 10.0


class SafeConsole(Console):
    """A console that prints control characters of texts as `\\x1b`; its own colours remain."""

    def render_str(self, text: str, **options: Any) -> Text:
        """Return a text, escaped before its width is measured."""
        return super().render_str(escape_controls(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Render as `Console` does."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(escape_controls(segment.text), segment.style)


def screen(stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that prints text verbatim: names and paths of users may look like markup."""
    return SafeConsole(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


def line(console: Console, *parts: str | tuple[str, str], style: str = "") -> None:
    """Print a line without wrapping it, so that paths can be copied. A part is a text, or a text and its style."""
    console.print(Text.assemble(*parts), style=style, soft_wrap=True)


def progress_lines() -> Callable[[str], None]:
    """Return a function that prints a line on stderr, at most every ten seconds: progress without a terminal."""
    printed_at = time.monotonic()

    def write(text: str) -> None:
        nonlocal printed_at
        now = time.monotonic()
        if now - printed_at >= SECONDS_BETWEEN_LINES:
            printed_at = now
            print(escape_controls(text), file=sys.stderr, flush=True)

    return write


def silence_libraries() -> None:
    """Silence Fabric's messages about accelerators and worker processes, and cuDNN's about the layout of weights.

    All weights of a training run lie in one tensor, which cuDNN does not prefer.
    """
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
    for name in ("lightning_fabric", "lightning.fabric"):
        # Importing Fabric resets the level of its own logger; the loggers below it keep theirs.
        for part in ("utilities.distributed", "utilities.rank_zero", "accelerators", "plugins"):
            logging.getLogger(f"{name}.{part}").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=name)
