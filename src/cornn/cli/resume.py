"""cornn resume"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from cornn.cli.progress import (
    OutputOptions,
    print_result,
    print_summary,
    resumable,
    run_with_progress,
    training_console,
)
from cornn.lab import training


@dataclass(frozen=True)
class ResumeCommand:
    """Resume an interrupted run, or one with several seeds, from its last checkpoint."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run", metavar="RUN")]
    """The run folder, or the folder of a run with --seeds."""
    device: Literal["auto", "cpu", "cuda"] | None = None
    """Device to train on. Default: that of the interrupted run. On other devices the results differ by rounding."""
    output: OutputOptions = field(default_factory=OutputOptions)

    def run(self) -> None:
        console = training_console(self.output)
        with resumable(console, self.folder):
            self._resume(console)

    def _resume(self, console: Console) -> None:
        if training.holds_seeds(self.folder):
            summary, runs = run_with_progress(
                console, self.output, self.folder, lambda watch: training.resume_seeds(self.folder, watch, self.device)
            )
            print_summary(console, self.output, self.folder, summary, runs)
        else:
            finished = run_with_progress(
                console, self.output, self.folder, lambda watch: training.resume(self.folder, watch, self.device)
            )
            print_result(console, self.output, finished)
