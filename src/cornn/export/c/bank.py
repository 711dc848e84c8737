"""Export an oscillator bank to C99, and make it smaller for a device."""

import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

import cornn
from cornn._arguments import Argument, ArgumentError
from cornn._atomic import write_errors, write_together
from cornn.engine.bank import GROUP, Bank
from cornn.estimators.bank_inputs import CONSTANT, GAPS, LARGEST, PRIOR_STEPS
from cornn.estimators.bank_model import BankModel, shrink_bank_model
from cornn.estimators.methods import SequenceEstimator
from cornn.estimators.series import SequenceData
from cornn.estimators.times import LONGEST
from cornn.export.bank import draw_sequences
from cornn.export.c import host
from cornn.export.c.float32 import emit_tanh
from cornn.export.c.source import Constants, number, render, rows
from cornn.functional import spectrum

__all__ = ["BankExport", "bank_to_c", "measure_memory"]

LIMIT = 0.02
"""Largest deviation from Python, relative to the largest output: rounding may move a sample across a threshold."""
FARTHEST = 1e15
"""Largest standardised value: sums of squares of 10^8 of them are below the largest float32."""
VECTORS, VECTOR_STEPS = 3, 60  # number of sequences of the example, and their maximum length
COMPARED = 200  # maximum number of sequences to compare on
STEP = ("keep", "push", "pull", "dt")
"""Constants of a usual step, one per neuron."""
TRANSITION = ("rate", "other", "yy", "yz", "zy", "zz", "ease", "turn")
"""Constants of a step over any time, one per neuron."""
AT_LEAST = "static float at_least(float x, float low)\n{\n    return x > low ? x : low;\n}\n\n"
TIMED = {
    "span": ", float span",
    "timespan": ", float timespan",
    "about_times": " `timespan` is the time since the previous one;\n"
    "   a negative number or NaN if unknown, as for the first: then it counts as a usual step.",
    "moved": "s->steps && span > 0.0f",
    "per_span": " / span",
    "given": ", span",
    "elapsed": "s->elapsed",
    "duration": "    const duration by = read_timespan(timespan, !s->steps);\n    const float span = by.steps;",
    "advance": "            advance(n, &by, force, y, z);",
    "pass": "\n    s->elapsed += span;",
}
"""What the code of a model with times has at the marks of the templates."""


@dataclass(frozen=True)
class BankExport:
    """Exported code: its memory and its check."""

    folder: Path
    neurons: int
    flash: int  # bytes of weights and tables, without code
    state: int  # bytes of RAM for the state
    kept: tuple[str, float, float] | None  # name of a score, before and after neurons were dropped
    deviation: float | None  # largest difference from Python, relative to the largest output; None: no compiler found
    compared: int  # sequences
    agreement: float | None  # share of the sequences with the same class, for a classifier

    def lines(self) -> list[str]:
        """Describe the export in a few lines of text."""
        lines = [
            f"{self.folder / 'model.h'}, model.c and an example main.c: {self.neurons:,} neurons, float32",
            f"flash: {self.flash:,} bytes of weights and tables, plus code; RAM: {self.state:,} bytes of state",
        ]
        if self.kept is not None:
            name, before, after = self.kept
            factor, unit = (100, " %") if name.startswith("accuracy") else (1, "")
            scores = f"{factor * before:.4g}{unit} before, {factor * after:.4g}{unit} after"
            lines.append(f"neurons were dropped to fit: {name} {scores}")
        if self.deviation is None:
            return [*lines, "not checked: no gcc, clang or cc found; install one and export again"]
        lines.append(
            f"compiled without warnings, also under the sanitizers; on {self.compared:,} sequences the largest "
            f"difference from Python is {self.deviation:.1e} of the largest output"
        )
        if self.agreement is not None:
            lines.append(f"same class as Python: {100 * self.agreement:.6g} %")
        return lines


def measure_memory(model: BankModel, groups: int | None = None) -> tuple[int, int]:
    """Return the bytes of flash for constants and the bytes of RAM for the state, of all groups of neurons or fewer."""
    bank, inputs, outputs = model.bank.bank, model.bank.inputs.features, len(model.readout.bias)
    levels, groups = bank.levels.shape[1], len(bank.first) if groups is None else groups
    timed, neurons = model.bank.inputs.unit is not None, groups * GROUP
    steps = len(TRANSITION) if timed else len(STEP)
    flash = groups * (4 + 4 * inputs) + 4 * neurons * (2 + steps + 2 * levels + bank.stats * outputs)
    flash += 4 * (4 * inputs + outputs)
    state = 4 + 4 * timed + 4 * inputs * 6 + 4 * neurons * 2 * (1 + 4 * levels + 3 * bank.plain)
    return flash, state


