"""cornn resume"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn.cli.console import TELL_ALL, Telling, conclude, conclude_seeds, console_of, watched
from cornn.lab import training

__all__ = ["ResumeCommand"]


@dataclass(frozen=True)
class ResumeCommand:
    """Go on with a run that was stopped, or with several seeds of one, from the last checkpoint."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """The run folder, or the folder of several seeds."""
    telling: Telling = TELL_ALL

    def run(self) -> None:
        console = console_of(self.telling)
        if training.holds_seeds(self.folder):
            summary, runs = watched(
                console, self.telling, self.folder, lambda watch: training.resume_seeds(self.folder, watch)
            )
            conclude_seeds(console, self.telling, self.folder, summary, runs)
        else:
            finished = watched(console, self.telling, self.folder, lambda watch: training.resume(self.folder, watch))
            conclude(console, self.telling, finished)
