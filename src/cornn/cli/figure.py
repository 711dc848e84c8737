"""cornn figure"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._arguments import choose
from cornn._atomic import check_destination
from cornn.cli.console import line, screen
from cornn.lab.report.figures import FIGURES, save


@dataclass(frozen=True)
class FigureCommand:
    """Draw a figure as SVG and PNG.

    illustration: one and two neurons, ODE and recurrence. lorenz96: trajectories for F = 0.9 and 8. assumptions: the
    paper's hypothesis on the weights during training. lags: gradients by lag and their bounds. statements: false claims
    of the paper. memory: the effect of dt, gamma and epsilon. spectrum: overdamped and underdamped neurons.
    """

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="NAME")]
    """Name of the figure: illustration, lorenz96, assumptions, lags, statements, memory or spectrum."""
    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")] = ()
    """For assumptions: run folders, or records, of runs trained with --theory."""
    out: Path | None = None
    """Path of both files, with or without the extension. Default: figures/NAME."""

    def run(self) -> None:
        choose("figure", self.name, FIGURES)
        if self.runs and self.name != "assumptions":
            raise ValueError(f"the figure {self.name} takes no run folders: remove them (only assumptions takes any)")
        out = self.out or Path("figures") / self.name
        if out.suffix in (".svg", ".png"):
            out = out.with_suffix("")
        console = screen()
        check_destination(out)
        with console.status(f"drawing the figure {self.name}"):
            figure = FIGURES[self.name](self.runs) if self.name == "assumptions" else FIGURES[self.name]()
            paths = save(figure, out)
        for path in paths:
            line(console, str(path))
