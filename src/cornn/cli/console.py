"""Printing to the terminal."""

import logging
import sys
import time
import warnings
from collections.abc import Callable

from rich.console import Console
from rich.text import Text

__all__ = ["FEWEST_POINTS", "line", "progress_lines", "screen", "silence_libraries"]

SECONDS_BETWEEN_LINES = 10.0
FEWEST_POINTS = 3
"""A curve of fewer points is not drawn."""


def screen(stderr: bool = False, quiet: bool = False) -> Console:
    """Return a console that prints text verbatim: names and paths of users may look like markup."""
    return Console(stderr=stderr, quiet=quiet, markup=False, emoji=False, highlight=False)


def line(console: Console, *parts: str | tuple[str, str], style: str = "") -> None:
    """Print a line without wrapping it, so that paths can be copied. A part is a text, or a text and its style."""
    console.print(Text.assemble(*parts), style=style, soft_wrap=True)


def progress_lines() -> Callable[[str], None]:
    """Return a function that prints a line on stderr, at most every ten seconds: progress without a terminal."""
    printed = time.monotonic()

    def write(text: str) -> None:
        nonlocal printed
        now = time.monotonic()
        if now - printed >= SECONDS_BETWEEN_LINES:
            printed = now
            print(text, file=sys.stderr, flush=True)

    return write


def silence_libraries() -> None:
    """Silence Fabric's messages about accelerators and worker processes, and cuDNN's about the layout of weights.

    All weights of a training run lie in one tensor, which is not the layout that cuDNN prefers.
    """
    warnings.filterwarnings("ignore", message="RNN module weights are not part of single contiguous chunk")
    for name in ("lightning_fabric", "lightning.fabric"):
        # Importing Fabric resets the level of its own logger; the loggers below it keep theirs.
        for part in ("utilities.distributed", "utilities.rank_zero", "accelerators", "plugins"):
            logging.getLogger(f"{name}.{part}").setLevel(logging.ERROR)
        warnings.filterwarnings("ignore", module=name)