def bank_to_c(
    estimator: SequenceEstimator,
    folder: Path | str,
    *,
    max_flash: int | None = None,
    max_ram: int | None = None,
    data: Any = None,
    target: Any = None,
) -> BankExport:
    """Export a fitted classifier or regressor with an oscillator bank to model.h, model.c and an example main.c.

    Args:
        estimator: The fitted estimator. Its scalings must be causal.
        folder: The folder to write to.
        max_flash: Maximum bytes of constants; neurons are dropped until they fit.
        max_ram: Maximum bytes of state.
        data: Sequences to compare on, any input of `predict`. Default: drawn at random.
        target: Labels or targets of `data`, to choose the neurons to drop by leave-one-out error.

    Returns:
        Memory and check of the code.

    Raises:
        ValueError: If the model cannot be exported or made small enough, or deviates too much from Python.
    """
    model: BankModel = estimator.bank_
    if not model.bank.causal:
        words = "this model scales each sequence by itself, which needs all of it: fit it with "
        raise ArgumentError(words, Argument("causal", True))
    folder = Path(folder)
    model, kept = _fit_into(estimator, model, max_flash, max_ram, data, target)
    scale, offset = estimator.output_scaling()
    sequences = _sequences(estimator, data)
    expected = model(sequences) * scale + offset
    texts = _render_files(estimator, model, scale, offset, sequences, expected)
    flash, state = measure_memory(model)
    deviation = agreement = None
    if host.find_compiler() is not None:
        deviation, agreement = _check(texts, estimator, sequences, expected)
    with write_errors(folder):
        write_together(folder, {name: text.encode("ascii") for name, text in texts.items()})
    return BankExport(folder, model.bank.bank.neurons, flash, state, kept, deviation, len(sequences), agreement)


def _fit_into(estimator, model, max_flash, max_ram, data, target) -> tuple[BankModel, tuple[str, float, float] | None]:
    """Drop groups of neurons until the constants and the state fit."""
    limits = tuple(np.inf if limit is None else limit for limit in (max_flash, max_ram))

    def fits(groups: int) -> bool:
        return all(size <= limit for size, limit in zip(measure_memory(model, groups), limits, strict=True))

    def describe_need(groups: int) -> list[str | Argument]:
        """Say what the groups need, and which limits to raise to which number."""
        flash, state = measure_memory(model, groups)
        sizes = (("max_flash", flash, limits[0]), ("max_ram", state, limits[1]))
        parts: list[str | Argument] = []
        for name, size, limit in sizes:
            if size > limit:
                parts += [" and " if parts else f"{flash:,} bytes of flash and {state:,} bytes of RAM: raise "]
                parts += [Argument(name), f" to {size}"]
        return parts

    total = len(model.bank.bank.first)
    if fits(total):
        return model, None
    groups_left = next((groups for groups in range(total - 1, 0, -1) if fits(groups)), 0)
    if not groups_left:
        raise ArgumentError(f"{GROUP} neurons, the fewest there can be, need ", *describe_need(1))
    if data is None or target is None:
        advice = " with the labelled training data, to drop neurons"
        raise ArgumentError("the model needs ", *describe_need(total), ", or pass ", Argument("data"), advice)
    sequences = estimator.validate_input(data)
    if len(target) != len(sequences):
        raise ValueError(f"data has {len(sequences)} sequences and target {len(target)} entries: pass one per sequence")
    encoded = estimator.ridge_target(target)
    smaller, before, after = shrink_bank_model(model, sequences, encoded, groups_left)
    (name, first), (_, second) = (estimator.held_out_score(scores, encoded) for scores in (before, after))
    return smaller, (f"{name} (leave-one-out)", first, second)


def _sequences(estimator: SequenceEstimator, data: Any) -> list[SequenceData]:
    """Return sequences to compare on, rounded to float32 as the C code reads them."""
    if data is not None:
        read = estimator.validate_input(data)[:COMPARED]
    else:
        read = draw_sequences(estimator.bank_.bank.inputs, 20, VECTOR_STEPS)

    def rounded(values: NDArray) -> NDArray[np.float64]:
        return values.astype(np.float32).astype(np.float64)

    return [SequenceData(rounded(values), None if gaps is None else rounded(gaps)) for values, gaps in read]


