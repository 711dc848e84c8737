"""cornn data"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from rich.filesize import decimal
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table
from rich.text import Text

from cornn._arguments import choose
from cornn.cli.console import line, screen
from cornn.lab.data import catalogue, find_folder
from cornn.lab.data.cache import CACHE
from cornn.lab.data.download import Watch

COLOUR = {"present": "green", "missing": "yellow", "damaged": "red"}


@dataclass(frozen=True)
class ListCommand:
    """List which data sets are present, missing or damaged, and the folder that was searched. The default."""

    data: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="")] = None
    """The data folder. Default: CORNN_DATA, or data/."""

    def run(self) -> None:
        console, where = screen(), find_folder(self.data)
        table = Table("set", "tasks", "", "size", box=None, header_style="bold")
        table.add_column("", overflow="fold")  # paths are printed whole, also in a narrow terminal
        missing = []
        for name, entry in catalogue.SETS.items():
            state = catalogue.state(name, where)
            size = decimal(state.size) if state.size else f"{entry.megabytes} MB to download"
            word = Text(state.status, COLOUR[state.status])
            table.add_row(name, ", ".join(entry.tasks), word, size, state.detail)
            missing += [name] if state.status == "missing" else []
        line(console, f"data folder: {where}", "" if where.is_dir() else ", which does not exist")
        console.print(table)
        cached = sum(file.stat().st_size for file in (where / CACHE).glob("*") if file.is_file())
        if cached:
            line(console, f"{decimal(cached)} of parsed data in {where / CACHE}", style="dim")
        if missing:
            line(console, f'"cornn data get {missing[0]}" downloads it; CORNN_DATA sets another folder')


@dataclass(frozen=True)
class GetCommand:
    """Download a data set from its publisher, verify and unpack it. Interrupted downloads are resumed."""

    name: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="SET")]
    """Name of the data set: mnist, cifar10, har, imdb or glove."""
    data: Annotated[Path | None, tyro.conf.arg(help_behavior_hint="")] = None
    """The data folder. Default: CORNN_DATA, or data/."""

    def run(self) -> None:
        console, where = screen(), find_folder(self.data)
        state = catalogue.state(choose("data set", self.name, catalogue.SETS), where)
        if state.status != "present":
            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=24),
                DownloadColumn(),
                TransferSpeedColumn(),
                TimeRemainingColumn(),
            )
            with Progress(*columns, console=console, transient=True) as bar:

                def watch(file: str) -> Watch:
                    task_id = bar.add_task(Path(file).name, total=None)
                    return lambda done, total: bar.update(task_id, completed=done, total=total)

                tell = lambda sentence: line(console, sentence, style="dim")  # noqa: E731
                state = catalogue.get(self.name, where, watch, tell)
        title = catalogue.SETS[self.name].title
        if state.status != "present":
            raise ValueError(f"{title} is {state.status} after the download: {state.detail}")
        line(console, f"{title} is complete: {state.detail}, {decimal(state.size)}")


@dataclass(frozen=True)
class DataCommand:
    """List the data sets, or download one."""

    action: (
        Annotated[ListCommand, tyro.conf.subcommand("list")] | Annotated[GetCommand, tyro.conf.subcommand("get")]
    ) = field(default_factory=ListCommand)

    def run(self) -> None:
        self.action.run()
