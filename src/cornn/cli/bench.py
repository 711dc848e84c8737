"""cornn bench"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import torch
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from cornn._machine import machine
from cornn.cli.console import line, screen
from cornn.lab import bench
from cornn.lab.bench.measure import row
from cornn.lab.bench.plot import check_plotting, draw
from cornn.lab.runs import write_json

__all__ = ["BenchCommand"]


@dataclass(frozen=True)
class BenchCommand:
    """Measure how long a sequence takes, and how much memory: every backend that is usable here beside a plain loop,
    PyTorch's own layers, and torchrecurrent's coRNN where it is installed.

    Medians over turns after warm-up, on a GPU by device events. With --against, how the cost grows with one size."""

    device: Literal["cpu", "cuda"] = "cpu"
    """Where to measure."""
    cases: tuple[str, ...] = ()
    """Which of the cases. Default: all that are meant for the device."""
    threads: tuple[int, ...] = ()
    """On a CPU: numbers of threads, one after the other. Default: as many as PyTorch would use."""
    repeats: int = 7
    """Turns. In one a contender makes as many passes as fit a tenth of a second, one at least."""
    quick: bool = False
    """Three small cases in three turns, or every other point of --against: half a minute or so."""
    against: Literal["length", "batch", "size"] | None = None
    """Forward and backward against the number of steps (one sequence), of sequences, or of neurons, as a plot; on a GPU
    without the host's time, as CUDA graphs, of those that can be captured."""
    longest: float = 25.0
    """With --against: seconds of one pass beyond which a contender is not followed."""
    plot: Path | None = None
    """Where the plot goes, less the endings .svg and .png. Default: bench-AGAINST-DEVICE."""
    json: Path | None = None
    """Write a record to this file."""

    def run(self) -> None:
        if self.device == "cuda" and not torch.cuda.is_available():
            raise RuntimeError("--device cuda: PyTorch finds no usable GPU here; cornn doctor says what is usable")
        unknown = [name for name in self.cases if name not in bench.CASES]
        if unknown:
            raise ValueError(f"unknown case {unknown[0]!r}: choose any of {', '.join(bench.CASES)}")
        if self.json is not None and not self.json.parent.is_dir():
            raise ValueError(f"--json: there is no folder {self.json.parent}")
        if min(self.threads, default=1) < 1 or self.repeats < 1 or self.longest <= 0:
            raise ValueError("--threads, --repeats and --longest must be above 0")
        if self.against is not None:
            check_plotting()
            if len(self.threads) > 1:
                raise ValueError("--against takes one number of --threads at a time")
        console, before = screen(), torch.get_num_threads()
        line(console, ", ".join(f"{key} {value}" for key, value in machine().items() if value))
        try:
            if self.against is None:
                self._compare(console)
            else:
                self._sweep(console, self.against)
        finally:
            torch.set_num_threads(before)

    def _threads(self) -> tuple[int, ...]:
        """A GPU's time does not depend on them."""
        return self.threads if self.threads and self.device == "cpu" else (torch.get_num_threads(),)

    def _compare(self, console: Console) -> None:
        usual = (
            bench.QUICK if self.quick else [name for name, case in bench.CASES.items() if self.device in case.devices]
        )
        rows, reasons = [], {}
        for threads in self._threads():
            torch.set_num_threads(threads)
            for name in self.cases or usual:
                case = bench.CASES[name]
                with _progress(console) as say:
                    figures, left_out = bench.compare(
                        case, self.device, 3 if self.quick else self.repeats, lambda text, name=name: say(name, text)
                    )
                rows += [row(name, case, threads, figure) for figure in figures]
                reasons |= left_out
                console.print(_table(name, case, threads if self.device == "cpu" else None, figures))
                self._write("forward and backward, all gradients, median", rows)
        console.print(
            "both: forward and backward with the gradients of all weights. ÷: how many times faster it is.", style="dim"
        )
        for name, reason in reasons.items():
            line(console, f"{name} is left out: {reason}", style="dim")
        self._say_where(console)

    def _sweep(self, console: Console, against: str) -> None:
        sweep = bench.SWEEPS[against]
        if self.quick:
            sweep = bench.Sweep(sweep.field, sweep.label, sweep.values[:-1:2], sweep.case)
        threads = self._threads()[0]
        torch.set_num_threads(threads)
        with _progress(console) as say:
            repeats = 3 if self.quick else self.repeats
            points, floor, failed = bench.follow(
                sweep, self.device, repeats, self.longest, lambda text: say(f"against {against}", text)
            )
        table = Table(f"µs a step, by {sweep.label}", box=None, header_style="bold")
        for value in sweep.values:
            table.add_column(f"{value:,}", justify="right")
        for name in dict.fromkeys(point.contender for point in (*points, *floor)):
            here = {point.value: point for point in (*points, *floor) if point.contender == name}
            table.add_row(name, *(_microseconds(here[value]) if value in here else "-" for value in sweep.values))
        console.print(table)
        for name, reason in failed.items():
            line(console, f"{name} ends before {reason}", style="dim")
        held = {"steps": "steps", "batch": "sequences", "hidden": "neurons"}
        others = ", ".join(
            _counted(getattr(sweep.case, field), words.removesuffix("s"))
            for field, words in held.items()
            if field != sweep.field
        )
        where = f"{machine()['gpu']}, CUDA graphs" if self.device == "cuda" else _counted(threads, "thread")
        stem = self.plot or Path(f"bench-{against}-{self.device}")
        written = draw(points, floor, sweep.label, f"{others}; {where}", stem)
        line(console, f"plot: {', '.join(map(str, written))}")
        rows = [asdict(point) | {"threads": threads} for point in (*points, *floor)]
        self._write(f"forward and backward against {against}, {others}; {where}", rows)
        self._say_where(console)

    def _write(self, kind: str, rows: list[dict]) -> None:
        """After every case, so that what ends the command early loses none that was measured."""
        if self.json is not None:
            write_json(self.json, bench.record(kind, rows), indent=1)

    def _say_where(self, console: Console) -> None:
        if self.json is not None:
            line(console, f"record: {self.json}")


