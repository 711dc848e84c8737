"""cornn demo"""

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.text import Text

from cornn._atomic import check_destination, write_text
from cornn.baselines import MODELS
from cornn.cli.console import line, screen
from cornn.lab.experiments.demo import (
    BATCH_SIZE,
    GOAL,
    HIDDEN_SIZE,
    LENGTH,
    RATES,
    STEPS,
    Curve,
    Evaluation,
    configure,
    describe_limits,
    race,
    summarise,
)
from cornn.plots.terminal import MARKERS, draw_curves

COLOURS = ("blue", "yellow", "green")


@dataclass(frozen=True)
class DemoCommand:
    """Train coRNN, an LSTM and a GRU of the same size on the adding problem, and compare their learning curves.

    Takes about a minute on two free cores. Needs no data and no GPU.
    """

    out: Path = Path("runs/demo.html")
    """The HTML page with the figure."""
    seed: int = 0
    """Seed of the weights and of the sequences."""
    length: int = LENGTH
    """Steps of a sequence. The time grows in proportion; the learning rates were tuned for the default."""

    def run(self) -> None:
        if self.out.is_dir():
            raise ValueError(f"{self.out} is a folder: name a file with --out")
        configure("cornn", length=self.length, seed=self.seed)  # an error before anything is printed
        check_destination(self.out)
        console = screen()
        line(console, ("The adding problem", "bold"), f": add the two marked numbers of a sequence of {self.length:,}.")
        line(console, f"{HIDDEN_SIZE} neurons and up to {STEPS} steps of {BATCH_SIZE} sequences for each model.")
        try:
            curves = self._race(console)
        except KeyboardInterrupt:
            print("cornn: stopped; nothing was written.", file=sys.stderr)
            raise SystemExit(130) from None
        console.print()
        _print_curves(console, curves)
        console.print()
        for sentence in summarise(curves):
            line(console, sentence, style="bold")
        console.print(describe_limits(self.length, self.seed), style="dim")
        self._write_page(console, curves)

    def _race(self, console: Console) -> list[Curve]:
        columns = (
            TextColumn("{task.description:<5}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("error {task.fields[error]}  {task.fields[seconds]} s"),
        )
        with Progress(*columns, console=console) as bar:
            tasks = {
                model: bar.add_task(MODELS[model].title, total=STEPS, error="…     ", seconds="…") for model in RATES
            }

            def report(model: str, evaluation: Evaluation) -> None:
                error, seconds = f"{evaluation.error:.4f}", f"{evaluation.seconds:.1f}"
                bar.update(tasks[model], completed=evaluation.step, error=error, seconds=seconds)

            return race(length=self.length, seed=self.seed, report=report)

    def _write_page(self, console: Console, curves: list[Curve]) -> None:
        from cornn.lab.experiments.demo_page import render_page

        try:
            page = render_page(curves, length=self.length, seed=self.seed)
        except ImportError as error:
            line(console, f"no page: {error}")
            return
        write_text(self.out, page)
        line(console, f"page: {self.out}")


def _print_curves(console: Console, curves: list[Curve]) -> None:
    drawing = draw_curves(
        {curve.title: [(evaluation.seconds, evaluation.error) for evaluation in curve.evaluations] for curve in curves},
        goal=GOAL,
        title="validation error (MSE)",
        x_label="processor seconds (log scale)",
        log_x=True,
        height=12,
    )
    text = Text(drawing)
    for marker, colour in zip(MARKERS, COLOURS, strict=False):
        text.highlight_words([marker], colour)
    console.print(text, soft_wrap=True)
