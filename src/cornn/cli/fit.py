"""cornn fit"""

import json
import shlex
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from cornn._counts import format_count
from cornn.cli.console import line, progress_lines, screen

if TYPE_CHECKING:  # scikit-learn is an extra, which other commands do not need
    from cornn.fitting import Evaluation, FitPlan, FitResult

MAX_CLASSES = 12  # maximum number of classes or steps in the tables of the terminal


@dataclass(frozen=True)
class FitCommand:
    """Fit a model to your own sequences: classification, regression or forecasting.

    Writes a folder with the model and a report. A table (.csv, .tsv, .parquet) has one row per sequence, or with --id
    one row per sample. Other formats: .npz, .npy, .ts, .tsf, .arff, and the .txt and .tsv files of the UCR archive.
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
    group: str | None = None
    """The column of the group, such as a person, whose sequences are never split between training and test."""
    form: Literal["wide", "long", "series"] | None = None
    """Layout: one row per sequence, one row per sample, or one series. Default: inferred from the ids."""
    layout: Literal["ntc", "nct"] = "ntc"
    """Order of the axes of three-dimensional arrays: ntc (sequences, time, features), or nct (sequences, features,
    time) as in aeon."""
    task: Literal["classify", "regress", "forecast"] | None = None
    """The task. Default: forecast with --horizon or another option of forecasts, otherwise inferred from the target."""
    horizon: int | None = None
    """Number of steps to forecast. Default: 1."""
    period: tuple[int, ...] | None = None
    """Steps per season of a forecast, one number or two; 1 for none. Default: found in the training data."""
    known_future: tuple[str, ...] | None = None
    """Columns that are known in advance, such as holidays, for a forecast. Predicting needs rows with their values for
    the steps to forecast."""
    candidates: tuple[str, ...] | None = None
    """Kinds of members of the pool that forecasts, such as "seasonal naive" alone. Default: all."""
    test: Path | None = None
    """A file with test data. Default: a share of the data, see --test-share."""
    test_share: float = 0.2
    """Share of the sequences in the test split; for forecasts, of the last steps of each. 0 disables it."""
    out: Path | None = None
    """The folder to write. Default: a new folder under runs/."""
    method: str | None = None
    """For classes and numbers: bank (oscillators with a ridge readout), network (trained), or auto. For forecasts: pool
    (of simple forecasters), or network. Default: network if one of its options is given, otherwise bank or pool."""
    neurons: int | None = None
    """Number of neurons of the bank."""
    scaling: tuple[str, ...] = ()
    """How the bank's inputs are scaled: set, running, sequence, or several. Default: chosen in the training data."""
    causal: bool = False
    """Choose only from scalings that streams and C code can use, which see no later samples."""
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
        console = screen(stderr=self.json)
        if self.dry_run:
            with console.status("reading"):
                from cornn import fitting

                plan = fitting.plan_fit(self.data, fitting.FitOptions(**self._options()))
            if not self.quiet:
                _print_facts(console, plan.facts)
            return

        def introduce(plan: "FitPlan") -> None:
            if not self.quiet:
                line(console, _describe_data(plan))

        def work(watch: Callable, describe: Callable[[str], None]) -> "FitResult":
            from cornn import fitting  # takes seconds, so the progress bar starts before it

            def announce(finished: "FitResult") -> None:
                if not self.json:
                    _print_result(console, finished, details=not self.quiet)
                describe("writing the report" if self.report else "writing the folder")

            more = {"out": self.out, "report": self.report, "introduce": introduce}
            return fitting.fit_file(self.data, **self._options(), **more, watch=watch, announce=announce)

        try:
            finished = self._train_with_progress(console, work)
        except KeyboardInterrupt:
            print("cornn: stopped; nothing was written.", file=sys.stderr)
            raise SystemExit(130) from None
        for note in finished.notes:
            line(screen(stderr=True), f"cornn: {note}")
        self._conclude(console, finished)

    def _options(self) -> dict[str, Any]:
        """Return the fields of `FitOptions`. This command has all of them except `settings`."""
        from cornn.fitting import FitOptions

        method_names = (
            "method",
            "neurons",
            "hidden_size",
            "num_layers",
            "epochs",
            "batch_size",
            "learning_rate",
            "validation_share",
            "patience",
            "period",
            "known_future",
            "candidates",
        )
        values = {name: getattr(self, name) for name in (*method_names, "dt", "gamma", "epsilon")}
        settings = {name: value for name, value in values.items() if value is not None} | {"device": self.device}
        if self.balanced:
            settings["class_weight"] = "balanced"
        if self.causal:
            settings["causal"] = True
        if self.scaling:
            settings["scaling"] = self.scaling
        names = (field.name for field in fields(FitOptions) if field.name != "settings")
        return {name: getattr(self, name) for name in names} | {"settings": settings}

    def _train_with_progress(self, console: Console, work: Callable[[Callable, Callable[[str], None]], Any]) -> Any:
        if self.quiet:
            return work(lambda row: None, lambda words: None)
        if self.json or not console.is_terminal:
            write = progress_lines()
            return work(lambda row: write(f"epoch {row['epoch']:g} of {row['epochs']:g}, loss {_losses(row)}"), write)
        columns = (
            BarColumn(bar_width=24),
            TextColumn("{task.description}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[left]}"),
        )
        with Progress(*columns, console=console, transient=True) as bar:
            bar_task = bar.add_task("reading and fitting", total=None, left="")  # only a network has epochs

            def watch(row: dict[str, float]) -> None:
                epoch, epochs = int(row["epoch"]), int(row["epochs"])
                words = f"epoch {epoch} of {epochs}, loss {_losses(row)}"
                bar.update(bar_task, completed=epoch, total=epochs, description=words, left="left")

            return work(watch, lambda words: bar.update(bar_task, description=words, left=""))

    def _conclude(self, console: Console, finished: "FitResult") -> None:
        out = finished.folder
        if self.json:
            print(json.dumps({**finished.result, "folder": str(out)}), flush=True)
            return
        page = f"page: {out / 'report.html'}; " if out is not None and (out / "report.html").exists() else ""
        line(console, f"folder: {out}; {page}predict with: cornn predict {shlex.quote(str(out))} DATA")