def _microseconds(point: bench.Point) -> str:
    figure = point.seconds / point.steps * 1e6
    return f"{figure:.2f}" if figure < 10 else f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'' if number == 1 else 's'}"


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Gives `say(what, detail)`, which shows what is being measured."""
    columns = (SpinnerColumn(), TextColumn("[bold]{task.fields[what]}[/]  {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        shown = progress.add_task("", what="")
        yield lambda what, detail: progress.update(shown, what=what, description=detail)


def _table(name: str, case: bench.Case, threads: int | None, figures: list[bench.Figure]) -> Table:
    """One case, the fastest first."""
    sizes = [_counted(case.steps, "step"), _counted(case.batch, "sequence"), _counted(case.hidden, "neuron")]
    sizes += [_counted(case.inputs, "input")] + ([] if threads is None else [_counted(threads, "thread")])
    table = Table(title=f"\n{name}: {', '.join(sizes)}", title_justify="left", box=None, header_style="bold")
    table.add_column("")
    for heading in ("forward\nms", "both\nms", "both, µs\na step", "peak\nMB", "plain\nloop ÷", "nn.\nLSTM ÷"):
        table.add_column(heading, justify="right")
    took = {figure.contender: figure.seconds for figure in figures}
    for figure in figures:
        table.add_row(
            figure.contender,
            f"{figure.forward_seconds * 1e3:.2f}",
            f"{figure.seconds * 1e3:.2f}",
            f"{figure.seconds / case.steps * 1e6:.2f}",
            "-" if figure.memory is None else f"{figure.memory / 1e6:.1f}",
            *(f"{took[other] / figure.seconds:.2f}" for other in ("plain loop", "nn.LSTM")),
        )
    return table
