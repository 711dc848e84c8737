"""cornn figure"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn.cli.console import line, screen
from cornn.lab.report.figures import FIGURES, save

__all__ = ["FigureCommand"]


@dataclass(frozen=True)
class FigureCommand:
    """Draw one of the figures, as SVG and as PNG.

    illustration: one and two neurons, the ODE beside the recurrence. lorenz96: trajectories for F = 0.9 and 8.
    assumptions: the hypothesis on the weights during training, from run folders. lags: gradients by lag, with the
    bounds on them. statements: where statements of the paper fail. memory: what dt, gamma and epsilon do. spectrum:
    what neurons that hold and neurons that ring know of a sequence.
    """

    name: tyro.conf.Positional[str]
    """illustration, lorenz96, assumptions, lags, statements, memory or spectrum."""
    runs: Annotated[tyro.conf.Positional[tuple[Path, ...]], tyro.conf.arg(metavar="RUN")] = ()
    """For assumptions: run folders whose training was watched, or records of them."""
    out: Path | None = None
    """Where to write, without an ending. Default: figures/NAME."""

    def run(self) -> None:
        if self.name not in FIGURES:
            raise ValueError(f"unknown figure {self.name!r}: choose one of {', '.join(FIGURES)}")
        if self.runs and self.name != "assumptions":
            raise ValueError(f"the figure {self.name} takes no run folders: only assumptions does")
        figure = FIGURES[self.name](self.runs) if self.name == "assumptions" else FIGURES[self.name]()
        for path in save(figure, self.out or Path("figures") / self.name):
            line(screen(), str(path))
