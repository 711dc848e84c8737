"""cornn check"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cornn._atomic import check_destination, write_text
from cornn.cli.console import line, progress_lines, screen
from cornn.lab.diagnose import subject_from_run, subject_from_task
from cornn.plots.diagnosis import render_page
from cornn.theory import Diagnosis, Subject, diagnose, subject_from_constants

SUBJECTS = {"folder": "a run folder", "task": "--task", "dt": "--dt"}
OPTIONS = {
    "folder": ("layer",),
    "task": ("recipe", "length", "seed", "layer"),
    "dt": ("gamma", "epsilon", "hidden_size", "length", "damping", "init", "seed"),
}
"""Kind of subject -> the options that it accepts."""


@dataclass(frozen=True)
class CheckCommand:
    """Check a layer against the theory: a trained one, a task's before training, or one with given dt, gamma, epsilon.

    Prints which of the paper's hypotheses hold, every proven bound with the measured value, and a summary.
    """

    folder: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(name="run", metavar="[RUN]")] = None
    """A finished run folder."""
    task: str | None = None
    """Instead of a run: check the untrained layer of this task's recipe."""
    recipe: str | None = None
    """With --task: the name of the recipe. Default: the task's own."""
    dt: float | None = None
    """Instead of a run: check an untrained layer with this step size."""
    gamma: float | None = None
    """With --dt: oscillator stiffness."""
    epsilon: float | None = None
    """With --dt: oscillator damping."""
    hidden_size: int | None = None
    """With --dt: number of neurons. Default: 128."""
    length: int | None = None
    """With --task adding or --dt: steps per sequence. Default: the task's length; 500 with --dt."""
    damping: Literal["explicit", "implicit"] | None = None
    """With --dt: damping of the old velocity (explicit, the default) or of the new one (implicit)."""
    init: str | None = None
    """With --dt: initialisation of the weights. Default: paper."""
    seed: int | None = None
    """With --task or --dt: seed of weights and input. Default: 0."""
    layer: int | None = None
    """With a run or --task: which layer to check, counted from 1. Default: 1."""
    html: Path | None = None
    """Also write an HTML page with figures to this file."""
    strict: bool = False
    """Exit with code 1 if a measurement violates a proven bound."""

    def run(self) -> None:
        console = screen()
        if self.html is not None:
            check_destination(self.html)
        subject = self._subject()
        write = progress_lines()
        words = "measuring states and gradients"
        with console.status(words) as status:

            def watch(share: float) -> None:
                status.update(f"{words}, {share:.0%}")
                if not console.is_terminal:
                    write(f"{words}, {share:.0%}")

            diagnosis = diagnose(subject, watch)
        _print(console, diagnosis)
        if self.html is not None:
            write_text(self.html, render_page(diagnosis))
            line(console, f"page: {self.html}")
        if self.strict and not diagnosis.is_sound:
            raise SystemExit(1)

    def _subject(self) -> Subject:
        chosen = [name for name in ("folder", "task", "dt") if getattr(self, name) is not None]
        if len(chosen) != 1:
            problem = (
                f"{' and '.join(SUBJECTS[name] for name in chosen)} exclude each other"
                if chosen
                else "nothing to check"
            )
            raise ValueError(
                f"{problem}: pass one of a run folder, --task, or --dt with --gamma and --epsilon, such as "
                "`cornn check --dt 0.05 --gamma 1 --epsilon 4`"
            )
        for name in {name for names in OPTIONS.values() for name in names} - set(OPTIONS[chosen[0]]):
            if getattr(self, name) is not None:
                kinds = [SUBJECTS[kind] for kind, names in OPTIONS.items() if name in names]
                raise ValueError(f"--{name.replace('_', '-')} only applies to {' or '.join(kinds)}: remove it")
        index = 0 if self.layer is None else self.layer - 1
        if self.folder is not None:
            return subject_from_run(self.folder, index)
        if self.task is not None:
            options = {} if self.length is None else {"length": self.length}
            return subject_from_task(self.task, self.recipe, seed=self.seed or 0, options=options, index=index)
        if self.dt is None or self.gamma is None or self.epsilon is None:
            raise ValueError("an untrained layer needs all three of --dt, --gamma and --epsilon")
        names = ("hidden_size", "length", "damping", "init", "seed")
        options = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        return subject_from_constants(self.dt, self.gamma, self.epsilon, **options)


def _print(console: Console, diagnosis: Diagnosis) -> None:
    subject = diagnosis.subject
    steps, batch = subject.input.shape[:2]
    cut = f" (the first of {subject.length:,})" if subject.length > steps else ""
    line(console, (subject.name, "bold"), f", {batch} sequences of {steps:,} steps{cut}")
    facts = Table("linearised dynamics and measurements", "", box=None, header_style="bold")
    for fact in diagnosis.facts:
        facts.add_row(fact.name, fact.value)
    conditions = Table("hypothesis of the paper", "value", "limit", "holds", box=None, header_style="bold")
    for condition in diagnosis.conditions:
        verdict = Text("yes", "green") if condition.holds else Text("no", "yellow")
        numbers = (f"{condition.value:.4g}", f"{condition.limit:.4g}") if condition.numeric else ("", "")
        conditions.add_row(condition.name, *numbers, verdict)
    bounds = Table("proven bound", "source", "bound", "measured", "holds", box=None, header_style="bold")
    for bound, comparison in diagnosis.comparisons:
        if comparison is None:
            bounds.add_row(bound.statement, bound.label, "-", "-", f"n/a: requires {bound.condition}", style="dim")
        else:
            power = "10^" if comparison.logarithm else ""
            verdict = Text("yes", "green") if comparison.holds else Text("BROKEN", "bold red")
            values = (f"{power}{comparison.bound:.4g}", f"{power}{comparison.measured:.4g}")
            bounds.add_row(bound.statement, bound.label, *values, verdict)
    for table in (facts, conditions, bounds):
        console.print()
        console.print(table)
    console.print()
    console.print(diagnosis.summary)
