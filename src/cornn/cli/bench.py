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

from cornn._arguments import choose
from cornn._atomic import check_destination
from cornn._counts import format_count
from cornn._machine import machine, resolve_device
from cornn.cli.console import line, screen
from cornn.lab import bench
from cornn.lab.bench.measure import row
from cornn.lab.bench.plot import check_plotting, draw
from cornn.lab.runs import write_json


@dataclass(frozen=True)
class BenchCommand:
    """Measure time and memory per sequence: every usable backend, a plain loop, PyTorch's layers, and torchrecurrent's
    coRNN if it is installed.

    Reports medians over rounds after warm-up; on a GPU, times are taken from device events. --against measures how the
    cost grows with one size."""

    device: Literal["cpu", "cuda"] = "cpu"
    """Device to measure on."""
    cases: tuple[str, ...] = ()
    """Names of the cases. Default: all cases for the device."""
    threads: tuple[int, ...] = ()
    """On a CPU: numbers of threads to measure with, one after the other. Default: PyTorch's."""
    repeats: int = 7
    """Number of rounds. Each times one contender for about 0.1 s (at least one pass)."""
    quick: bool = False
    """Measure only three small cases in three rounds, or every second point of --against."""
    against: Literal["length", "batch", "size"] | None = None
    """Plot forward and backward time against the number of steps (one sequence), of sequences or of neurons. On a GPU,
    contenders run as CUDA graphs, which excludes the host's time; those that cannot be captured are left out."""
    loop: bool = False
    """Measure layers as in your own training loop: the default CoRNN, CoRNN with given constants, and PyTorch's layers;
    on a GPU launched by PyTorch, captured as CUDA graphs and, for two cases, compiled by torch.compile. --cases and
    --repeats apply."""
    longest: float = 25.0
    """With --against: stop measuring a contender once a pass takes this many seconds."""
    plot: Path | None = None
    """Path of the plot without the suffixes .svg and .png. Default: bench-AGAINST-DEVICE."""
    json: Path | None = None
    """Write a record to this file."""

    def run(self) -> None:
        resolve_device(self.device)
        cases = bench.LOOPS if self.loop else bench.CASES
        for name in self.cases:
            choose("case", name, cases)
        if self.loop and self.against is not None:
            raise ValueError("--loop and --against are two kinds of measurements: choose one")
        if self.json is not None and not self.json.parent.is_dir():
            raise ValueError(f"--json: the folder {self.json.parent} does not exist")
        if self.json is not None:
            check_destination(self.json)
        if min(self.threads, default=1) < 1 or self.repeats < 1 or not self.longest > 0:
            raise ValueError("--threads, --repeats and --longest must be above 0")
        if len(self.threads) > 1 and (self.loop or self.against is not None):
            raise ValueError(f"{'--loop' if self.loop else '--against'} takes a single value of --threads")
        if self.against is not None:
            if self.cases:
                raise ValueError("--against has cases of its own: leave out --cases")
            check_plotting()
        elif self.plot is not None:
            raise ValueError("--plot is for --against length, batch or size: add it, or leave out --plot")
        console, threads_before = screen(), torch.get_num_threads()
        line(console, ", ".join(f"{key} {value}" for key, value in machine().items() if value))
        try:
            if self.loop:
                self._loops(console)
            elif self.against is None:
                self._compare(console)
            else:
                self._sweep(console, self.against)
        finally:
            torch.set_num_threads(threads_before)

    def _threads(self) -> tuple[int, ...]:
        """Return the numbers of threads to measure with. A GPU's time does not depend on them."""
        return self.threads if self.threads and self.device == "cpu" else (torch.get_num_threads(),)

    def _compare(self, console: Console) -> None:
        default_cases = (
            bench.QUICK if self.quick else [name for name, case in bench.CASES.items() if self.device in case.devices]
        )
        rows, reasons = [], {}
        for threads in self._threads():
            torch.set_num_threads(threads)
            for name in self.cases or default_cases:
                case = bench.CASES[name]
                with _progress(console) as say:
                    figures, left_out = bench.compare(
                        case, self.device, 3 if self.quick else self.repeats, lambda text, name=name: say(name, text)
                    )
                rows += [row(name, case, figure, threads=threads) for figure in figures]
                reasons |= left_out
                console.print(_table(name, case, threads if self.device == "cpu" else None, figures))
                self._write("forward and backward, all gradients, median", rows)
        console.print(
            "both: forward and backward with the gradients of all weights. ÷: speed-up over that model.", style="dim"
        )
        for name, reason in reasons.items():
            line(console, f"{name} is left out: {reason}", style="dim")
        self._print_path(console)

    def _loops(self, console: Console) -> None:
        torch.set_num_threads(self._threads()[0])
        quick = [name for name in bench.QUICK if name in bench.LOOPS]
        rows = []
        for name in self.cases or (quick if self.quick or self.device == "cpu" else bench.LOOPS):
            case = bench.LOOPS[name]
            modes = [mode for mode in bench.MODES if mode != "compiled" or name in bench.COMPILED]
            with _progress(console) as say:
                figures, left_out = bench.measure_loops(
                    case,
                    modes if self.device == "cuda" else modes[:1],
                    3 if self.quick else self.repeats,
                    self.device,
                    lambda text, name=name: say(name, text),
                )
            rows += [row(name, case, figure) for figure in figures]
            table = Table(title=_title(name, case), title_justify="left", box=None, header_style="bold")
            table.add_column("")
            table.add_column("mode")
            table.add_column("forward\nms", justify="right")
            table.add_column("both\nms", justify="right")
            for figure in figures:
                times = figure.forward_seconds, figure.seconds
                table.add_row(figure.contender, figure.mode, *(f"{seconds * 1e3:.3f}" for seconds in times))
            console.print(table)
            for contender, reason in left_out.items():
                line(console, f"{contender} is left out: {reason}", style="dim")
            self._write("launched, captured and compiled passes of a layer, median", rows)
        console.print("Compare within one mode.", style="dim")
        self._print_path(console)

    def _sweep(self, console: Console, against: str) -> None:
        sweep = bench.SWEEPS[against]
        if self.quick:
            sweep = bench.Sweep(sweep.field, sweep.label, sweep.values[:-1:2], sweep.case)
        threads = self._threads()[0]
        torch.set_num_threads(threads)
        with _progress(console) as say:
            repeats = 3 if self.quick else self.repeats
            points, floor, failed = bench.measure_sweep(
                sweep, self.device, repeats, self.longest, lambda text: say(f"against {against}", text)
            )
        table = Table(f"µs per step, by {sweep.label}", box=None, header_style="bold")
        for value in sweep.values:
            table.add_column(f"{value:,}", justify="right")
        for name in dict.fromkeys(point.contender for point in (*points, *floor)):
            by_value = {point.value: point for point in (*points, *floor) if point.contender == name}
            table.add_row(
                name, *(_microseconds(by_value[value]) if value in by_value else "-" for value in sweep.values)
            )
        console.print(table)
        for name, reason in failed.items():
            line(console, f"{name} stops before {reason}", style="dim")
        units = {"steps": "steps", "batch": "sequences", "hidden": "neurons"}
        others = ", ".join(
            format_count(getattr(sweep.case, field), words.removesuffix("s"))
            for field, words in units.items()
            if field != sweep.field
        )
        hardware = f"{machine()['gpu']}, CUDA graphs" if self.device == "cuda" else format_count(threads, "thread")
        stem = self.plot or Path(f"bench-{against}-{self.device}")
        plots = draw(points, floor, sweep.label, f"{others}; {hardware}", stem)
        line(console, f"plot: {', '.join(map(str, plots))}")
        rows = [asdict(point) | {"threads": threads} for point in (*points, *floor)]
        self._write(f"forward and backward against {against}, {others}; {hardware}", rows)
        self._print_path(console)

    def _write(self, kind: str, rows: list[dict]) -> None:
        """Write the record. Called after every case, so that an interruption loses no measurement."""
        if self.json is not None:
            write_json(self.json, bench.record(kind, rows), indent=1)

    def _print_path(self, console: Console) -> None:
        if self.json is not None:
            line(console, f"record: {self.json}")


