"""cornn evaluate"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._checked import convert
from cornn.artifacts import RESULT
from cornn.cli.console import line, screen
from cornn.lab import training


@dataclass(frozen=True)
class EvaluateCommand:
    """Recompute the test metric of a finished run from its weights."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run", metavar="RUN")]
    """The run folder."""

    def run(self) -> None:
        console = screen()
        with console.status("reading the data and evaluating"):
            finished, task, metric = training.evaluate(self.folder)
        where = f"{self.folder / RESULT}: test"
        recorded = convert(float | None, (finished.result or {}).get("test"), where)
        line(
            console,
            f"{self.folder}: test {task.metric} ",
            (f"{metric:.6f}", "bold"),
            f", compared with {task.trivial:.4f} {task.trivial_words}",
            f"; recorded: {recorded:.6f}" if recorded is not None else "",
        )
