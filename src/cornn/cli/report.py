"""cornn report"""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from cornn._atomic import write_atomically, write_errors
from cornn.cli.console import line, screen
from cornn.lab import records
from cornn.lab.experiments import reproduce
from cornn.lab.report.page import page
from cornn.lab.runs import open_run
from cornn.lab.training import task_name

__all__ = ["ReportCommand"]


@dataclass(frozen=True)
class ReportCommand:
    """Write one page of what was measured: the paper's tables and figures with ours beside them, speed and theory.

    It needs no network, prints, and reads well on a phone and in the dark."""

    sources: tyro.conf.Positional[tuple[Path, ...]] = (Path("results"),)
    """Folders of records, and run folders of `cornn train` that are done."""
    out: Annotated[Path, tyro.conf.arg(aliases=("-o",))] = Path("report.html")
    """The page."""

    def run(self) -> None:
        console = screen()
        with console.status("reading the records and drawing the figures"), tempfile.TemporaryDirectory() as folder:
            results = _together(self.sources, Path(folder))
            text = page(results, _left(results))
        with write_errors(self.out):
            write_atomically(self.out, text.encode())
        line(console, str(self.out))


def _left(results: Path) -> list[tuple[str, str, int]]:
    """The experiments that lack runs, with how many."""
    missing = [(one, len(reproduce.missing(one, results))) for one in reproduce.plan(["all"])]
    return [(task_name(one.config.task), one.name, seeds) for one, seeds in missing if seeds]


def _runs(source: Path) -> list[Path]:
    """The runs of a folder of several seeds that are done, or the folder itself."""
    if not (source / "seeds.json").exists():
        return [source]
    done = [folder for folder in sorted(source.glob("seed-*")) if (folder / "result.json").exists()]
    if not done:
        raise ValueError(f"no seed of {source} is done yet: go on with `cornn resume {source}`")
    return done


def _together(sources: Sequence[Path], folder: Path) -> Path:
    """One folder of records: the one that is given, or what several and single runs have, put together in `folder`."""
    if len(sources) == 1 and not any((sources[0] / name).exists() for name in ("config.json", "seeds.json")):
        return sources[0]
    for source in (own for given in sources for own in _runs(given)):
        if not (source / "config.json").exists():
            if not source.is_dir():
                raise FileNotFoundError(f"{source} is neither a folder of records nor a run: name one that is there")
            shutil.copytree(source, folder, dirs_exist_ok=True)
            continue
        run = open_run(source)
        if run.config.get("kind") == "fit":
            raise ValueError(f"{source} was written by `cornn fit`: its page is {source / 'report.html'}")
        if run.result is None:
            raise ValueError(f"{source} is not done yet: go on with `cornn resume {source}`")
        records.write(records.record(run), folder)
    return folder
