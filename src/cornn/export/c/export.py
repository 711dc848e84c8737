"""Export a trained model to C99, compile it, and compare it with PyTorch."""

import re
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import cornn
from cornn._arguments import Argument, ArgumentError
from cornn._atomic import write_errors, write_together
from cornn.export.c import host
from cornn.export.c.check import Comparison, check
from cornn.export.c.float32 import TANH_MULTIPLICATIONS, emit_float32
from cornn.export.c.int8 import calibrate, emit_int8
from cornn.export.c.ir import ModelIR, extract_ir
from cornn.export.c.source import render
from cornn.export.c.vectors import load_calibration
from cornn.export.load import TrainedBank, TrainedModel, wrap_model

if TYPE_CHECKING:
    from cornn.export.c.bank import BankExport

__all__ = ["CExport", "COptions", "to_c"]


@dataclass(frozen=True)
class COptions:
    """Options of the export and its check."""

    weights: Literal["float32", "int8"] = "float32"
    """float32, or int8 with integer arithmetic, calibrated on training data."""
    sequences: int | None = None
    """Number of test sequences to compare on. Default: as many as take about ten seconds."""
    calibration: int = 256
    """Number of training sequences for the calibration of int8."""
    largest_loss: float = 1.0
    """Maximum loss of int8, in points of accuracy or percent of another metric."""
    max_flash: int | None = None
    """Maximum bytes of constants of an oscillator bank; neurons are dropped until they fit."""
    max_ram: int | None = None
    """Maximum bytes of state of an oscillator bank."""

    def __post_init__(self) -> None:
        for name, count in (("sequences", self.sequences), ("calibration", self.calibration)):
            if count is not None and count < 1:
                raise ArgumentError(Argument(name), f" must be at least 1, got {count}")


@dataclass(frozen=True)
class CExport:
    """Exported code: its memory, its cost and its check."""

    folder: Path
    weights: str
    flash: int  # bytes of weights and tables, without code
    state: int  # bytes of RAM for the state
    scratch: int  # bytes of arrays on the stack during a step
    multiplications: dict[str, int]  # per step, by purpose
    checked: Comparison | None  # None: no compiler found

    def lines(self) -> list[str]:
        """Describe the export in a few lines of text."""
        count = sum(self.multiplications.values())
        parts = ", ".join(f"{number:,} {name}" for name, number in self.multiplications.items() if number)
        lines = [
            f"{self.folder / 'model.h'}, {self.folder / 'model.c'}: {self.weights} weights",
            f"flash: {self.flash:,} bytes of weights and tables, plus code; RAM: {self.state:,} bytes of state, plus "
            f"{self.scratch:,} bytes of arrays on the stack during a step",
            f"{count:,} multiplications per step: {parts}",
        ]
        check = self.checked
        if check is None:
            return [*lines, "not checked: no gcc, clang or cc found; install one and export again"]
        return [
            *lines,
            f"compiled without warnings; on {check.words} ({check.sanitized:,} of them also under the sanitizers) the "
            f"largest difference is {check.difference:.1e} of PyTorch's largest output",
            f"same class as PyTorch: {check.c:.6g} % of {check.words}"
            if check.metric == "agreement"
            else f"{check.metric}: PyTorch {check.pytorch:.6g}, C {check.c:.6g}",
        ]


def to_c(
    model: Any,
    folder: Path | str,
    options: COptions = COptions(),  # noqa: B008
    data: Any = None,
    target: Any = None,
) -> "CExport | BankExport":
    r"""Export a model to model.h and model.c, after compiling them here and comparing them with PyTorch.

    Args:
        model: A `SequenceModel`, a fitted estimator, or a model from `cornn.export.load_model`.
        folder: The folder to write to.
        options: Options of the export and its check.
        data: Sequences for calibration and comparison, if the model has no task: for an estimator any input of
            `predict`, for a bare model a tensor (time, batch, inputs).
        target: Labels or targets of an estimator's `data`. They judge int8 weights by accuracy or R² instead of
            agreement with PyTorch; dropping neurons needs them.

    Returns:
        Memory, cost and check of the code.

    Raises:
        ValueError: If the model cannot be exported, or deviates too much from PyTorch.

    Examples:
        >>> to_c(classifier, "device", COptions(weights="int8"), X).lines()
    """
    trained = wrap_model(model)
    if isinstance(trained, TrainedBank):
        from cornn.export.c.bank import bank_to_c  # needs scikit-learn

        if options.weights != "float32":
            words = "an oscillator bank is exported with float32 weights: omit "
            raise ArgumentError(words, Argument("weights"), ", or use ", Argument("max_flash"))
        limits = {"max_flash": options.max_flash, "max_ram": options.max_ram}
        return bank_to_c(trained.estimator, folder, **limits, data=data, target=target)
    folder, arrays = Path(folder), extract_ir(trained)
    files, exported = _render_files(trained, arrays, folder, options, data)
    if options.max_flash is not None or options.max_ram is not None:
        raise ArgumentError(
            f"this network needs {exported.flash:,} bytes of flash and {exported.state:,} bytes of RAM with "
            f"{options.weights} weights; ",
            *(Argument("max_flash"), " and ", Argument("max_ram")),
            " drop neurons of oscillator banks only: omit them, or fit it with a smaller hidden_size",
            " or export int8 weights" if options.weights == "float32" else "",
        )
    if host.find_compiler() is not None:
        limits = {"count": options.sequences, "largest_loss": options.largest_loss}
        with tempfile.TemporaryDirectory() as place:
            with write_errors(Path(place)):
                write_together(Path(place), files)
            checked = check(Path(place), trained, arrays, options.weights, data=data, target=target, **limits)
        exported = replace(exported, checked=checked)
    with write_errors(folder):
        write_together(folder, files)
    return exported


