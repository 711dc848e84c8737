"""cornn fit"""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cornn.cli.console import line, screen
from cornn.plots.terminal import draw_curves

if TYPE_CHECKING:  # scikit-learn is an extra, which the other commands do without
    from cornn.fitting.readers import Dataset, Layout

__all__ = ["FitCommand"]

MOST_CLASSES = 12  # of a confusion matrix on a terminal


@dataclass(frozen=True)
class FitCommand:
    """Learn from your own sequences: classes, numbers, or how they go on. Leaves a folder with a model and a report.

    A table (.csv, .tsv, .parquet) has one row a sequence, or with --id one row a sample. Others: .npz, .ts.
    """

    data: tyro.conf.Positional[Path]
    """The file."""
    target: tuple[str, ...] = ()
    """The column to learn; of an .npz the array (default y). A .ts file has its own. To forecast: which values."""
    id: str | None = None
    """The column that says which sequence a row belongs to."""
    time: str | None = None
    """The column that says when a sample was taken, in numbers or dates."""
    values: tuple[str, ...] = ()
    """The columns of values. Default: all that are not named otherwise. Of an .npz the array (default X)."""
    ignore: tuple[str, ...] = ()
    """Columns to leave out."""
    form: Literal["wide", "long", "series"] | None = None
    """One row a sequence, one row a sample, or all rows one series. Default: by the ids."""
    task: Literal["classify", "regress", "forecast"] | None = None
    """What to learn. Default: by the target."""
    horizon: int = 1
    """With --task forecast: how many steps ahead."""
    test: Path | None = None
    """A file of test data. Default: a share of the data is kept apart."""
    test_share: float = 0.2
    """Of the sequences, kept apart for the test; of forecasts, the last steps of each. 0: none."""
    out: Path | None = None
    """The folder to write. Default: a new one under runs/."""
    hidden_size: int | None = None
    """Neurons. Default: as the estimators have it, as are those below."""
    num_layers: int | None = None
    """Layers."""
    epochs: int | None = None
    """Passes over the data."""
    batch_size: int | None = None
    """Sequences a step."""
    learning_rate: float | None = None
    """Of Adam."""
    validation_share: float | None = None
    """Of what is learned from, held out to end training in time. 0: none."""
    patience: int | None = None
    """Epochs without a better validation loss, after which training ends."""
    dt: float | None = None
    """Step of the oscillators. Default, as for the two below: theory.suggest for the data's length."""
    gamma: float | None = None
    """Stiffness."""
    epsilon: float | None = None
    """Damping."""
    balanced: bool = False
    """With classes: weigh them so that rare ones count as much as frequent ones."""
    seed: int = 0
    """Of the test part, the weights and the order of training."""
    device: str = "auto"
    """cpu, cuda, or auto, which takes a GPU where there is one."""
    report: bool = True
    """Write report.html into the folder."""
    quiet: bool = False
    """Print the closing lines only."""
    json: bool = False
    """Print the result as one line of JSON on standard output; all else goes to the other."""
    dry_run: bool = False
    """Print the summary of the data, and learn nothing."""

    def run(self) -> None:
        from cornn import fitting
        from cornn.fitting import page
        from cornn.fitting.readers import read

        console = screen(stderr=self.json)
        layout = self._layout()
        data = read(self.data, layout)
        task = fitting.task_of(self.task, data)
        test = None if self.test is None else read(self.test, data.layout)
        settings = self._settings(task, data)
        parts = fitting.split(data, task, test, self.test_share, self.seed)
        facts = fitting.summary(data, parts, task, self.target)
        if not self.quiet:
            _print_facts(console, facts)
        if self.dry_run:
            return
        out = self.out or _new_folder(Path("runs"), self.data.stem)
        fitting.check_free(out)
        if self.report:
            page.check_packages()
        try:
            finished = self._followed(console, lambda watch: fitting.fit(task, parts, settings, watch))
            words = f"{test.source}" if test is not None else f"a part of {data.source} that was kept apart"
            reached = fitting.result(finished, words)
            found = text = None
            try:
                found = page.check(finished, f"{data.source} after training")
                text = page.page(self.data.name, facts, finished, reached, found) if self.report else None
            except Exception as error:  # whatever it is, it must not cost the trained model
                print(
                    f"cornn: the report could not be made ({type(error).__name__}: {error}): the model is written "
                    "without it",
                    file=sys.stderr,
                )
            fitting.write(out, data, finished, reached, text)
        except KeyboardInterrupt:
            print("cornn: stopped; nothing was written.", file=sys.stderr)
            raise SystemExit(130) from None
        self._conclude(console, finished, reached, found and found.summary, out)

    def _layout(self) -> "Layout":
        from cornn.fitting.readers import Layout

        form = self.form
        # Without ids, a table that is to be forecast is one series; other forms have to be asked for.
        if form is None and self.task == "forecast" and self.id is None:
            form = "series"
        if not self.target and self.task != "forecast" and self.data.suffix.lower() not in (".ts", ".npz"):
            raise ValueError(
                "learn what? Name the column with --target, or use --task forecast to learn how sequences go on"
            )
        if self.task != "forecast":
            return Layout(form, self.id, self.time, self.values, self.target, self.ignore)
        # What is to be forecast is among the values.
        values = (*self.values, *(name for name in self.target if self.values and name not in self.values))
        return Layout(form, self.id, self.time, values, (), self.ignore)

    def _settings(self, task: str, data: "Dataset") -> dict[str, Any]:
        names = ("hidden_size", "num_layers", "epochs", "batch_size", "learning_rate", "validation_share", "patience")
        given = {name: getattr(self, name) for name in (*names, "dt", "gamma", "epsilon")}
        settings = {name: value for name, value in given.items() if value is not None}
        settings |= {"random_state": self.seed, "device": self.device}
        if self.balanced:
            if task != "classify":
                raise ValueError(f"--balanced weighs classes, and the task is to {task}")
            settings["class_weight"] = "balanced"
        if task == "forecast":
            settings["horizon"] = self.horizon
            if self.target:
                settings["targets"] = [_number(data, name) for name in self.target]
        elif self.horizon != 1:
            raise ValueError(f"--horizon is of forecasts, and the task is to {task}: add --task forecast")
        return settings

    def _followed(self, console: Console, work: Callable[[Callable], Any]) -> Any:
        if self.quiet or self.json:
            return work(lambda row: None)
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("epochs, loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            TextColumn("left at most"),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            shown = bar.add_task("training", total=None, loss="…")

            def watch(row: dict[str, float]) -> None:
                loss = ", ".join(f"{row[name]:.4g} {name}" for name in ("training", "validation") if name in row)
                bar.update(shown, completed=int(row["epoch"]), total=int(row["epochs"]), loss=loss)

            return work(watch)

    def _conclude(self, console: Console, finished: Any, reached: dict, meaning: str | None, out: Path) -> None:
        if self.json:
            print(json.dumps({**reached, "folder": str(out)}), flush=True)
            return
        outcome = finished.outcome
        if not self.quiet:
            name = "validation" if "validation" in finished.estimator.history_[0] else "training"
            points = [(row["epoch"], row[name]) for row in finished.estimator.history_]
            line(console, draw_curves({"": points}, title=f"{name} loss", x_label="epoch"))
            if outcome is not None:
                _print_outcome(console, outcome)
            if meaning is not None:
                line(console, f"theory: {meaning}", style="dim")
        after = f"after {reached['epochs']} epochs and {reached['seconds']:.1f} s"
        if outcome is None:
            line(console, f"fitted {after}; no part was kept apart for a test")
        else:
            line(
                console,
                f"test {outcome.metric} ",
                (f"{outcome.test:.4g}", "bold"),
                f" {after}, against {outcome.trivial:.4g} {outcome.trivial_words}",
            )
        line(console, f"folder: {out}; predict with: cornn predict {shlex.quote(str(out))} DATA")


def _number(data: "Dataset", name: str) -> int:
    if name not in data.features:
        raise ValueError(f"{data.source} has no values {name!r} to forecast: there are {', '.join(data.features)}")
    return data.features.index(name)


def _print_facts(console: Console, facts: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False)
    for name, value in facts:
        table.add_row(name, value)
    console.print(table)


def _print_outcome(console: Console, outcome: Any) -> None:
    if outcome.confusion and len(outcome.classes) <= MOST_CLASSES:
        table = Table("true, predicted:", *outcome.classes, box=None, header_style="bold")
        for name, row in zip(outcome.classes, outcome.confusion, strict=True):
            table.add_row(name, *map(str, row))
        console.print(table)
    if outcome.ahead:
        table = Table("steps ahead", "error", "of no change", box=None, header_style="bold")
        for step, (own, idle) in list(enumerate(outcome.ahead, 1))[:MOST_CLASSES]:
            table.add_row(str(step), f"{own:.4g}", f"{idle:.4g}")
        console.print(table)
    for name, value in outcome.more.items():
        line(console, f"{name} {value:.4g}")


def _new_folder(root: Path, name: str) -> Path:
    number = 1
    while (root / f"{name}-{number:04d}").exists():
        number += 1
    return root / f"{name}-{number:04d}"
