"""cornn report"""

from dataclasses import dataclass
from pathlib import Path

import tyro
from rich.console import Console

from cornn.report.page import page

__all__ = ["ReportCommand"]


@dataclass(frozen=True)
class ReportCommand:
    """Write one page of what was measured: the paper's tables and figures with ours beside them, speed and theory.

    It needs no network, prints, and reads well on a phone and in the dark."""

    results: tyro.conf.Positional[Path] = Path("results")
    """The folder of the records."""
    out: Path = Path("report.html")
    """The page."""

    def run(self) -> None:
        console = Console()
        with console.status("reading the records and drawing the figures"):
            text = page(self.results)
        try:
            self.out.write_text(text, encoding="utf8")
        except OSError as error:
            raise OSError(f"cannot write {self.out} ({error.strerror}): choose another with --out") from error
        console.print(str(self.out), highlight=False)
