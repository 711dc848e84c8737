"""cornn fit"""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cornn.cli.console import FEWEST_POINTS, line, progress_lines, screen
from cornn.plots.terminal import draw_curves

if TYPE_CHECKING:  # scikit-learn is an extra, which the other commands do without
    from cornn.fitting.readers import Dataset, Layout

__all__ = ["FitCommand"]

MOST_CLASSES = 12  # of a confusion matrix in the terminal


@dataclass(frozen=True)
class FitCommand:
    """Fit a model to your own sequences: classification, regression or forecasting.

    Writes a folder with the model and a report. A table (.csv, .tsv, .parquet) has one row per sequence, or with --id
    one row per sample. Other formats: .npz, .ts.
    """

    data: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="DATA")]
    """The data file."""
    target: tuple[str, ...] = ()
    """The column to predict; for .npz the array (default y). With --task forecast: the values to forecast."""
    id: str | None = None
    """The column that identifies the sequence of a row."""
    time: str | None = None
    """The column with the time of a sample, as numbers or dates."""
    values: tuple[str, ...] = ()
    """The columns of features. Default: all columns not named elsewhere. For .npz the array (default X)."""
    ignore: tuple[str, ...] = ()
    """Columns to ignore."""
    form: Literal["wide", "long", "series"] | None = None
    """Layout: one row per sequence, one row per sample, or one series. Default: inferred from the ids."""
    task: Literal["classify", "regress", "forecast"] | None = None
    """The task. Default: inferred from the target."""
    horizon: int = 1
    """Number of steps to forecast, with --task forecast."""
    test: Path | None = None
    """A file with test data. Default: a share of the data, see --test-share."""
    test_share: float = 0.2
    """Share of the sequences in the test split; for forecasts, of the last steps of each. 0 disables it."""
    out: Path | None = None
    """The folder to write. Default: a new folder under runs/."""
    hidden_size: int | None = None
    """Number of neurons per layer. Default: that of the estimator, as for the options below."""
    num_layers: int | None = None
    """Number of recurrent layers."""
    epochs: int | None = None
    """Maximum number of passes over the training data."""
    batch_size: int | None = None
    """Number of sequences per training step."""
    learning_rate: float | None = None
    """Adam's learning rate."""
    validation_share: float | None = None
    """Share of the training data held out for early stopping. 0 disables it."""
    patience: int | None = None
    """Number of epochs without a better validation loss after which training stops."""
    dt: float | None = None
    """Time step of the oscillators. Default: cornn.theory.suggest for the length of the sequences."""
    gamma: float | None = None
    """Stiffness of the oscillators. Default: as for --dt."""
    epsilon: float | None = None
    """Damping of the oscillators. Default: as for --dt."""
    balanced: bool = False
    """Weight the classes so that rare ones count as much as frequent ones."""
    seed: int = 0
    """Random seed of the test split, the initial weights and the order of training."""
    device: str = "auto"
    """Device: cpu, cuda, or auto, which uses a GPU if there is one."""
    report: bool = True
    """Write report.html to the folder, if the packages for it are installed."""
    quiet: bool = False
    """Print only the closing lines."""
    json: bool = False
    """Print the result as one line of JSON on stdout; everything else goes to stderr."""
    dry_run: bool = False
    """Print the summary of the data and exit."""

    def run(self) -> None:
        from cornn import fitting
        from cornn.fitting import page
        from cornn.fitting.readers import read

        console = screen(stderr=self.json)
        layout = self._layout()
        data = read(self.data, layout)
        task = fitting.choose_task(self.task, data)
        test = None if self.test is None else read(self.test, data.layout)
        settings = self._settings(task, data)
        fitting.check_settings(task, settings)
        splits = fitting.split(data, task, test, self.test_share, self.seed)
        facts = fitting.summarize(data, splits, task, self.target)
        if not self.quiet:
            _print_facts(console, facts)
        if self.dry_run:
            return
        out = self.out or _new_folder(Path("runs"), self.data.stem)
        fitting.check_output_folder(out)
        report = self.report and _can_report()
        try:
            finished = self._train_with_progress(console, lambda watch: fitting.fit(task, splits, settings, watch))
            words = f"{test.source}" if test is not None else f"a held-out split of {data.source}"
            result = fitting.build_result(finished, words)
            check = text = None
            try:
                if finished.estimator.history_:  # a pool of forecasters has no network
                    check = page.diagnose_fit(finished, f"{data.source} after training")
                    text = page.render_page(self.data.name, facts, finished, result, check) if report else None
            except Exception as error:  # a failing report must not lose the trained model
                message = f"cornn: the report failed ({type(error).__name__}: {error}): the model is written without it"
                line(screen(stderr=True), message)
            fitting.write_folder(out, data, finished, result, text)
        except KeyboardInterrupt:
            print("cornn: stopped; nothing was written.", file=sys.stderr)
            raise SystemExit(130) from None
        meaning = None if check is None else check.gradients
        if meaning is not None and text is not None:
            meaning = f"{meaning.removesuffix('.')} (details: {out / 'report.html'})"
        self._conclude(console, finished, result, meaning, out)

    def _layout(self) -> "Layout":
        from cornn.fitting.readers import Layout

        form = self.form
        # Without ids, a table for forecasting is one series, unless --form is given.
        if form is None and self.task == "forecast" and self.id is None:
            form = "series"
        if not self.target and self.task != "forecast" and self.data.suffix.lower() not in (".ts", ".npz"):
            raise ValueError(
                "nothing to learn: choose the column with --target, or use --task forecast to predict the next values"
            )
        if self.task != "forecast":
            return Layout(form, self.id, self.time, self.values, self.target, self.ignore)
        # The values to forecast are also inputs.
        values = (*self.values, *(name for name in self.target if self.values and name not in self.values))
        return Layout(form, self.id, self.time, values, (), self.ignore)

    def _settings(self, task: str, data: "Dataset") -> dict[str, Any]:
        names = ("hidden_size", "num_layers", "epochs", "batch_size", "learning_rate", "validation_share", "patience")
        given = {name: getattr(self, name) for name in (*names, "dt", "gamma", "epsilon")}
        settings = {name: value for name, value in given.items() if value is not None}
        settings |= {"random_state": self.seed, "device": self.device}
        if self.balanced:
            if task != "classify":
                raise ValueError(f"--balanced is only for classes, but the task is to {task}: omit it")
            settings["class_weight"] = "balanced"
        if task == "forecast":
            settings["horizon"] = self.horizon
            if self.target:
                settings["targets"] = [_number(data, name) for name in self.target]
        elif self.horizon != 1:
            raise ValueError(f"--horizon is only for forecasts, but the task is to {task}: add --task forecast")
        return settings

    def _train_with_progress(self, console: Console, work: Callable[[Callable], Any]) -> Any:
        if self.quiet:
            return work(lambda row: None)
        if self.json or not console.is_terminal:
            write = progress_lines()
            return work(lambda row: write(f"epoch {row['epoch']:g} of {row['epochs']:g}, loss {_losses(row)}"))
        columns = (
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("epochs, loss {task.fields[loss]}"),
            TimeRemainingColumn(),
            TextColumn("left"),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            shown = bar.add_task("training", total=None, loss="…")

            def watch(row: dict[str, float]) -> None:
                bar.update(shown, completed=int(row["epoch"]), total=int(row["epochs"]), loss=_losses(row))

            return work(watch)

    def _conclude(self, console: Console, finished: Any, result: dict, meaning: str | None, out: Path) -> None:
        if self.json:
            print(json.dumps({**result, "folder": str(out)}), flush=True)
            return
        evaluation = finished.evaluation
        if not self.quiet:
            history = finished.estimator.history_
            name = "validation" if history and "validation" in history[0] else "training"
            points = [(row["epoch"], row[name]) for row in history]
            if len(points) >= FEWEST_POINTS:
                line(console, draw_curves({"": points}, title=f"{name} loss", x_label="epoch"))
            if evaluation is not None:
                _print_evaluation(console, evaluation)
            if meaning is not None:
                line(console, meaning, style="dim")
        epochs = f"{result['epochs']} epochs and " if result["epochs"] else ""
        after = f"after {epochs}{result['seconds']:.1f} s"
        if evaluation is None:
            line(console, f"fitted {after}; there is no test split")
        else:
            line(
                console,
                f"test {evaluation.metric} ",
                (f"{evaluation.test:.4g}", "bold"),
                f" {after}, compared with {evaluation.trivial:.4g} {evaluation.trivial_words}",
            )
        line(console, f"folder: {out}; predict with: cornn predict {shlex.quote(str(out))} DATA")


def _losses(row: dict[str, float]) -> str:
    return ", ".join(f"{row[name]:.4g} {name}" for name in ("training", "validation") if name in row)


def _number(data: "Dataset", name: str) -> int:
    if name not in data.features:
        raise ValueError(f"{data.source} has no values {name!r} to forecast: the values are {', '.join(data.features)}")
    return data.features.index(name)


def _can_report() -> bool:
    """Check before training that the report can be written; otherwise explain what is missing."""
    from cornn.fitting import page

    try:
        page.check_packages()
    except ImportError as error:
        line(screen(stderr=True), f"cornn: no report.html: {error}")
        return False
    return True


def _print_facts(console: Console, facts: list[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False)
    for name, value in facts:
        table.add_row(name, value)
    console.print(table)


def _print_evaluation(console: Console, evaluation: Any) -> None:
    if evaluation.confusion and len(evaluation.classes) <= MOST_CLASSES:
        table = Table("true \\ predicted", *evaluation.classes, box=None, header_style="bold")
        for name, row in zip(evaluation.classes, evaluation.confusion, strict=True):
            table.add_row(name, *map(str, row))
        console.print(table)
    if evaluation.ahead:
        table = Table("steps ahead", "RMSE", "RMSE of the best trivial rule", box=None, header_style="bold")
        for step, (own, idle) in list(enumerate(evaluation.ahead, 1))[:MOST_CLASSES]:
            table.add_row(str(step), f"{own:.4g}", f"{idle:.4g}")
        console.print(table)
    for name, value in evaluation.more.items():
        line(console, f"{name} {value:.4g}")


def _new_folder(root: Path, name: str) -> Path:
    number = 1
    while (root / f"{name}-{number:04d}").exists():
        number += 1
    return root / f"{name}-{number:04d}"
