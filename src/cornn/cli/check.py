"""cornn check"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console
from rich.table import Table
from rich.text import Text

from cornn._atomic import write_atomically, write_errors
from cornn.cli.console import line, screen
from cornn.lab.diagnose import of_run, of_task
from cornn.plots.diagnosis import page
from cornn.theory.diagnose import Check, Subject, examine, fresh

__all__ = ["CheckCommand"]


SUBJECTS = {"folder": "a run folder", "task": "--task", "dt": "--dt"}
OWN = {
    "folder": ("layer",),
    "task": ("recipe", "length", "seed", "layer"),
    "dt": ("gamma", "epsilon", "hidden_size", "length", "damping", "init", "seed"),
}
"""What is checked -> options that go with it."""


@dataclass(frozen=True)
class CheckCommand:
    """Hold a layer against the theory: a run's, a task's before training, or one with given dt, gamma and epsilon.

    Prints which of the paper's hypotheses hold, every bound that stands beside what was measured, and what it means.
    """

    folder: Annotated[tyro.conf.Positional[Path | None], tyro.conf.arg(name="run")] = None
    """A finished run folder."""
    task: str | None = None
    """In place of a run: a task, whose recipe's layer is checked before training."""
    recipe: str | None = None
    """With --task: whose recipe."""
    dt: float | None = None
    """In place of a run: the step of a fresh layer."""
    gamma: float | None = None
    """With --dt: its stiffness."""
    epsilon: float | None = None
    """With --dt: its damping."""
    hidden_size: int | None = None
    """With --dt: its neurons. Default: 128."""
    length: int | None = None
    """With --task adding, or with --dt: steps of a sequence. Default: the task's; with --dt 500."""
    damping: Literal["explicit", "implicit"] | None = None
    """With --dt: whether the damping acts on the old velocity (explicit, the default) or on the new one."""
    init: str | None = None
    """With --dt: how the weights start. Default: paper."""
    seed: int | None = None
    """With --task or --dt: of fresh weights and of what is drawn. Default: 0."""
    layer: int | None = None
    """With a run or --task: which of several layers, counted from 1, the default."""
    html: Path | None = None
    """Write a page with figures there as well."""
    strict: bool = False
    """Exit with code 1 if a measurement breaks a bound that stands."""

    def run(self) -> None:
        console = screen()
        found = examine(self._subject())
        _print(console, found)
        if self.html is not None:
            content = page(found)
            with write_errors(self.html, "--html"):
                self.html.parent.mkdir(parents=True, exist_ok=True)
                write_atomically(self.html, content.encode())
            line(console, f"page: {self.html}")
        if self.strict and not found.sound:
            raise SystemExit(1)

    def _subject(self) -> Subject:
        given = [name for name in ("folder", "task", "dt") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError("check what? Give one of: a run folder, --task, or --dt with --gamma and --epsilon")
        for name in {name for names in OWN.values() for name in names} - set(OWN[given[0]]):
            if getattr(self, name) is not None:
                kinds = [SUBJECTS[kind] for kind, names in OWN.items() if name in names]
                raise ValueError(f"--{name.replace('_', '-')} goes with {' or '.join(kinds)}: leave it out")
        number = 0 if self.layer is None else self.layer - 1
        if self.folder is not None:
            return of_run(self.folder, number)
        if self.task is not None:
            options = {} if self.length is None else {"length": self.length}
            try:
                return of_task(self.task, self.recipe, seed=self.seed or 0, options=options, number=number)
            except TypeError as error:
                if "length" not in str(error):
                    raise
                raise ValueError(f"the task {self.task} has no --length of its own") from None
        if self.dt is None or self.gamma is None or self.epsilon is None:
            raise ValueError("a fresh layer needs all three: --dt, --gamma and --epsilon")
        own = {name: getattr(self, name) for name in ("hidden_size", "length", "damping", "init", "seed")}
        return fresh(self.dt, self.gamma, self.epsilon, **{k: value for k, value in own.items() if value is not None})


def _print(console: Console, check: Check) -> None:
    steps, batch = check.subject.input.shape[:2]
    cut = f", the first of {check.subject.length:,}" if check.subject.length > steps else ""
    line(console, (check.subject.name, "bold"), f", {batch} sequences of {steps:,} steps{cut}")
    facts = Table("the linear picture, and measured", "", box=None, header_style="bold")
    for fact in check.facts:
        facts.add_row(fact.name, fact.value)
    conditions = Table("hypothesis of the paper", "value", "limit", "holds", box=None, header_style="bold")
    for condition in check.conditions:
        word = Text("yes", "green") if condition.holds else Text("no", "yellow")
        numbers = (f"{condition.value:.4g}", f"{condition.limit:.4g}") if condition.numbers else ("", "")
        conditions.add_row(condition.name, *numbers, word)
    held = Table("bound that stands", "whose", "bound", "measured", "holds", box=None, header_style="bold")
    for bound, found in check.held:
        if found is None:
            held.add_row(bound.says, bound.label, "-", "-", f"needs {bound.needs}", style="dim")
        else:
            power = "10^" if found.logarithm else ""
            word = Text("yes", "green") if found.holds else Text("BROKEN", "bold red")
            held.add_row(bound.says, bound.label, f"{power}{found.bound:.4g}", f"{power}{found.measured:.4g}", word)
    for table in (facts, conditions, held):
        console.print()
        console.print(table)
    console.print()
    console.print(check.meaning)
