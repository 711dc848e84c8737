"""cornn predict"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._atomic import check_destination, write_text
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
        used = [self.model, self.data]
        for path in filter(None, (self.attributions, self.out)):
            check_destination(path, *used)
            used.append(path)
        console = screen(stderr=True)
        with console.status("predicting"):
            from cornn.fitting import attribute_file, predict_file  # takes seconds
            from cornn.fitting.folder import format_csv

            table = predict_file(self.model, self.data, self.level)
            text = format_csv(table)
            steps = None if self.attributions is None else attribute_file(self.model, self.data)
        if self.attributions is not None and steps is not None:
            write_text(self.attributions, format_csv(steps))
            line(console, f"wrote {format_count(len(steps.rows), 'row')} to {self.attributions}")
        if self.out is None:
            # A terminal would execute control characters in labels; files and pipes get the labels unchanged.
            print(escape_controls(text) if sys.stdout.isatty() else text, end="")
            return
        write_text(self.out, text)
        line(console, f"wrote {format_count(len(table.rows), 'row')} to {self.out}")
