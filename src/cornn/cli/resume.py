"""cornn resume"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro

from cornn.cli.progress import OutputOptions, train_with_progress, training_console
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
        resume = training.resume_seeds if training.holds_seeds(self.folder) else training.resume
        train_with_progress(
            training_console(self.output),
            self.output,
            self.folder,
            lambda watch: resume(self.folder, watch, self.device),
        )
