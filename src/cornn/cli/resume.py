"""cornn resume"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from cornn import training
from cornn.cli.shared import conclude, watched

__all__ = ["ResumeCommand"]


@dataclass(frozen=True)
class ResumeCommand:
    """Go on with a run that was stopped, from its last checkpoint."""

    folder: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """The run folder."""
    quiet: bool = False
    """Print the closing lines only."""

    def run(self) -> None:
        console = Console()
        conclude(console, watched(console, self.quiet, lambda watch: training.resume(self.folder, watch)))