def _render_files(estimator, model: BankModel, scale, offset, sequences, expected) -> dict[str, str]:
    bank, inputs = model.bank.bank, model.bank.inputs
    spec = estimator.output_spec()
    title = f"Oscillator bank ({type(estimator).__name__}): {bank.neurons} neurons, {inputs.features} inputs."
    about = {"title": title, "version": cornn.__version__}
    constants = Constants()
    constants.add("mean", inputs.mean, "float32")
    constants.add("rest", inputs.mean - inputs.mean.astype(np.float32), "float32")
    constants.add("unit", 1 / inputs.scale, "float32")
    constants.add("pace", inputs.scale / inputs.step, "float32")
    constants.add("first", bank.first, "int32")
    constants.add("direction", bank.direction, "float32")
    timed = dict.fromkeys(("span", "timespan", "per_span", "given", "pass", "times", "about_times"), "")
    timed |= {"moved": "s->steps", "elapsed": "(float)s->steps", "duration": "    const float span = 1.0f;"}
    timed["advance"] = "            *z = keep[n] * *z + push[n] * force - pull[n] * *y;\n            *y += dt[n] * *z;"
    if inputs.unit is None:
        for name, values in zip(STEP, bank.steps(), strict=True):
            constants.add(name, values, "float32")
    else:
        for name, (values, dtype) in _transition(bank).items():
            constants.add(name, values, dtype)
        timed |= TIMED | {"times": render("bank_times.c.in", {"unit": repr(inputs.unit), "longest": repr(LONGEST)})}
    for name in ("gain", "bias"):
        constants.add(name, getattr(bank, name), "float32")
    constants.add("level", bank.levels, "float32")
    constants.add("weight", model.readout.weight.astype(np.float64) * scale, "float32")
    constants.add("offset", model.readout.bias * scale + offset, "float32")
    limits = {"LARGEST": LARGEST, "FARTHEST": FARTHEST}
    text = "".join(f"#define {name} {number(np.float32(value))}\n" for name, value in limits.items()) + constants.text()
    words = [
        f"        channel[{view} * MODEL_INPUTS + i] = {_channel(channel)};"
        for view, channel in enumerate(inputs.views)
    ]
    plain = {"plain": "", "plain_step": "", "plain_read": ""}
    if bank.plain:
        plain["plain"] = "    float highest[2][MODEL_NEURONS], sum[2][MODEL_NEURONS], squares[2][MODEL_NEURONS];"
        plain["plain_step"] = (
            "            if (!s->steps || x > s->highest[v][n])\n                s->highest[v][n] = x;\n"
            "            s->sum[v][n] += x * span;\n            s->squares[v][n] += x * x * span;"
        )
        plain["plain_read"] = "\n".join(
            f"        for (int n = 0; n < MODEL_NEURONS; n++)\n            w = add(w, {feature}, output);"
            for feature in (
                "s->highest[v][n]",
                "s->sum[v][n] * per_time",
                "root_of(s->squares[v][n] * per_time)",
                "s->state[v][n]",
            )
        )
    running = any(view != GAPS and view[0] != "set" for view in inputs.views)
    # Unused functions are warnings.
    arithmetic = emit_tanh() + AT_LEAST * running + render("root.c.in", {}) * (running or bank.plain)
    source = render(
        "bank.c.in",
        {**about, **plain, **timed, "views": len(inputs.views), "prior": number(np.float32(PRIOR_STEPS)),
         "constants": text, "arithmetic": arithmetic, "channels": "\n".join(words)},
    )  # fmt: skip
    names, answers = "", ""
    if spec.classes:
        labels = [_quote(label) for label in spec.classes]
        names = "extern const char *const model_classes[MODEL_OUTPUTS];\n"
        source += f"\nconst char *const model_classes[MODEL_OUTPUTS] = {{{', '.join(labels)}}};\n"
        answers = "; one logit per class: the largest is the most likely class"
    header = render(
        "bank.h.in",
        {**about, **plain, **timed, "inputs": inputs.features, "neurons": bank.neurons, "levels": bank.levels.shape[1],
         "outputs": len(model.readout.bias), "classes": names, "answers": answers,
         "elapsed": "" if inputs.unit is None else "\n    float elapsed;"},
    )  # fmt: skip
    return {"model.h": header, "model.c": source, "main.c": _example(spec, sequences, expected)}


