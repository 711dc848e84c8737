"""cornn protocol"""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from cornn.cli.console import line, screen
from cornn.cli.workers import ExperimentCommand, print_runs, stoppable
from cornn.lab.experiments import reproduce
from cornn.lab.experiments.protocol import (
    Protocol,
    check_committed,
    chosen_path,
    read_choice,
    read_protocol,
    write_choice,
)


@dataclass(frozen=True)
class ProtocolCommand(ExperimentCommand):
    """Search and test by a protocol that cannot leak: do the next step of a protocol file.

    The file states the target, the search space and the seeds of the test, and must be committed. The first call
    searches by validation, without access to the test split, and writes the choice to NAME-chosen.json. Once that file
    is committed too, the next call tests the choice, once for each seed, and records the runs."""

    file: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(metavar="FILE")] = None
    """The protocol file, such as results/protocols/psmnist-128.json."""
    folder: Path = Path("runs/protocol")
    """Working folder, with the database of the trials and the run folders."""

    def run(self) -> None:
        console, file = screen(), self.file
        if file is None:
            raise ValueError(_explain_missing_file(self.results))
        protocol = read_protocol(file)
        commit = check_committed(file)
        line(console, (file.stem, "bold"), f": {protocol.target} (committed in {commit[:7]})")
        with stoppable():
            if chosen_path(file).exists():
                self._test(console, protocol, file)
            else:
                self._search(console, protocol, file)

    def _search(self, console: Console, protocol: Protocol, file: Path) -> None:
        experiment = protocol.search(file.stem, **self.place)
        line(console, f"next: {experiment.trials} trials by validation; the test split is locked")
        if self.dry_run:
            return
        (status,) = self.work(console, [experiment], self.folder)
        choice_file = write_choice(file, protocol, status)
        if status.best is not None:
            line(console, f"trial {status.best['trial']}, validation {status.best['validation']:.4g}")
        line(console, f"commit {choice_file}, then run the same command to test the choice")

    def _test(self, console: Console, protocol: Protocol, file: Path) -> None:
        choice = read_choice(file, protocol)
        experiment = protocol.test(file.stem, choice, **self.place)
        left = reproduce.missing(experiment, self.results)
        line(console, f"next: test trial {choice['trial']} with seeds {list(left)}" if left else "complete")
        if self.dry_run or not left:
            return
        about = {
            "file": file.name,
            "commit": choice["protocol"]["commit"],
            "chosen": check_committed(chosen_path(file)),
        }
        finish = partial(reproduce.record_runs, results=self.results, about={"protocol": about})
        (status,) = self.work(console, [replace(experiment, seeds=left)], self.folder, finish=finish)
        print_runs(console, status)
        if not status.remaining:
            reproduce.check_recorded(experiment, self.results)


def _explain_missing_file(results: Path) -> str:
    """Return the error about a missing protocol file, with the files there are."""
    folder = results / "protocols"
    present = set(folder.glob("*.json"))
    files = sorted(present - set(map(chosen_path, present)), key=lambda file: file.stem)
    if files:
        return f"choose a protocol: {', '.join(file.stem for file in files)}; for example `cornn protocol {files[0]}`"
    return (
        f"choose a protocol file, for example `cornn protocol {folder / 'psmnist-128.json'}`; there are none in "
        f"{folder}, and `cornn protocol --help` says what is in one"
    )
