"""Measure exported code on emulated microcontrollers, and write results/microcontroller.json.

python benchmarks/microcontroller.py RUN [RUN ...] [--edgeml FOLDER]

RUN: finished runs of `cornn train har2`, of coRNN or of FastGRNN (--model fastgrnn). coRNN is exported with float32 and
with int8 weights; FastGRNN is written here from its equations, with the same products and the same tanh.
--edgeml: the folder c_reference of a checkout of microsoft/EdgeML, whose FastGRNN is then compiled and run as well: as
it is, with tanh in double precision, and with tanhf and single precision in its place.
Accuracies are over the whole test split, on this machine; instructions are those of the emulated processor.
"""

import argparse
import subprocess
import tempfile
from pathlib import Path
from string import Template

import numpy as np

from cornn._machine import machine
from cornn._source import source
from cornn.export import TrainedModel
from cornn.export.c import COptions, cortex, host, to_c
from cornn.export.c.float32 import emit_arithmetic, pack_rows
from cornn.export.c.source import Constants, render
from cornn.export.c.vectors import ReferenceVectors, make_vectors
from cornn.lab.runs import open_run, write_json
from cornn.lab.trained import load_trained
from cornn.models import count_parameters

HERE = Path(__file__).resolve().parent
WINDOWS = 64  # that the emulator runs
LARGEST_DIFFERENCE = 1e-3  # of an answer on the emulator from PyTorch's, of float32 code


def cornn_rows(trained: TrainedModel, vectors: ReferenceVectors) -> list[dict]:
    rows = []
    for weights in ("float32", "int8"):
        with tempfile.TemporaryDirectory() as place:
            files = to_c(trained, place, COptions(weights=weights))
            arguments = Path(place), vectors.sequences[:WINDOWS], vectors.answers.shape[1]
            measured = cortex.measure(*arguments)
            other = cortex.measure(*arguments, "cortex-m3")
            on_host = _on_host(Path(place), vectors)
        assert files.checked is not None
        row = _row(trained, "cornn", weights, measured, other, vectors)
        row |= {"state": files.state, "constants": files.flash, "multiplications": files.multiplications}
        row |= {"accuracy": files.checked.c, "difference": files.checked.difference}
        # Whole numbers are the same everywhere; only the last multiplication, with the head's scale, may be fused.
        for answers in (measured.answers, other.answers):
            assert weights == "float32" or np.allclose(answers, on_host[:WINDOWS], rtol=1e-6, atol=1e-6)
        rows.append(row)
    return rows


def fastgrnn_rows(trained: TrainedModel, vectors: ReferenceVectors, edgeml: Path | None) -> list[dict]:
    rows = []
    for code in ["ours", *(["edgeml", "edgeml-single"] if edgeml else [])]:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            constants = _write_fastgrnn(folder, trained, code)
            sources, flags = [], []
            if edgeml is not None and code != "ours":
                for path in sorted((edgeml / "include").glob("*.h")):
                    (folder / path.name).write_bytes(path.read_bytes())
                sources = [edgeml / "src" / "fastgrnn.c", edgeml / "src" / "utils.c"]
            if code == "edgeml-single":
                (folder / "single.h").write_text("#include <math.h>\n#define tanh tanhf\n", encoding="utf8")
                flags = ["-include", str(folder / "single.h"), "-fsingle-precision-constant"]
            arguments = folder, vectors.sequences[:WINDOWS], vectors.answers.shape[1]
            measured = cortex.measure(*arguments, sources=sources, flags=flags)
            other = cortex.measure(*arguments, "cortex-m3", sources=sources, flags=flags)
            on_host = _on_host(folder, vectors, sources)
        row = _row(trained, code, "float32", measured, other, vectors)
        layer = trained.model.layer
        m, d = layer.hidden_size, layer.input_size
        # EdgeML's products each add two more for a row: its factors alpha and beta.
        scaling = 0 if code == "ours" else 4 * m
        row |= {"state": 4 * m, "constants": constants.bytes}
        row |= {"multiplications": {"weights": m * (d + m), "gates": 3 * m, "scaling": scaling}}
        row |= {"accuracy": vectors.measure(on_host), "difference": float(np.abs(on_host - vectors.answers).max())}
        rows.append(row)
    return rows


