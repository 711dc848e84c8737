"""cornn report"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._atomic import write_atomically, write_errors
from cornn.artifacts import find_runs, is_saved
from cornn.cli.console import line, screen
from cornn.lab import records
from cornn.lab.experiments import reproduce
from cornn.lab.report.page import page
from cornn.lab.runs import open_run

__all__ = ["ReportCommand"]


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
        with console.status("reading the records and drawing the figures"), tempfile.TemporaryDirectory() as folder:
            results = _collect(self.sources, Path(folder))
            text = page(results, _missing(results))
        with write_errors(self.out):
            write_atomically(self.out, text.encode())
        line(console, str(self.out))


def _missing(results: Path) -> list[tuple[str, str, int]]:
    """Return the experiments without all their runs, and how many are missing."""
    missing = [(one, len(reproduce.missing(one, results))) for one in reproduce.plan(["all"])]
    return [(one.base.task.name, one.name, seeds) for one, seeds in missing if seeds]


def _runs(source: Path) -> list[Path]:
    """Return the finished runs in a folder of several seeds, or the folder itself."""
    found = find_runs(source)
    if found == [source]:
        return found
    done = [folder for folder in found if is_saved(folder) and open_run(folder).result is not None]
    if not done:
        raise ValueError(f"no seed of {source} has finished: continue with `cornn resume {source}`")
    return done


def _collect(sources: Sequence[Path], folder: Path) -> Path:
    """Return one folder of records: the given one, or all records of several sources copied to `folder`."""
    if len(sources) == 1 and not is_saved(sources[0]):
        return sources[0]
    for source in (own for given in sources for own in _runs(given)):
        if not is_saved(source):
            if not source.is_dir():
                raise FileNotFoundError(f"{source} does not exist: give a folder of records or a run folder")
            shutil.copytree(source, folder, dirs_exist_ok=True)
            continue
        run = open_run(source)
        if run.result is None:
            raise ValueError(f"{source} has not finished: continue with `cornn resume {source}`")
        records.write(records.record(run), folder)
    return folder
