"""cornn export"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

import tyro
from rich.console import Console

from cornn.cli.console import line, screen
from cornn.export import Trained, open_trained

__all__ = ["TARGETS", "ExportCommand"]


@dataclass(frozen=True)
class ExportCommand:
    """Write a trained model for other programs.

    onnx: a file for onnxruntime, on servers, phones and in browsers. c: C99 for microcontrollers. hub: a folder for the
    Hugging Face hub. ONNX and C are held against PyTorch before they are written.
    """

    source: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(name="run")]
    """A folder of `cornn train` or `cornn fit`, or the file that an estimator's `save` wrote."""
    to: Literal["onnx", "c", "hub"]
    """What to write."""
    out: Annotated[Path | None, tyro.conf.arg(aliases=("-o",))] = None
    """Where to; by default beside the model."""
    state: bool = False
    """onnx: take the state before the first step and give that after the last, so that a sequence may come in pieces,
    down to single samples."""
    lengths: bool = False
    """onnx: take the number of steps of each sequence, where they are padded to the longest."""
    timespans: bool = False
    """onnx: take a factor on dt for each step, for samples at uneven times. An estimator that was fitted with times
    takes them in any case, in its own unit."""
    weights: Literal["float32", "int8"] = "float32"
    """c: float32, or int8 with whole-number arithmetic, calibrated on the training part."""
    sequences: int | None = None
    """c: test sequences to compare on; as many as take some ten seconds if not given."""
    calibration: int = 256
    """c: training sequences that int8 is calibrated on."""
    largest_loss: float = 1.0
    """c: with int8, how many points of accuracy, or percent of another metric, it may lose."""
    data: Path | None = None
    """c: for a model of `cornn fit`, a file laid out as the one it was fitted with, to calibrate and to compare on."""

    def run(self) -> None:
        for field in fields(self):
            target = OWN.get(field.name, self.to)
            if target != self.to and getattr(self, field.name) != field.default:
                raise ValueError(f"--{field.name.replace('_', '-')} is for --to {target}: leave it out")
        TARGETS[self.to](self, open_trained(self.source), screen())

    def place(self, name: str) -> Path:
        """Where to write, if nothing is said: beside the model."""
        if self.out is not None:
            return self.out
        return self.source / name if self.source.is_dir() else self.source.with_name(f"{self.source.stem}-{name}")


OWN = {"state": "onnx", "lengths": "onnx", "timespans": "onnx"}
OWN |= {"weights": "c", "sequences": "c", "calibration": "c", "largest_loss": "c", "data": "c"}
"""Option -> the target that alone has it."""


def _onnx(command: ExportCommand, trained: Trained, console: Console) -> None:
    from cornn.export.onnx import Options, to_onnx

    options = Options(command.state, command.lengths, command.timespans)
    written = to_onnx(trained, command.place("model.onnx"), options)
    for kind, ports in (("takes", written.inputs), ("gives", written.outputs)):
        told = "; ".join(f"{name} ({', '.join(map(str, shape))})" for name, shape in ports.items())
        line(console, f"{kind} {told}")
    line(
        console,
        f"in onnxruntime within {written.deviation:.0e} of PyTorch, as a share of the largest value; "
        f"{written.size:,} bytes: {written.path}",
    )


def _c(command: ExportCommand, trained: Trained, console: Console) -> None:
    from cornn.export.c import Options, export

    options = Options(command.weights, command.sequences, command.calibration, command.largest_loss)
    data = None
    if command.data is not None:
        if trained.estimator is None:
            raise ValueError(
                f"--data is for a model of `cornn fit`; {command.source} has its task's data: leave it out"
            )
        from cornn import fitting
        from cornn.fitting.readers import read

        data = read(command.data, fitting.open_folder(command.source)[1], target_wanted=False).sequences
    for text in export(trained, command.place("c"), options, data).lines():
        line(console, text)


def _hub(command: ExportCommand, trained: Trained, console: Console) -> None:
    from safetensors import SafetensorError

    from cornn.export.hub import HubModel

    if trained.estimator is not None:
        raise ValueError("an estimator's file holds more than its network: publish the file as it is")
    folder = command.place("hub")
    try:
        HubModel.of(trained.model).save_pretrained(folder)
    except SafetensorError as error:  # as it says that the disk is full
        raise OSError(f"cannot write {folder} ({error}): choose another with --out") from error
    line(console, f"{trained.name}: {folder}")


TARGETS: dict[str, Callable[[ExportCommand, Trained, Console], None]] = {"onnx": _onnx, "c": _c, "hub": _hub}
"""Name -> what writes it."""
