"""cornn data"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from cornn.data import catalogue, folder
from cornn.data.cache import CACHE
from cornn.data.download import Watch

__all__ = ["DataCommand"]

COLOUR = {"there": "green", "missing": "yellow", "damaged": "red"}


@dataclass(frozen=True)
class ListCommand:
    """Say which data sets are there, missing or damaged, and where they were looked for. This is the default."""

    data: Path | None = None
    """The data folder. Default: CORNN_DATA, or data/."""

    def run(self) -> None:
        console, where = Console(), folder(self.data)
        table = Table("set", "for the tasks", "", "size", "", box=None, header_style="bold")
        absent = []
        for name, entry in catalogue.SETS.items():
            found = catalogue.state(name, where)
            size = decimal(found.size) if found.size else f"{entry.megabytes} MB to download"
            word = f"[{COLOUR[found.word]}]{found.word}[/]"
            table.add_row(name, ", ".join(entry.tasks), word, size, escape(found.detail))
            absent += [name] if found.word == "missing" else []
        console.print(
            f"data folder: {escape(str(where))}" + ("" if where.is_dir() else ", which is not there"), highlight=False
        )
        console.print(table)
        kept = sum(file.stat().st_size for file in (where / CACHE).glob("*") if file.is_file())
        if kept:
            console.print(f"{decimal(kept)} of parsed data are kept in {where / CACHE}", style="dim", highlight=False)
        if absent:
            console.print(f'"cornn data get {absent[0]}" downloads; CORNN_DATA names another folder', highlight=False)


@dataclass(frozen=True)
class GetCommand:
    """Download a data set from its publisher, verify and unpack it. One that was broken off goes on where it was."""

    name: tyro.conf.Positional[Literal["mnist", "cifar10", "har", "imdb", "glove"]]
    """Which one."""
    data: Path | None = None
    """The data folder. Default: CORNN_DATA, or data/."""

    def run(self) -> None:
        console, where = Console(), folder(self.data)
        found = catalogue.state(self.name, where)
        if found.word != "there":
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=console, transient=True) as bar:

                def watch(file: str) -> Watch:
                    shown = bar.add_task(Path(file).name, total=None)
                    return lambda done, whole: bar.update(shown, completed=done, total=whole)

                tell = lambda sentence: console.print(sentence, style="dim", highlight=False)  # noqa: E731
                found = catalogue.get(self.name, where, watch, tell)
        title = catalogue.SETS[self.name].title
        if found.word != "there":
            raise ValueError(f"{title} is {found.word} after the download: {found.detail}")
        sentence = f"{title} is there: {escape(found.detail)}, {decimal(found.size)}"
        console.print(sentence, highlight=False, soft_wrap=True)


@dataclass(frozen=True)
class DataCommand:
    """List the data sets, or download one."""

    action: (
        Annotated[ListCommand, tyro.conf.subcommand("list")] | Annotated[GetCommand, tyro.conf.subcommand("get")]
    ) = field(default_factory=ListCommand)

    def run(self) -> None:
        self.action.run()