def _render_files(
    trained: TrainedModel, model: ModelIR, folder: Path, options: COptions, data: Any
) -> tuple[dict[str, bytes], CExport]:
    layers = f"{len(model.layers)} layer{'s' if len(model.layers) > 1 else ''}"
    # What could end or start a comment, or continue a line, does not belong into one.
    name = re.sub(r"[^ -~]|[*\\]", "?", trained.name)
    title = f"coRNN ({name}): {layers} of {model.hidden} neurons, {model.inputs} inputs, {model.outputs} outputs."
    about = {"title": title, "version": cornn.__version__}
    count, pads = model.multiplications, -model.hidden % 4
    if options.weights == "float32":
        source, constants = emit_float32(model, about)
        count["tanh"] = TANH_MULTIPLICATIONS * model.hidden * len(model.layers)
        scratch = 4 * (model.hidden + pads + 4)
        state_type, known_type, state_format = "float", "float", ""
    elif options.weights == "int8":
        formats = calibrate(model, load_calibration(trained, options.calibration, data))
        source, constants = emit_int8(model, formats, about)
        count |= {"tanh": model.hidden * len(model.layers), "scales": 3 * model.hidden * len(model.layers)}
        count["scaling"] = 0 if model.embedding is not None else model.inputs
        widest = max(model.inputs, model.hidden)
        scratch = 2 * (2 * (model.hidden + pads) + widest + -widest % 4) + 4 * 3 * 4
        points = ", ".join(f"{y} and {z}" for y, z in zip(formats.y, formats.z, strict=True))
        state_type, known_type, state_format = "int32_t", "int16_t", f"; fractional bits of y and z per layer: {points}"
    else:
        raise ValueError(f"unknown weights {options.weights!r}: choose float32 or int8")
    types = {"state_type": state_type, "known_type": known_type, "state_format": state_format}
    header = render("model.h.in", about | _header(trained, model, types))
    state = 8 * model.hidden * len(model.layers)
    if model.mean is not None:
        known = model.inputs * (4 if known_type == "float" else 2)
        state += known + -known % 4
    files = {"model.h": header.encode("ascii"), "model.c": source.encode("ascii")}
    return files, CExport(folder, options.weights, constants.bytes, state, scratch, count, None)


ANSWERS = {
    "classes": "; one logit per class: the largest is the most likely class",
    "numbers": "",
    "changes": ": the changes from the last values to the next ones",
}
"""Meaning of the outputs -> the words in model.h."""


MISSING = {
    "known": "; NaN is a missing value: the last known one counts, or the mean if there is none",
    "float": ": finite numbers",
    "int32_t": "; NaN counts as 0",
}
"""What the state of a model holds -> what model.h says about NaN."""


def _header(trained: TrainedModel, model: ModelIR, types: dict[str, str]) -> dict[str, Any]:
    """Return the values of the template of model.h."""
    sizes, step = "", "/* Process the next sample, in the units of the training data. */\n"
    if model.embedding is None:
        step += "void model_step(model_state *state, const float input[MODEL_INPUTS]);\n"
    else:
        sizes = f"#define MODEL_WORDS {len(model.embedding)}\n"
        step = "/* Process the next word; an index out of range counts as word 0. */\n"
        step += "void model_step(model_state *state, uint32_t word);\n"
    answers = "" if trained.estimator is None else ANSWERS[trained.estimator.output_spec().meaning]
    values = {"inputs": model.inputs, "hidden": model.hidden, "layers": len(model.layers), "outputs": model.outputs}
    known, missing = "", MISSING[types["state_type"]] if model.embedding is None else ""
    if model.mean is not None:
        known = f"\n    {types['known_type']} known[MODEL_INPUTS]; /* last known values, scaled */"
        missing = MISSING["known"]
    return {**values, **types, "sizes": sizes, "step": step, "answers": answers, "known": known, "missing": missing}
