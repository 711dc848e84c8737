"""cornn report"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._atomic import check_destination, write_text
from cornn.artifacts import find_runs, is_saved
from cornn.cli.console import line, screen
from cornn.lab import records
from cornn.lab.experiments import reproduce
from cornn.lab.report.page import page
from cornn.lab.runs import open_run


@dataclass(frozen=True)
class ReportCommand:
    """Write an HTML page with all recorded results: the paper's tables and figures next to ours, speed and theory.

    The page is self-contained, printable, and works on phones and in dark mode."""

    sources: tyro.conf.Positional[tuple[Path, ...]] = (Path("results"),)
    """Folders of records, and finished run folders of `cornn train`."""
    out: Annotated[Path, tyro.conf.arg(aliases=("-o",))] = Path("report.html")
    """The page to write."""

    def run(self) -> None:
        console = screen()
        check_destination(self.out)
        with console.status("reading the records and drawing the figures"):
            results = _collect(self.sources)
            text = page(results, _missing(results))
        write_text(self.out, text)
        line(console, str(self.out))


def _missing(results: records.Results) -> list[tuple[str, str, int]]:
    """Return the experiments without all their runs, and how many are missing."""
    missing = [(experiment, len(reproduce.missing(experiment, results))) for experiment in reproduce.plan(["all"])]
    return [(experiment.base.task.name, experiment.name, seeds) for experiment, seeds in missing if seeds]


def _collect(sources: Sequence[Path]) -> list[Path]:
    """Return the folders of records and of finished runs, the seeds of a folder of several seeds one by one."""
    for source in sources:
        if not source.is_dir():
            problem = "is a file" if source.exists() else "does not exist"
            raise FileNotFoundError(f"{source} {problem}: pass a folder of records or a run folder")
    return [folder for source in sources for folder in _runs(source)]


def _runs(source: Path) -> list[Path]:
    """Return the finished runs in a folder of several seeds, or the folder itself."""
    folders = find_runs(source)
    if folders == [source]:
        return folders
    done = [folder for folder in folders if is_saved(folder) and open_run(folder).result is not None]
    if not done:
        raise ValueError(f"no seed of {source} has finished: continue with `cornn resume {source}`")
    return done
