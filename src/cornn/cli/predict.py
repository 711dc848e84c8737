"""cornn predict"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._atomic import write_text
from cornn._counts import format_count
from cornn._terminal import escape_controls
from cornn.cli.console import line, screen


@dataclass(frozen=True)
class PredictCommand:
    """Predict with a model from `cornn fit`; prints a CSV with one row per sequence, or per step of a forecast."""

    model: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="MODEL")]
    """The folder that `cornn fit` wrote, or a saved estimator."""
    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """The data file, in the layout of the training data; it needs no target."""
    level: float | None = None
    """Level of the intervals of forecasts, the columns low and high. Default: 0.9."""
    attributions: Path | None = None
    """A second CSV file to write, with one row per step: how much each value contributed to the prediction."""
    out: Path | None = None
    """The CSV file to write. Default: stdout."""

    def run(self) -> None:
        from cornn.fitting import attribute_file, predict_file
        from cornn.fitting.folder import format_csv

        table = predict_file(self.model, self.data, self.level)
        text = format_csv(table)
        if self.attributions is not None:
            steps = attribute_file(self.model, self.data)
            write_text(self.attributions, format_csv(steps))
            line(screen(stderr=True), f"wrote {format_count(len(steps.rows), 'row')} to {self.attributions}")
        if self.out is None:
            # A terminal would execute control characters in labels; files and pipes get the labels unchanged.
            print(escape_controls(text) if sys.stdout.isatty() else text, end="")
            return
        write_text(self.out, text)
        line(screen(stderr=True), f"wrote {format_count(len(table.rows), 'row')} to {self.out}")
