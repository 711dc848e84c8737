"""How figures look, and how they are saved: SVG and PNG, the same bytes for the same data."""

import base64
import io
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

from cornn._atomic import write_errors
from cornn._extras import missing_extra

__all__ = ["COLOURS", "STYLES", "add_note", "canvas", "data_uri", "save", "set_panel_title", "styled"]

# Okabe and Ito's: told apart by colour-blind readers, and in grey by the line styles beside them.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#333333")
STYLES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))

SETTINGS: dict[Any, Any] = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.edgecolor": "#666666",
    "legend.frameon": False,
    "legend.fontsize": 8,
    "lines.linewidth": 1.5,
    "svg.fonttype": "none",  # text stays text: small files that a reader can search
    "font.family": "sans-serif",
    "svg.hashsalt": "cornn",
}


Arguments = ParamSpec("Arguments")


def styled(draw: Callable[Arguments, Any]) -> Callable[Arguments, Any]:
    """A function that draws a figure, with these settings in force while it does."""

    @wraps(draw)
    def drawn(*arguments: Arguments.args, **options: Arguments.kwargs) -> Any:
        try:
            import matplotlib
        except ImportError:
            raise missing_extra("report", "figures need matplotlib") from None
        with matplotlib.rc_context(SETTINGS):
            return draw(*arguments, **options)

    return drawn


def canvas(rows: int = 1, columns: int = 1, *, size: tuple[float, float], **options: Any) -> tuple[Any, Any]:
    """A figure and its axes, (rows, columns), without any window system; `size` is in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def set_panel_title(axes: Any, name: str, title: str) -> None:
    """A panel's title, with a letter to refer to it by."""
    axes.set_title(f"({name})  {title}")


def add_note(figure: Any, text: str) -> None:
    """A line or more below the panels: what was chosen, what is to be seen."""
    figure.supxlabel(text, fontsize=8, color="#444444", x=0.01, ha="left")


def data_uri(figure: Any) -> str:
    """A figure as the address of an image that holds all of it."""
    import matplotlib

    drawn = io.BytesIO()
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # Text stays text: the reader's fonts may have what matplotlib's lack.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(drawn, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(drawn.getvalue()).decode()


def save(figure: Any, path: Path) -> list[Path]:
    """Write `path` with the endings .svg and .png."""
    import matplotlib

    with write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    written = [path.with_name(f"{path.name}.{ending}") for ending in ("svg", "png")]
    with matplotlib.rc_context(SETTINGS):
        figure.savefig(written[0], metadata={"Date": None})
        figure.savefig(written[1], dpi=150, metadata={"Software": None})
    return written