def _print_result(console: Console, finished: "FitResult", details: bool) -> None:
    after = f"{finished.seconds:.1f} s"
    if finished.result.get("epochs"):
        after = f"{format_count(finished.result['epochs'], 'epoch')} and {after}"
    if finished.evaluation is None:
        line(console, f"fitted after {after}; there is no test split")
    else:
        _print_answer(console, finished.evaluation, after, details)


def _losses(row: dict[str, float]) -> str:
    return ", ".join(f"{row[name]:.4g} {name}" for name in ("training", "validation") if name in row)


def _describe_data(plan: "FitPlan") -> str:
    facts, features = dict(plan.facts), len(plan.data.features)
    target = f"{plan.facts[-1][0]}: {plan.facts[-1][1]}"
    return f"{facts['file']}; sequences: {facts['sequences']}; steps: {facts['steps']}; features: {features}; {target}"


def _print_facts(console: Console, facts: Iterable[tuple[str, str]]) -> None:
    table = Table(box=None, show_header=False)
    for name, value in facts:
        table.add_row(name, value)
    console.print(table)


def _print_answer(console: Console, evaluation: "Evaluation", after: str, details: bool) -> None:
    """Print the score next to the baselines first, then the classes or the errors; a warning before all of it."""
    show, interval = evaluation.format, ""
    if evaluation.interval is not None:
        interval = f" (95 % interval {show(evaluation.interval[0])} to {show(evaluation.interval[1])})"
    style = "bold" if evaluation.beats_trivial else "bold red"
    if not evaluation.beats_trivial:
        line(console, (str(evaluation.verdict), style))
    line(
        console,
        f"test {evaluation.metric} ",
        (show(evaluation.test), style),
        f"{interval} after {after}, compared with {show(evaluation.trivial)} {evaluation.trivial_words}",
    )
    for name, value in list(evaluation.baselines.items())[1:]:
        line(console, f"{name}: {show(value)}")
    if evaluation.beats_trivial and evaluation.verdict is not None:
        line(console, (evaluation.verdict, "yellow"))
    if not details:
        return
    if evaluation.classes:
        table = Table("class", "precision", "recall", "sequences", box=None, header_style="bold")
        for score in evaluation.class_scores()[:MAX_CLASSES]:
            table.add_row(score.name, show(score.precision), show(score.recall), str(score.count))
        _print_shortened(console, table, len(evaluation.classes))
    if evaluation.confusion and len(evaluation.classes) <= MAX_CLASSES:
        table = Table("true \\ predicted", *evaluation.classes, box=None, header_style="bold")
        for name, row in zip(evaluation.classes, evaluation.confusion, strict=True):
            table.add_row(name, *map(str, row))
        console.print(table)
    if evaluation.ahead:
        table = Table("steps ahead", "RMSE", "RMSE of the best trivial rule", box=None, header_style="bold")
        for step, (error, idle) in list(enumerate(evaluation.ahead, 1))[:MAX_CLASSES]:
            table.add_row(str(step), f"{error:.4g}", f"{idle:.4g}")
        _print_shortened(console, table, len(evaluation.ahead))
    if evaluation.table:
        names = list(next(iter(evaluation.table.values())))
        table = Table("method", *names, box=None, header_style="bold")
        for name, scores in evaluation.table.items():
            table.add_row(name, *(show(value) for value in scores.values()))
        console.print(table)
    for name, value in evaluation.more.items():
        line(console, f"{name} {show(value)}")


def _print_shortened(console: Console, table: Table, rows: int) -> None:
    """Print a table, and how many of its rows were left out."""
    console.print(table)
    if rows > table.row_count:
        line(console, f"… and {rows - table.row_count} more", style="dim")