def _microseconds(point: bench.Point) -> str:
    figure = point.seconds / point.steps * 1e6
    return f"{figure:.2f}" if figure < 10 else f"{figure:.1f}" if figure < 100 else f"{figure:,.0f}"


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, str], None]]:
    """Yield `say(what, detail)`, which shows what is being measured."""
    columns = (SpinnerColumn(), TextColumn("[bold]{task.fields[what]}[/]  {task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task_id = progress.add_task("", what="")
        yield lambda what, detail: progress.update(task_id, what=what, description=detail)


def _title(name: str, case: bench.Case, threads: int | None = None) -> str:
    numbers = {"step": case.steps, "sequence": case.batch, "neuron": case.hidden, "input": case.inputs}
    numbers |= {} if threads is None else {"thread": threads}
    sizes = [format_count(number, noun) for noun, number in numbers.items()]
    return f"\n{name}: {', '.join(sizes)}"


def _table(name: str, case: bench.Case, threads: int | None, figures: list[bench.Measurement]) -> Table:
    """Return the table of one case, fastest first."""
    table = Table(title=_title(name, case, threads), title_justify="left", box=None, header_style="bold")
    table.add_column("")
    for heading in ("forward\nms", "both\nms", "both, µs\nper step", "peak\nMB", "plain\nloop ÷", "nn.\nLSTM ÷"):
        table.add_column(heading, justify="right")
    seconds_of = {figure.contender: figure.seconds for figure in figures}
    for figure in figures:
        table.add_row(
            figure.contender,
            f"{figure.forward_seconds * 1e3:.2f}",
            f"{figure.seconds * 1e3:.2f}",
            f"{figure.seconds / case.steps * 1e6:.2f}",
            "-" if figure.memory is None else f"{figure.memory / 1e6:.1f}",
            *(f"{seconds_of[other] / figure.seconds:.2f}" for other in ("plain loop", "nn.LSTM")),
        )
    return table
