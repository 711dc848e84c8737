"""cornn export"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from cornn._atomic import check_destination, write_errors
from cornn.artifacts import EstimatorArtifact, load
from cornn.cli.console import line, screen
from cornn.export import TrainedModel
from cornn.lab.trained import load_trained


@dataclass(frozen=True)
class ExportCommand:
    """Export a trained model to ONNX, C or the Hugging Face hub.

    onnx: a file for onnxruntime, on servers, phones and in browsers. c: C99 for microcontrollers. hub: a folder for the
    Hugging Face hub. ONNX and C are compared with PyTorch before they are written.
    """

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run", metavar="RUN")]
    """A folder of `cornn train` or `cornn fit`, or a saved estimator."""
    to: Literal["onnx", "c", "hub"]
    """The format to export to."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=("-o",))] = None
    """The file or folder to write. Default: next to the model."""
    state: bool = False
    """onnx: Add the state as input and output, so that a sequence can be processed in pieces or single samples."""
    lengths: bool = False
    """onnx: Add the lengths of padded sequences as input."""
    timespans: bool = False
    """onnx: Add the duration of each step as input, for samples at uneven times: a number of steps, or a factor on dt
    for layers with given constants. An estimator that was fitted with times always has this input, in its own unit."""
    weights: Literal["float32", "int8"] = "float32"
    """c: Weights: float32, or int8 with integer arithmetic, calibrated on training data."""
    sequences: int | None = None
    """c: Number of test sequences to compare on. Default: as many as take about ten seconds."""
    calibration: int = 256
    """c: Number of training sequences for the calibration of int8."""
    largest_loss: float = 1.0
    """c: Maximum loss of int8, in points of accuracy or percent of another metric."""
    max_flash: int | None = None
    """c: Maximum bytes of constants of an oscillator bank. Neurons are dropped until they fit, which needs --data."""
    max_ram: int | None = None
    """c: Maximum bytes of state of an oscillator bank. Neurons are dropped until they fit, which needs --data."""
    data: Path | None = None
    """c: For a model of `cornn fit`, a data file in the layout of its training data, to calibrate and compare on."""

    def run(self) -> None:
        for field in fields(self):
            target = FORMAT_OF.get(field.name, self.to)
            if target != self.to and getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name.replace('_', '-')} is only for --to {target}: omit it")
        console = screen()
        with console.status("exporting"):
            TARGETS[self.to](self, console)

    def place(self, name: str) -> Path:
        """Return the path to write: --out, or next to the model."""
        if self.out is not None:
            return self.out
        return self.source / name if self.source.is_dir() else self.source.with_name(f"{self.source.stem}-{name}")


FORMAT_OF = {"state": "onnx", "lengths": "onnx", "timespans": "onnx"}
FORMAT_OF |= {"weights": "c", "sequences": "c", "calibration": "c", "largest_loss": "c", "data": "c"}
FORMAT_OF |= {"max_flash": "c", "max_ram": "c"}
"""Option -> the only format that has it."""


def _onnx(command: ExportCommand, console: Console) -> None:
    from cornn.export.onnx import OnnxOptions, to_onnx

    trained = load_trained(command.source)
    options, path = OnnxOptions(command.state, command.lengths, command.timespans), command.place("model.onnx")
    check_destination(path, command.source)
    exported = to_onnx(trained, path, options)
    for kind, ports in (("inputs:", exported.inputs), ("outputs:", exported.outputs)):
        described = "; ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in ports.items())
        line(console, f"{kind} {described}")
    line(
        console,
        f"largest deviation of onnxruntime from PyTorch: {exported.deviation:.0e} of the largest value; "
        f"wrote {exported.size:,} bytes to {exported.path}",
    )


def _c(command: ExportCommand, console: Console) -> None:
    from cornn.export.c import COptions, to_c

    trained = load_trained(command.source)
    options = COptions(
        command.weights,
        command.sequences,
        command.calibration,
        command.largest_loss,
        command.max_flash,
        command.max_ram,
    )
    data = target = None
    if command.data is not None:
        if trained.estimator is None:
            raise ValueError(
                f"--data is only for a model of `cornn fit`; {command.source} has the data of its task: omit it"
            )
        from cornn.fitting.folder import load_fitted
        from cornn.fitting.readers import read

        read_data = read(command.data, load_fitted(command.source)[1], require_target=False)
        data = read_data.sequences
        if read_data.target is not None:
            classes = trained.estimator.output_spec().classes
            target = read_data.labels(classes) if classes else read_data.numbers()
    for text in to_c(trained, command.place("c"), options, data, target).lines():
        line(console, text)


def _hub(command: ExportCommand, console: Console) -> None:
    from cornn.export.hub import HubModel, save_estimator

    folder, saved = command.place("hub"), load(command.source)
    if isinstance(saved, EstimatorArtifact):
        estimator = saved.estimator()
        save_estimator(estimator, folder)
        line(console, f"wrote {type(estimator).__name__} to {folder}")
        return
    trained = load_trained(command.source)
    assert isinstance(trained, TrainedModel)  # a run has no bank
    with write_errors(folder):
        HubModel.from_model(trained.model).save_pretrained(folder)
    line(console, f"wrote {trained.name} to {folder}")


TARGETS: dict[str, Callable[[ExportCommand, Console], None]] = {
    "onnx": _onnx,
    "c": _c,
    "hub": _hub,
}
"""Format -> function that writes it."""