def _row(
    trained: TrainedModel,
    code: str,
    weights: str,
    measured: cortex.Measurement,
    other: cortex.Measurement,
    vectors: ReferenceVectors,
) -> dict:
    difference = float(np.abs(measured.answers - vectors.answers[:WINDOWS]).max())
    assert weights == "int8" or difference <= LARGEST_DIFFERENCE, difference
    size = trained.model.layer.hidden_size
    return {
        "model": "coRNN" if code == "cornn" else "FastGRNN",
        "units": size,
        "code": code,
        "weights": weights,
        "parameters": count_parameters(trained.model),
        "flash": measured.flash,
        "other_ram": measured.ram,
        "stack": measured.stack,
        "instructions": round(measured.instructions, 1),
        "instructions_cortex_m3": round(other.instructions, 1),
        "difference_on_emulator": difference,
        "pytorch_accuracy": vectors.measure(vectors.answers),
    }


def _write_fastgrnn(folder: Path, trained: TrainedModel, code: str) -> Constants:
    cell, head = trained.model.layer.cell(), trained.model.head
    arguments = cell.arguments()
    W, U, parameters = (part.detach().double().numpy() for part in (arguments[0], arguments[2], arguments[3]))
    arrange = pack_rows if code == "ours" else np.asarray
    constants = Constants()
    arrays = {"W": arrange(W), "U": arrange(U), "b_z": parameters[0], "b_h": parameters[1]}
    arrays |= {"zeta": parameters[2, :1], "nu": parameters[3, :1]}
    arrays |= {"head_W": head.weight.detach().numpy(), "head_b": head.bias.detach().numpy()}
    for name, array in arrays.items():
        constants.add(name, array, "float32")
    sizes = {"inputs": W.shape[1], "hidden": W.shape[0], "outputs": head.out_features}
    source = "fastgrnn.c.in" if code == "ours" else "edgeml.c.in"
    for target, template in (("model.h", "fastgrnn.h.in"), ("model.c", source)):
        text = Template((HERE / "microcontroller" / template).read_text(encoding="utf8"))
        values = {**sizes, "constants": constants.text(), "arithmetic": emit_arithmetic()}
        (folder / target).write_text(text.safe_substitute(values), encoding="utf8")
    return constants


def _on_host(folder: Path, vectors: ReferenceVectors, sources: list[Path] | None = None) -> np.ndarray:
    """Return the outputs of a folder's code on this machine, over all sequences."""
    program = folder / "check"
    values = {"sample": "float sample[MODEL_INPUTS]", "address": "", "span": "", "every": 0}
    program.with_suffix(".c").write_text(render("check.c.in", values), encoding="utf8")
    files = [folder / "model.c", program.with_suffix(".c"), *(sources or [])]
    subprocess.run(["gcc", "-O2", f"-I{folder}", *map(str, files), "-o", str(program), "-lm"], check=True)
    return host.run_program(program, vectors.sequences, vectors.answers.shape[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--edgeml", type=Path)
    parser.add_argument("--edgeml-version", help="what to note of the checkout, such as its commit")
    parser.add_argument("--to", type=Path, default=HERE.parent / "results" / "microcontroller.json")
    options = parser.parse_args()
    rows, sources = [], []
    for path in options.runs:
        trained = load_trained(path)
        vectors = make_vectors(trained, 10**9)
        run = open_run(path)
        about = {name: run.config[name] for name in ("model", "task", "recipe", "optimiser", "budget", "seed")}
        sources.append(about | {"test": (run.result or {})["test"], "compared_on": vectors.words})
        if type(trained.model.layer).__name__ == "FastGRNN":
            rows += fastgrnn_rows(trained, vectors, options.edgeml)
        else:
            rows += cornn_rows(trained, vectors)
    versions = {tool: _version(tool) for tool in ("arm-none-eabi-gcc", "qemu-system-arm", "gcc")}
    content = {
        "measured": "instructions of one step, with SysTick under qemu's -icount shift=0; bytes of arm-none-eabi-size",
        "processors": {name: " ".join((board, *flags)) for name, (flags, board) in cortex.PROCESSORS.items()},
        "flags": " ".join(cortex.FLAGS),
        "tools": versions,
        "machine": machine(),
        **source(),
        "edgeml": options.edgeml_version,
        "runs": sources,
        "rows": rows,
    }
    write_json(options.to, content, indent=1)
    for row in rows:
        print(row)


def _version(tool: str) -> str:
    return subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]


if __name__ == "__main__":
    main()
