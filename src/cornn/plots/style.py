"""Figure style, and saving as SVG and PNG. The same data gives the same bytes."""

import base64
import io
import warnings
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import numpy as np

from cornn._atomic import write_atomically, write_errors
from cornn._extras import missing_extra

__all__ = [
    "COLOURS",
    "STYLES",
    "add_legend_below",
    "add_note",
    "canvas",
    "data_uri",
    "plot_line",
    "save",
    "set_panel_title",
    "shorten",
    "styled",
    "use_log_scale",
    "use_whole_ticks",
]

# Okabe and Ito's palette, safe for colour-blind readers. The line styles distinguish curves in greyscale.
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
    "svg.fonttype": "none",  # text stays text: small, searchable files
    "font.family": "sans-serif",
    "svg.hashsalt": "cornn",
}


Arguments = ParamSpec("Arguments")


def styled(draw: Callable[Arguments, Any]) -> Callable[Arguments, Any]:
    """Decorate a drawing function: apply `SETTINGS` while it runs."""

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
    """Return a figure without a window system and its axes, (rows, columns); `size`: width and height in inches."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def shorten(name: str, most: int = 16) -> str:
    """Cut a name of the user's data to `most` characters, and escape dollar signs, which would start a formula."""
    return (name if len(name) <= most else name[: most - 1] + "…").replace("$", r"\$")


def plot_line(axes: Any, x: Any, values: Any, **options: Any) -> None:
    """Plot a line, and a point for every value without a known neighbour, which a line alone does not show.

    Args:
        axes: The axes to draw on.
        x: Positions, (steps,).
        values: Values, (steps,); NaN leaves a gap.
        **options: Further arguments of `Axes.plot`.
    """
    x, values = np.asarray(x), np.asarray(values, np.float64)
    (line,) = axes.plot(x, values, **options)
    known = np.pad(np.isfinite(values), 1)
    alone = known[1:-1] & ~known[:-2] & ~known[2:]
    if alone.any():
        axes.plot(x[alone], values[alone], ".", color=line.get_color(), markersize=4)


def use_whole_ticks(axis: Any) -> None:
    """Put the ticks of an axis at whole numbers only, for counts and steps."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator("auto", steps=[1, 2, 5, 10], integer=True, min_n_ticks=1))


def use_log_scale(axes: Any) -> None:
    """Make the vertical axis logarithmic, with plain numbers as labels.

    The default labels are formulas: slow to draw, and not searchable in the file.
    """
    from matplotlib.ticker import LogFormatter

    class PlainFormatter(LogFormatter):
        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:g}" if super().__call__(x, pos) else ""

    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(PlainFormatter())
    axes.yaxis.set_minor_formatter(PlainFormatter(minor_thresholds=(1, 0.4)))


def set_panel_title(axes: Any, name: str, title: str) -> None:
    """Title a panel, with a letter to refer to it by."""
    axes.set_title(f"({name})  {title}")


def add_legend_below(axes: Any, columns: int = 1) -> None:
    """Add a legend below a panel, where it cannot cover a curve."""
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.15), ncols=columns, borderaxespad=0)


def add_note(figure: Any, text: str) -> None:
    """Add a caption below the panels."""
    figure.supxlabel(text, fontsize=8, color="#444444", x=0.01, ha="left")


def data_uri(figure: Any) -> str:
    """Encode a figure as an SVG data URI, for HTML pages without other files."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context(SETTINGS), warnings.catch_warnings():
        # Text stays text: the reader's fonts may have glyphs that matplotlib's lack.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    return "data:image/svg+xml;base64," + base64.b64encode(buffer.getvalue()).decode()


def save(figure: Any, path: Path) -> list[Path]:
    """Write a figure as `path`.svg and `path`.png, and return both paths."""
    import matplotlib

    options: dict[str, dict[str, Any]] = {"svg": {"metadata": {"Date": None}}}
    options["png"] = {"metadata": {"Software": None}, "dpi": 150}
    paths = []
    with write_errors(path), matplotlib.rc_context(SETTINGS):
        path.parent.mkdir(parents=True, exist_ok=True)
        for ending, settings in options.items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format=ending, **settings)
            paths.append(path.with_name(f"{path.name}.{ending}"))
            write_atomically(paths[-1], buffer.getvalue())
    return paths