def _transition(bank: Bank) -> dict[str, tuple[NDArray, str]]:
    """Return the constants of `TRANSITION` and their types."""
    of = spectrum(*torch.tensor(bank.constants))
    rings, gap = of.rings > 0, (of.log_fast - of.log_slow) / np.log(2)
    values = {"rate": of.log_slow / np.log(2), "other": torch.where(rings, 0.0, gap)}
    # In C the powers of real eigenvalues have the factor -1/2.
    values |= {name: torch.where(rings, 1.0, -2.0) * getattr(of, name) for name in ("yy", "yz", "zy", "zz")}
    values["ease"] = of.compliance
    turn = torch.round(of.turn / 2 * 2.0**32).numpy()
    return {name: (entry.numpy(), "float32") for name, entry in values.items()} | {"turn": (turn, "uint32")}


def _channel(view: tuple[str, bool]) -> str:
    if view == GAPS:
        return "missing ? 1.0f : 0.0f"
    scaling, differences = view
    if scaling == "set":
        return "change" if differences else "value"
    floor = number(np.float32(CONSTANT))
    if differences:
        return f"change / root_of(at_least((PRIOR + s->sums[3][i]) / total, {floor}))"
    average = "s->sums[0][i] / total"
    return (
        f"(value - {average}) / root_of(at_least((PRIOR + s->sums[1][i]) / total - {average} * ({average}), {floor}))"
    )


def _quote(label: Any) -> str:
    """Return a C string of a label; what is not printable ASCII is escaped."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in str(label).encode()
    )
    return f'"{escaped}"'


def _example(spec: Any, sequences: list[SequenceData], expected: NDArray) -> str:
    short = [row for row, sequence in enumerate(sequences) if len(sequence.values) <= VECTOR_STEPS]
    chosen = short[:VECTORS] or [0]
    samples = [sequences[row].values.astype(np.float32) for row in chosen]
    table, spans = np.concatenate(samples), ""
    if sequences[0].gaps is not None:
        known = np.nan_to_num(np.concatenate([np.asarray(sequences[row].gaps) for row in chosen]), nan=-1.0)
        spans = f"static const float spans[{len(known)}] = {{ /* since the previous sample; -1: unknown */\n"
        spans += f"{rows(known.astype(np.float32))}\n}};"
    name = "model_classes[best]" if spec.classes else '"number"'
    values = {
        "count": len(samples),
        "total": len(table),
        "spans": spans,
        "span": ", spans[next]" if spans else "",
        "samples": "\n".join(f"    {{{', '.join(_sample(value) for value in row)}}}," for row in table),
        "lengths": ", ".join(str(len(sequence)) for sequence in samples),
        "expected": "\n".join(f"    {{{rows(row.astype(np.float32)).strip()}}}," for row in expected[chosen]),
        "limit": number(np.float32(LIMIT)),
        "print": f'printf("sequence %d: %s, first output %g\\n", sequence, {name}, (double)output[0]);',
    }
    return render("bank_main.c.in", values)


def _sample(value: np.float32) -> str:
    return "(0.0f / 0.0f)" if np.isnan(value) else number(value)


def _check(
    texts: dict[str, str], estimator: Any, sequences: list[SequenceData], expected: NDArray
) -> tuple[float, float | None]:
    """Compile the code, run it on the sequences and the example, and return deviation and agreement."""
    outputs, timed = expected.shape[1], sequences[0].gaps is not None
    tables = [
        np.column_stack([values] if gaps is None else [values, gaps]).astype(np.float32) for values, gaps in sequences
    ]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        for name, text in texts.items():
            (folder / name).write_text(text, encoding="ascii")
        port = {"sample": "float sample[MODEL_INPUTS]", "span": ""}
        if timed:
            port = {"sample": "float sample[MODEL_INPUTS + 1]", "span": ", sample[MODEL_INPUTS]"}
        program = render("check.c.in", {**port, "address": "", "every": 0})
        program = program.replace("model_state state;", "static model_state state;")
        host.compile_and_run(folder, program, tables[:5], outputs, sanitized=True)
        answers = host.compile_and_run(folder, program, tables, outputs, sanitized=False)
        host.compile_program(folder, folder / "main", sanitized=False)
        if subprocess.run([str(folder / "main")], capture_output=True).returncode:
            raise RuntimeError("the example main.c disagrees with the model on this machine")
    largest = max(float(np.abs(expected).max()), 1e-30)
    deviation = float(np.abs(answers - expected).max()) / largest
    if not deviation <= LIMIT:
        raise ValueError(
            f"the outputs of the C code deviate from Python's by {deviation:.1e} of the largest, more than {LIMIT}: "
            "it is not written. Check that the sequences are like the training data"
        )
    classes = estimator.output_spec().classes
    return deviation, float((answers.argmax(1) == expected.argmax(1)).mean()) if classes else None
