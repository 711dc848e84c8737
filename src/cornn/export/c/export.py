"""A trained model as C99: written, compiled, and held against PyTorch."""

import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import cornn
from cornn._atomic import write_atomically, write_errors
from cornn.export.c import host
from cornn.export.c.check import Checked, check
from cornn.export.c.float32 import TANH_MULTIPLICATIONS, float_source
from cornn.export.c.int8 import calibrate, fixed_source
from cornn.export.c.ir import Plain, plain
from cornn.export.c.source import render
from cornn.export.c.vectors import calibration
from cornn.export.load import Trained, as_trained

__all__ = ["Options", "Written", "export"]


@dataclass(frozen=True)
class Options:
    """How the C code is written, and what it is held against."""

    weights: Literal["float32", "int8"] = "float32"
    """float32, or int8 with whole-number arithmetic, calibrated on the training part."""
    sequences: int | None = None
    """Test sequences to compare on; as many as take some ten seconds if not given."""
    calibration: int = 256
    """Training sequences that int8 is calibrated on."""
    largest_loss: float = 1.0
    """With int8: how many points of accuracy, or percent of another metric, it may lose."""


@dataclass(frozen=True)
class Written:
    """What was written, and what it takes to run it."""

    folder: Path
    weights: str
    flash: int  # bytes of weights and tables; code comes on top
    state: int  # bytes of RAM that stay
    scratch: int  # bytes of arrays on the stack during a step
    multiplications: dict[str, int]  # of a step, by what they are for
    checked: Checked | None  # None: there is no compiler on this machine

    def lines(self) -> list[str]:
        """In words."""
        count = sum(self.multiplications.values())
        parts = ", ".join(f"{number:,} {name}" for name, number in self.multiplications.items() if number)
        found = [
            f"{self.folder / 'model.h'}, {self.folder / 'model.c'}: {self.weights} weights",
            f"flash {self.flash:,} bytes of weights and tables, and the code; RAM {self.state:,} bytes of state and "
            f"{self.scratch:,} bytes of arrays on the stack during a step",
            f"{count:,} multiplications a step: {parts}",
        ]
        check = self.checked
        if check is None:
            return [*found, "not checked: there is no gcc, clang or cc on this machine. Install one and export again"]
        return [
            *found,
            f"compiled without warnings; on {check.words} ({check.sanitized:,} of them under the sanitizers) the "
            f"largest difference is {check.difference:.1e} of PyTorch's largest answer",
            f"{check.metric}: PyTorch {check.pytorch:.6g}, C {check.c:.6g}",
        ]


def export(
    model: Any,
    folder: Path | str,
    options: Options = Options(),  # noqa: B008
    data: Any = None,
) -> Written:
    """Write model.h and model.c into a folder, once they have been compiled here and answer as PyTorch does.

    model: a `SequenceModel`, a fitted estimator, or what `open_trained` gave.
    data: sequences to calibrate on and to compare on, where the model has no task: for an estimator what its `predict`
        takes, for a bare model a tensor (time, batch, inputs).
    """
    trained, folder = as_trained(model), Path(folder)
    arrays = plain(trained)
    header, source, written = _texts(trained, arrays, folder, options, data)
    if host.compiler() is not None:
        limits = {"count": options.sequences, "largest_loss": options.largest_loss}
        with tempfile.TemporaryDirectory() as place:
            _write(Path(place), header, source)
            found = check(Path(place), trained, arrays, options.weights, data=data, **limits)
        written = replace(written, checked=found)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder, header, source)
    except OSError as error:
        raise OSError(f"cannot write into {folder} ({error.strerror}): choose another with --out") from error
    return written


def _texts(trained: Trained, model: Plain, folder: Path, options: Options, data: Any) -> tuple[str, str, Written]:
    layers = f"{len(model.layers)} layer{'s' if len(model.layers) > 1 else ''}"
    title = (
        f"coRNN ({trained.name}): {layers} of {model.hidden} neurons, {model.inputs} inputs, {model.outputs} outputs."
    )
    about = {"title": title.encode("ascii", "replace").decode(), "version": cornn.__version__}
    count, pads = model.multiplications, -model.hidden % 4
    if options.weights == "float32":
        source, constants = float_source(model, about)
        count["tanh"] = TANH_MULTIPLICATIONS * model.hidden * len(model.layers)
        scratch = 4 * (model.hidden + pads + 4 + (0 if model.mean is None else model.inputs))
        state_type, state_format = "float", ""
    elif options.weights == "int8":
        formats = calibrate(model, calibration(trained, options.calibration, data))
        source, constants = fixed_source(model, formats, about)
        count |= {"tanh": model.hidden * len(model.layers), "scales": 3 * model.hidden * len(model.layers)}
        count["scaling"] = 0 if model.embedding is not None else model.inputs
        widest = max(model.inputs, model.hidden)
        scratch = 2 * (2 * (model.hidden + pads) + widest + -widest % 4) + 4 * 3 * 4
        points = ", ".join(f"{y} and {z}" for y, z in zip(formats.y, formats.z, strict=True))
        state_type, state_format = "int32_t", f"; bits behind the binary point of y and z, by layer: {points}"
    else:
        raise ValueError(f"unknown weights {options.weights!r}: choose float32 or int8")
    header = render("model.h.in", about | _header(trained, model, state_type, state_format))
    state = 8 * model.hidden * len(model.layers)
    return header, source, Written(folder, options.weights, constants.bytes, state, scratch, count, None)


def _header(trained: Trained, model: Plain, state_type: str, state_format: str) -> dict[str, Any]:
    """What model.h says of this model."""
    sizes, step = "", "/* Take the next sample, in the units of the training data. */\n"
    if model.embedding is None:
        step += "void model_step(model_state *state, const float input[MODEL_INPUTS]);\n"
    else:
        sizes = f"#define MODEL_WORDS {len(model.embedding)}\n"
        step = "/* Take the next word; a number that is none counts as word 0. */\n"
        step += "void model_step(model_state *state, uint32_t word);\n"
    answers = ""
    if hasattr(trained.estimator, "classes_"):
        answers = ", a number a class: the largest is the likeliest"
    elif hasattr(trained.estimator, "targets_"):
        answers = ": by how much the next values will differ from the last ones"
    values = {"inputs": model.inputs, "hidden": model.hidden, "layers": len(model.layers), "outputs": model.outputs}
    return {**values, "sizes": sizes, "step": step, "answers": answers} | {
        "state_type": state_type,
        "state_format": state_format,
    }


def _write(folder: Path, header: str, source: str) -> None:
    with write_errors(folder):
        write_atomically(folder / "model.c", source.encode("ascii"))
        write_atomically(folder / "model.h", header.encode("ascii"))
